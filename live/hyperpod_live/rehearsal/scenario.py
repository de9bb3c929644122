"""Scenario files: jobs in the order they arrive, and what the policy should make of them.

Time is the scenario's own. A job that runs for an hour does not take one: whenever nothing changes any more,
the rehearsal goes on to the next arrival, the next change of nodes or the next job that is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from hyperpod_config import explain, findings
from hyperpod_config.findings import Finding, Place
from hyperpod_config.model import DnsLabel, EntityName, InstanceCount, LabelKey, LabelValue, Model, StackName
from hyperpod_config.source import Origin, Source, position, shown
from hyperpod_governance.quantity import QuantityError, parse_quantity

FOREVER = float("inf")
MAX_PODS = 5000
"""Most pods of one job: more would measure the machine, not the policy."""


def _quantity(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise PydanticCustomError("quantity", "must be a Kubernetes quantity such as 4, 500m or 96Gi")
    try:
        amount = parse_quantity("", str(value))
    except QuantityError as error:
        raise PydanticCustomError("quantity", "{problem}", {"problem": str(error)}) from error
    if amount < 0:
        raise PydanticCustomError("quantity", "{value} is negative", {"value": str(value)})
    return str(value)


def _run_time(value: object) -> float:
    if value == "forever":
        return FOREVER
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise PydanticCustomError("run_time", "must be a number of seconds above 0, or forever")
    return float(value)


def _layout(value: object) -> Layout:
    """Nested lists of equal depth with node counts at the bottom."""
    problem = (
        "must be nested lists, the widest layer first, with node counts at the bottom: [[[3, 2]], [[2]]]"
    )
    if not isinstance(value, list) or not value or _depth(value) is None:
        raise PydanticCustomError("layout", "{problem}", {"problem": problem})
    frozen: Layout = _frozen(value)
    return frozen


def _depth(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return 0 if value >= 1 else None
    if not isinstance(value, list) or not value:
        return None
    depths = {_depth(item) for item in value}
    only = depths.pop()
    return None if depths or only is None else only + 1


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


Layout = tuple[Any, ...]
"""Nodes by layer: a tuple for each domain, the widest first, with node counts at the bottom."""
Quantity = Annotated[str, PlainValidator(_quantity)]
Seconds = Annotated[float, Field(ge=0, le=10_000_000)]
RunTime = Annotated[float, PlainValidator(_run_time)]
JobName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=40)]


class TopologyRequest(Model):
    """What a job asks of the network; one of the two, as Kueue has it."""

    required: LabelKey | None = Field(None, description="All pods in one domain of this label.")
    preferred: LabelKey | None = Field(None, description="As few domains of this label as possible.")

    @model_validator(mode="after")
    def _one(self) -> TopologyRequest:
        if (self.required is None) == (self.preferred is None):
            raise PydanticCustomError("one_of_missing", "needs exactly one of required, preferred")
        return self


class Placement(Model):
    """Where the pods of a job should land."""

    same_domain: LabelKey | None = Field(None, description="All nodes have one value of this label.")
    domains: dict[LabelKey, Annotated[int, Field(ge=1)]] = Field(
        {}, description="Number of values that this label has on the nodes."
    )
    instance_type: str | None = Field(None, description="Instance type of all nodes.")


class Expectation(Model):
    """What should become of a job; what is not said is not checked."""

    admitted: bool | None = Field(None, description="Whether Kueue admitted it at any time.")
    admitted_after: JobName | None = Field(
        None, description="A job that had to be over or preempted before this one was admitted."
    )
    at_end: Literal["running", "finished", "pending"] | None = Field(
        None, description="What it is doing when the scenario is over."
    )
    scheduled: bool | None = Field(None, description="Whether all its pods found a node.")
    borrows: bool | None = Field(
        None, description="Whether its queue used more than its own quota when this job was admitted."
    )
    preempts: list[JobName] | None = Field(None, description="Exactly the jobs that made room for it.")
    preempted_by: JobName | None = Field(None, description="The job that it made room for.")
    reason_contains: str | None = Field(None, description="Part of something that Kueue said about it.")
    placement: Placement | None = Field(None, description="Where its pods are.")


class Job(Model):
    """One job: equal pods of one team."""

    name: JobName = Field(description="Name of the job; unique in the scenario.")
    team: DnsLabel = Field(description="Team whose namespace and queue it goes to.")
    priority_class: DnsLabel | None = Field(None, description="Priority class as the fleet names it.")
    pods: Annotated[int, Field(ge=1, le=MAX_PODS)] = Field(1, description="Number of pods.")
    resources: dict[LabelKey, Quantity] = Field({}, description="What each pod requests.")
    instance_type: str | None = Field(None, description="Instance type to run on; any if absent.")
    node_selector: dict[LabelKey, LabelValue] = Field({}, description="Labels that its nodes must have.")
    topology: TopologyRequest | None = Field(None, description="What it asks of the network.")
    arrival: Seconds | None = Field(
        None, description="Second at which it is submitted; one after the job before it if absent."
    )
    run_time: RunTime = Field(FOREVER, description="Seconds that it runs once it is admitted, or forever.")
    expect: Expectation | None = Field(None, description="What should become of it.")


class Scale(Model):
    """Nodes that come or go."""

    time: Seconds = Field(description="Second at which it happens, before the jobs of that second.")
    instance_group: EntityName = Field(description="Instance group.")
    instance_count: InstanceCount = Field(description="Number of its nodes from then on.")


class ScenarioTopology(Model):
    """Network that the nodes of each instance type stand in."""

    shape: list[Annotated[int, Field(ge=1)]] | None = Field(
        None,
        min_length=1,
        max_length=16,
        description="Domains in each domain of the layer above; last the nodes in each domain of the lowest.",
    )
    layout: Annotated[Layout, PlainValidator(_layout)] | None = Field(
        None, description="Nested lists, the widest layer first, with node counts at the bottom."
    )

    @model_validator(mode="after")
    def _one(self) -> ScenarioTopology:
        if (self.shape is None) == (self.layout is None):
            raise PydanticCustomError("one_of_missing", "needs exactly one of shape, layout")
        return self


class ScenarioSpec(Model):
    """Jobs on one cluster."""

    cluster: StackName | None = Field(None, description="Cluster; the only governed one if absent.")
    at: Literal["target", "minimum"] | None = Field(
        None, description="Nodes to begin with: instanceCount (target) or minInstanceCount."
    )
    topology: ScenarioTopology | None = Field(None, description="Network of the nodes.")
    scale: list[Scale] = Field([], max_length=100, description="Nodes that come or go.")
    jobs: list[Job] = Field(min_length=1, max_length=1000, description="Jobs, in the order they arrive.")


class Scenario(Model):
    """A test of policy."""

    api_version: Literal["hyperpod-fleet/v1alpha1"] = Field(description="hyperpod-fleet/v1alpha1")
    kind: Literal["Scenario"] = Field(description="Scenario")
    metadata: ScenarioMetadata = Field(description="Its name.")
    spec: ScenarioSpec = Field(description="What happens.")


class ScenarioMetadata(Model):
    """Name of a scenario."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)] = (
        Field(description="Name of the scenario.")
    )
    description: str | None = Field(None, description="What it shows.")


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """A scenario and where it stands."""

    scenario: Scenario
    origin: Origin

    def place(self, path: Iterable[str | int]) -> Place:
        """Place of the value at ``path``, or of its nearest parent that the file has."""
        return self.origin.place(tuple(path))


