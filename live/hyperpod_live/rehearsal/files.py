"""Job manifests from files: what people submit, read with places and submitted as it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperpod_config import findings
from hyperpod_config.findings import Finding, Place, rule
from hyperpod_config.source import Source
from hyperpod_config.suggest import did_you_mean, one_of
from hyperpod_governance.model import ResolvedGovernance
from hyperpod_live.rehearsal.scenario import Expectation, read_source
from hyperpod_live.rehearsal.submission import GROUP_LABEL, PRIORITY_LABEL, QUEUE_LABEL, Manifest, Submission


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job that can be rehearsed; ``framework`` is Kueue's name of it.

    ``operator`` says that another program would make its pods, which does not run here.
    """

    api_version: str
    framework: str
    operator: bool = True


KINDS: Mapping[str, Kind] = {
    "Job": Kind("batch/v1", "batch/job", operator=False),
    "Pod": Kind("v1", "pod", operator=False),
    "PyTorchJob": Kind("kubeflow.org/v1", "kubeflow.org/pytorchjob"),
    "JobSet": Kind("jobset.x-k8s.io/v1alpha2", "jobset.x-k8s.io/jobset"),
    "RayJob": Kind("ray.io/v1", "ray.io/rayjob"),
    "RayCluster": Kind("ray.io/v1", "ray.io/raycluster"),
}


@rule("HPF850", "Not a job that can be rehearsed")
def not_a_job(place: Place, kind: str, hint: str) -> Finding:
    """**What it means.** The manifest is of a kind that the rehearsal does not submit.

    **Why it matters.** Leaving it out in silence would look as if it had run.

    **Example.** A ConfigMap in a file that is given with `--job`.

    **Fix.** Give files with Job, Pod, PyTorchJob, JobSet, RayJob or RayCluster only. A HyperPodPyTorchJob can
    be rehearsed as a PyTorchJob with the same replicas.
    """
    return not_a_job.finding(place, f"{kind} is no kind of job that can be rehearsed", hint)


@rule("HPF851", "A job for something that the fleet does not have")
def unknown_name(place: Place, what: str, name: str, allowed: Sequence[str]) -> Finding:
    """**What it means.** A job or scenario names a cluster, team, namespace, queue, class or group that is
    not there.

    **Why it matters.** Kueue would leave the job pending, or leave it alone, and say so only to who asks.

    **Example.** `namespace: hyperpod-ns-visoin`; `team: visoin` in a scenario.

    **Fix.** Take a name of the fleet; the message lists them.
    """
    hint = did_you_mean(name, allowed)
    return unknown_name.finding(place, f"no {what} {name}; there is {one_of(allowed) or 'none'}", hint)


@rule("HPF852", "A job without a queue")
def no_queue(place: Place, name: str, namespace: str, queue: str) -> Finding:
    """**What it means.** The manifest has no label `kueue.x-k8s.io/queue-name`.

    **Why it matters.** With owner sagemaker Kueue leaves such a job alone and the add-on's admission policy
    refuses it.

    **Example.** A Job whose label stands on the pod template only.

    **Fix.** Put the label on the job itself, with the LocalQueue of its namespace.
    """
    message = f"{name} names no queue: the add-on refuses jobs without one"
    return no_queue.finding(place, message, f"add the label {QUEUE_LABEL}: {queue} of namespace {namespace}")


@dataclass(frozen=True, slots=True)
class ReadJobs:
    """Jobs of files, or the findings that say why there are none."""

    submissions: tuple[Submission, ...]
    findings: tuple[Finding, ...]

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Kueue's names of the kinds that are there."""
        return tuple(sorted({KINDS[item.kind].framework for item in self.submissions}))


@dataclass(frozen=True, slots=True)
class _Document:
    source: Source
    index: int
    content: dict[str, Any]

    def place(self, *path: str | int) -> Place:
        return self.source.place(self.index, path)


def read_jobs(paths: Iterable[Path], governance: ResolvedGovernance) -> ReadJobs:
    """Read job manifests for one cluster, in the order of the files; each arrives after the one before."""
    found: list[Finding] = []
    documents: list[_Document] = []
    for path in paths:
        source = read_source(path)
        if isinstance(source, Finding):
            found.append(source)
            continue
        found += [item for item in source.tree.findings if item.rule not in _LANGUAGE]
        documents += _documents(source)
    for document in documents:
        found += _mistakes(document, governance)
    if found:
        return ReadJobs((), tuple(sorted(found, key=lambda it: (it.place, it.rule, it.message))))
    return ReadJobs(tuple(_submissions(documents, governance)), ())


_LANGUAGE = frozenset({findings.outside_language.id})
"""What our config language leaves out and a Kubernetes manifest may have."""