@dataclass(frozen=True, slots=True)
class Read:
    """What scenario files hold; ``scenarios`` is complete only when there are no findings."""

    scenarios: tuple[ScenarioFile, ...]
    findings: tuple[Finding, ...]


def read(paths: Iterable[Path]) -> Read:
    """Read scenario files; never raises for what they hold."""
    scenarios: list[ScenarioFile] = []
    found: list[Finding] = []
    for path in paths:
        source = read_source(path)
        if isinstance(source, Finding):
            found.append(source)
            continue
        for item in _documents(source):
            (found if isinstance(item, Finding) else scenarios).append(item)  # type: ignore[arg-type]
    found += _duplicates(scenarios)
    return Read(tuple(scenarios), tuple(sorted(found, key=lambda it: (it.place, it.rule, it.message))))


def read_source(path: Path) -> Source | Finding:
    """Read a YAML file as text, or say why it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return findings.file_unreadable(Place(shown(path), 1, 1), error.strerror or str(error))
    try:
        return Source(str(path), data.decode().removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        before = data[: error.start].decode().removeprefix("\ufeff")
        return findings.not_utf8(Place(shown(path), *position(before)), data[error.start], error.start)


def _documents(source: Source) -> Iterator[ScenarioFile | Finding]:
    tree = source.tree
    yield from tree.findings
    documents = [(index, node) for index, node in enumerate(tree.documents) if node.value is not None]
    if not documents and tree.complete:
        yield findings.empty_file(Place(source.file, 1, 1))
    for index, node in documents:
        explained = explain.document(source, index, node, {"Scenario": Scenario})
        yield from explained.findings
        if explained.model is not None:
            yield ScenarioFile(explained.model, Origin(source, index))


def _duplicates(scenarios: Iterable[ScenarioFile]) -> Iterator[Finding]:
    first: dict[str, Place] = {}
    for item in scenarios:
        name, place = item.scenario.metadata.name, item.place(("metadata", "name"))
        if name in first:
            yield findings.duplicate_document(place, "Scenario", name, first[name])
        first.setdefault(name, place)