def _documents(source: Source) -> Iterator[_Document]:
    for index, node in enumerate(source.tree.documents):
        content = node.plain()
        if content is None:
            continue
        yield _Document(source, index, content if isinstance(content, dict) else {})


def _metadata(content: Mapping[str, Any]) -> Mapping[str, Any]:
    found = content.get("metadata")
    return found if isinstance(found, dict) else {}


def _labels(content: Mapping[str, Any], field: str = "labels") -> Mapping[str, Any]:
    found = _metadata(content).get(field)
    return found if isinstance(found, dict) else {}


def _mistakes(document: _Document, governance: ResolvedGovernance) -> Iterator[Finding]:
    content = document.content
    kind = content.get("kind")
    if kind not in KINDS or content.get("apiVersion") != KINDS[str(kind)].api_version:
        shown = f"{content.get('apiVersion', 'no apiVersion')} {kind or 'no kind'}"
        allowed = one_of([f"{known.api_version} {name}" for name, known in KINDS.items()])
        yield not_a_job(document.place("kind"), shown, f"allowed is {allowed}")
        return
    if not isinstance(_metadata(content).get("name"), str):
        yield findings.missing_field(document.place("metadata"), "metadata.name", "")
        return
    spaces = {item.name: item.team for item in governance.namespaces}
    namespace = str(_metadata(content).get("namespace", "default"))
    if namespace not in spaces:
        place = document.place("metadata", "namespace")
        yield unknown_name(place, "namespace", namespace, sorted(spaces))
        return
    yield from _queue_mistakes(document, governance, namespace)
    classes = sorted(item.name for item in governance.priority_classes)
    wanted = _labels(content).get(PRIORITY_LABEL)
    if wanted is not None and wanted not in classes:
        place = document.place("metadata", "labels", PRIORITY_LABEL)
        yield unknown_name(place, "WorkloadPriorityClass", str(wanted), classes)


def _queue_mistakes(document: _Document, governance: ResolvedGovernance, namespace: str) -> Iterator[Finding]:
    queues = [item.name for item in governance.local_queues if item.namespace == namespace]
    queue = _labels(document.content).get(QUEUE_LABEL)
    if queue is None and governance.owner == "sagemaker":
        name = f"{document.content['kind']} {_metadata(document.content)['name']}"
        yield no_queue(document.place("metadata"), name, namespace, queues[0] if queues else "(none)")
    elif queue is not None and queue not in queues:
        place = document.place("metadata", "labels", QUEUE_LABEL)
        yield unknown_name(place, f"LocalQueue in namespace {namespace}", str(queue), queues)


def _submissions(documents: Sequence[_Document], governance: ResolvedGovernance) -> Iterator[Submission]:
    teams = {item.name: item.team for item in governance.namespaces}
    groups: dict[tuple[str, str], list[_Document]] = {}
    for document in documents:
        content = document.content
        namespace = str(_metadata(content).get("namespace", "default"))
        group = _labels(content).get(GROUP_LABEL) if content["kind"] == "Pod" else None
        name = str(group or _metadata(content)["name"])
        groups.setdefault((namespace, f"{content['kind']}/{name}"), []).append(document)
    for number, ((namespace, key), members) in enumerate(groups.items()):
        manifests = tuple(_fake(document.content) for document in members)
        yield Submission(
            name=key.partition("/")[2],
            team=teams[namespace],
            manifests=manifests,
            pods=_pods(manifests),
            arrival=float(number),
            expect=Expectation.model_validate({"admitted": True, **_scheduled(manifests[0])}),
            place=members[0].place("metadata", "name"),
            notes=_notes(manifests[0]),
        )


def _scheduled(manifest: Manifest) -> dict[str, bool]:
    return {} if KINDS[manifest["kind"]].operator else {"scheduled": True}


def _notes(manifest: Manifest) -> tuple[str, ...]:
    if not KINDS[manifest["kind"]].operator:
        return ()
    return (
        f"no operator for {manifest['kind']} runs here: its pods are not made, its nodes are Kueue's plan",
    )


def _fake(manifest: Manifest) -> Manifest:
    """A pod leaves at once when it is preempted: a fake node has nothing to save."""
    if manifest["kind"] != "Pod":
        return manifest
    return {**manifest, "spec": {**manifest.get("spec", {}), "terminationGracePeriodSeconds": 0}}


def _pods(manifests: Sequence[Manifest]) -> int:
    first = manifests[0]
    if KINDS[first["kind"]].operator:
        return 0
    if first["kind"] == "Pod":
        return len(manifests)
    spec = first.get("spec", {})
    parallel, completions = spec.get("parallelism", 1), spec.get("completions")
    return int(parallel if completions is None else min(parallel, completions))
