"""What Kueue v0.19.2 can refuse, rule by rule, and why no config makes such an object.

Sources: the CRD schemas with their CEL rules (`apis/kueue/v1beta2`) and the validating webhooks
(`pkg/webhooks`). Not here, because no object of ours has the field: `concurrentAdmissionPolicy` (behind an
alpha gate that is off), Workload and AdmissionCheck.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.k8s.k8s_fleets import example

from hyperpod_governance import catalog
from hyperpod_k8s.objects import manifests

Object = dict[str, Any]

GOOD: dict[str, Object] = {
    item["kind"]: item for file in manifests(example("kueue")) for item in file.objects
}
"""One object of each kind, as we make it."""


@dataclass(frozen=True)
class Config:
    """A config that asks for it: changes of the good fleet, and the rule that refuses them with a place."""

    rule: str
    changes: dict[str, Any]


@dataclass(frozen=True)
class Case:
    """An object that is refused.

    `server` and `judge` are parts of what the API server and the offline judge (`tests/k8s`) say. `never`
    is the config that we refuse, or why no config can lead there; that the judge finds nothing in hundreds of
    random fleets is the test of the latter.
    """

    about: str
    kind: str
    spoil: Callable[[Object], Any]
    server: str
    judge: str
    never: Config | str

    def __str__(self) -> str:
        return f"{self.kind} {self.about}"

    def item(self) -> Object:
        """The spoilt object."""
        item = copy.deepcopy(GOOD[self.kind])
        self.spoil(item)
        return item


# --- ways to spoil ------------------------------------------------------------------------------------------


def _spec(**values: Any) -> Callable[[Object], Any]:
    return lambda item: item["spec"].update(values)


def _quotas(item: Object) -> list[Object]:
    found: list[Object] = item["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    return found


def _quota(**values: str) -> Callable[[Object], Any]:
    return lambda item: _quotas(item)[0].update(values)


def _groups(groups: int, flavors: int, resources: int) -> Callable[[Object], Any]:
    def group(number: int) -> Object:
        names = [f"example.com/r{number}-{index}" for index in range(resources)]
        quotas = [{"name": name, "nominalQuota": "1"} for name in names]
        made = [{"name": f"f{number}-{index}", "resources": quotas} for index in range(flavors)]
        return {"coveredResources": names, "flavors": made}

    return lambda item: item["spec"].update(resourceGroups=[group(number) for number in range(groups)])


def _second_group(**same: str) -> Callable[[Object], Any]:
    """Repeat the one group with another flavor or another resource, so that the rest is there twice."""

    def spoil(item: Object) -> None:
        first = item["spec"]["resourceGroups"][0]
        second = copy.deepcopy(first)
        first["flavors"], second["flavors"] = first["flavors"][:1], second["flavors"][:1]
        if "flavor" in same:
            second["flavors"][0]["name"] = same["flavor"]
        if "resource" in same:
            second["coveredResources"] = [same["resource"]]
            second["flavors"][0]["resources"] = [{"name": same["resource"], "nominalQuota": "1"}]
        item["spec"]["resourceGroups"].append(second)

    return spoil


def _without_cohort(limit: str) -> Callable[[Object], Any]:
    def spoil(item: Object) -> None:
        del item["spec"]["cohortName"]
        for quota in _quotas(item):
            quota.pop("borrowingLimit", None)
            quota[limit] = "0"

    return spoil


def _resource(name: str) -> Callable[[Object], Any]:
    def spoil(item: Object) -> None:
        item["spec"]["resourceGroups"][0]["coveredResources"][0] = name
        for flavor in item["spec"]["resourceGroups"][0]["flavors"]:
            flavor["resources"][0]["name"] = name

    return spoil


def _toleration(**values: Any) -> Callable[[Object], Any]:
    return _spec(tolerations=[values])


def _taint(**values: Any) -> Callable[[Object], Any]:
    return _spec(nodeTaints=[values])


def _levels(*labels: str) -> Callable[[Object], Any]:
    return _spec(levels=[{"nodeLabel": label} for label in labels])


# --- why not ------------------------------------------------------------------------------------------------

STUDIO = "studio/spec/governance"
GROUP = "studio/spec/instanceGroups/1"
ALLOCATION = "llm/spec/allocations/1"

ONE_GROUP = "kueue._resource_groups writes one group, of flavors and resources that are keys of dicts"
ALIGNED = "resolve._align gives every flavor all covered resources, in one order"
ALWAYS_COHORT = "resolve._Resolver.queue names a Cohort for every queue, and the field has no default"
ROOT_UNLIMITED = "resolve._Resolver.cohorts aligns the pool of the root with borrowing_limit=None"
LENDS_ALL_OR_NOTHING = "resolve._resource_quota sets the lending limit to 0 or not at all"
FIXED = "kueue.cluster_queue writes this policy out, the same for every queue"
NO_TAINTS = "kueue.resource_flavor writes no nodeTaints: Kueue takes them into account beside the nodes' own"
TOLERATION = "kueue._toleration writes key, Equal, effect and a value that is not empty"
LABEL = (
    "resolve._Resolver.flavor gives each flavor one label, and its value is an instance type of the catalog"
)
LEVELS = "resolve._Resolver.topology_levels: the catalog's labels, then kubernetes.io/hostname, none twice"
SELECTOR = "kueue.cluster_queue selects by one name, that of the team's namespace"
NAMES = "naming.py makes it of a word of ours and a name that the model has checked"
WHOLE = "weights are whole numbers in the model, and kueue._fair_sharing writes them as such"


def _cpu_types(count: int) -> list[Object]:
    return [
        {"name": f"group{index}", "instanceType": name, "instanceCount": 4, "minInstanceCount": 2}
        for index, name in enumerate(list(catalog.instance_types())[:count])
    ]


MANY_TYPES = Config("HPF701", {"research/spec/instanceGroups": _cpu_types(65)})


def _taints(*taints: Object) -> Config:
    return Config("HPF017", {f"{GROUP}/kubernetesConfig": {"taints": list(taints)}})


CLUSTER_QUEUE = [
    Case(
        "with an unknown field",
        "ClusterQueue",
        _spec(cohort="x"),
        "field not declared in schema",
        "'cohort' was unexpected",
        "kueue.cluster_queue writes fields of v1beta2 only",
    ),
    Case(
        "with an unknown strategy",
        "ClusterQueue",
        _spec(queueingStrategy="FIFO"),
        "Unsupported value",
        "is not one of",
        Config("HPF017", {f"{STUDIO}/kueue": {"queueingStrategy": "FIFO"}}),
    ),
    Case(
        "with an unknown stop policy",
        "ClusterQueue",
        _spec(stopPolicy="Stop"),
        "Unsupported value",
        "is not one of",
        Config("HPF017", {f"{ALLOCATION}/activationState": "Stop"}),
    ),
    Case(
        "with an unknown preemption",
        "ClusterQueue",
        lambda item: item["spec"]["preemption"].update(withinClusterQueue="Always"),
        "Unsupported value",
        "is not one of",
        Config("HPF017", {f"{ALLOCATION}/preemptTeamTasks": "Always"}),
    ),
    Case(
        "with an upper-case name",
        "ClusterQueue",
        lambda item: item["metadata"].update(name="Team"),
        "RFC 1123",
        "no name",
        Config("HPF017", {"llm/metadata/name": "Team"}),
    ),
    Case(
        "with an empty cohort", "ClusterQueue", _spec(cohortName=""), "should match", "does not match", NAMES
    ),
    Case(
        "with an upper-case cohort",
        "ClusterQueue",
        _spec(cohortName="Vision"),
        "should match",
        "does not match",
        Config("HPF017", {"llm/spec/department": "Vision"}),
    ),
    Case(
        "with a borrowing limit without a cohort",
        "ClusterQueue",
        _without_cohort("borrowingLimit"),
        "borrowingLimit must be nil when cohort is empty",
        "borrowingLimit must be nil when cohort is empty",
        ALWAYS_COHORT,
    ),
    Case(
        "with a lending limit without a cohort",
        "ClusterQueue",
        _without_cohort("lendingLimit"),
        "must be nil when cohort is empty",
        "limits without a cohort",
        ALWAYS_COHORT,
    ),
    Case(
        "whose flavor lacks a covered resource",
        "ClusterQueue",
        lambda item: _quotas(item).pop(),
        "flavors must have the same number of resources as the coveredResources",
        "same number of resources",
        ALIGNED,
    ),
    Case(
        "with resources in another order",
        "ClusterQueue",
        lambda item: _quotas(item).reverse(),
        "must match the name in coveredResources",
        "not in the order of coveredResources",
        ALIGNED,
    ),
    Case(
        "with a resource in two groups",
        "ClusterQueue",
        _second_group(flavor="other"),
        "Duplicate value",
        "twice",
        ONE_GROUP,
    ),
    Case(
        "with a flavor in two groups",
        "ClusterQueue",
        _second_group(resource="example.com/other"),
        "Duplicate value",
        "twice",
        ONE_GROUP,
    ),
    Case(
        "with a flavor twice in a group",
        "ClusterQueue",
        lambda item: item["spec"]["resourceGroups"][0]["flavors"].append(
            item["spec"]["resourceGroups"][0]["flavors"][0]
        ),
        "duplicate",
        "duplicates in",
        ONE_GROUP,
    ),
    Case(
        "with a covered resource twice",
        "ClusterQueue",
        lambda item: item["spec"]["resourceGroups"][0].update(coveredResources=["cpu"] * len(_quotas(item))),
        "must match the name in coveredResources",
        "twice",
        ONE_GROUP,
    ),
    Case(
        "with a negative quota",
        "ClusterQueue",
        _quota(nominalQuota="-1"),
        "must be greater than or equal to 0",
        "negative nominalQuota",
        Config("HPF017", {f"{ALLOCATION}/quota/0/count": -1}),
    ),
    Case(
        "with a negative borrowing limit",
        "ClusterQueue",
        _quota(borrowingLimit="-1"),
        "must be greater than or equal to 0",
        "negative borrowingLimit",
        Config(
            "HPF017",
            {f"{ALLOCATION}/resourceSharingConfig": {"strategy": "LendAndBorrow", "borrowLimit": -1}},
        ),
    ),
    Case(
        "with a negative lending limit",
        "ClusterQueue",
        _quota(lendingLimit="-1"),
        "must be greater than or equal to 0",
        "negative lendingLimit",
        LENDS_ALL_OR_NOTHING,
    ),
    Case(
        "that lends more than it has",
        "ClusterQueue",
        _quota(lendingLimit="1k"),
        "must be less than or equal to the nominalQuota",
        "lendingLimit above nominalQuota",
        LENDS_ALL_OR_NOTHING,
    ),
    Case(
        "with a quota that is no quantity",
        "ClusterQueue",
        _quota(nominalQuota="lots"),
        "quantities must match the regular expression",
        "does not match",
        "quantity.format_quantity writes a number and a suffix",
    ),
    Case(
        "with 17 groups",
        "ClusterQueue",
        _groups(17, 1, 1),
        "must have at most 16 items",
        "too long",
        ONE_GROUP,
    ),
    Case(
        "with 260 flavors in all",
        "ClusterQueue",
        _groups(5, 52, 1),
        "total number of flavors across all resourceGroups",
        "260 of flavor",
        ONE_GROUP,
    ),
    Case(
        "with 260 resources in all",
        "ClusterQueue",
        _groups(5, 1, 52),
        "total number of covered resources across all resourceGroups",
        "260 of resource",
        ONE_GROUP,
    ),
    Case(
        "with 65 flavors in a group",
        "ClusterQueue",
        _groups(1, 65, 1),
        "must have at most 64 items",
        "too long",
        MANY_TYPES,
    ),
    Case(
        "with 65 resources in a group",
        "ClusterQueue",
        _groups(1, 1, 65),
        "must have at most 64 items",
        "too long",
        "the catalog has fewer resources than that, MIG profiles included",
    ),
    Case(
        "with 576 pairs of flavor and resource",
        "ClusterQueue",
        _groups(1, 64, 9),
        "number of flavor-resource combinations",
        "more than 512",
        MANY_TYPES,
    ),
    Case(
        "with a group of no resource",
        "ClusterQueue",
        _groups(1, 1, 0),
        "should have at least 1 items",
        "non-empty",
        "kueue.cluster_queue writes no group for a queue without flavors",
    ),
    Case(
        "with a resource that is no label key",
        "ClusterQueue",
        _resource("nvidia.com/mig 1g"),
        "Invalid value",
        "is no resource name",
        Config(
            "HPF017",
            {
                f"{ALLOCATION}/quota/0": {
                    "instanceType": "ml.p5.48xlarge",
                    "acceleratorPartition": {"type": "mig 1g", "count": 1},
                }
            },
        ),
    ),
    Case(
        "with a negative weight",
        "ClusterQueue",
        _spec(fairSharing={"weight": "-1"}),
        "must be greater than or equal to 0",
        "no whole number",
        Config("HPF017", {f"{ALLOCATION}/fairShareWeight": -1}),
    ),
    Case(
        "with a weight that is next to nothing",
        "ClusterQueue",
        _spec(fairSharing={"weight": "1n"}),
        "When not 0, weight must be",
        "no whole number",
        WHOLE,
    ),
    Case(
        "with an unknown operator",
        "ClusterQueue",
        _spec(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Is"}]}),
        "not a valid selector operator",
        "selects by more than labels",
        SELECTOR,
    ),
    Case(
        "that selects by a label value that is none",
        "ClusterQueue",
        _spec(namespaceSelector={"matchLabels": {"a": "no value"}}),
        "Invalid value",
        "namespaceSelector a: 'no value'",
        SELECTOR,
    ),
    Case(
        "that prefers what it does not try",
        "ClusterQueue",
        lambda item: item["spec"]["flavorFungibility"].update(preference="BorrowingOverPreemption"),
        "preference can only be set when",
        "preference can only be set when",
        FIXED,
    ),
    Case(
        "that preempts for borrowing and never reclaims",
        "ClusterQueue",
        lambda item: item["spec"]["preemption"].update(
            reclaimWithinCohort="Never", borrowWithinCohort={"policy": "LowerPriority"}
        ),
        "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        "reclaimWithinCohort=Never",
        FIXED,
    ),
    Case(
        "with a check on a flavor that it lacks",
        "ClusterQueue",
        _spec(admissionChecksStrategy={"admissionChecks": [{"name": "a", "onFlavors": ["other"]}]}),
        "Unsupported value",
        "check on other",
        "kueue.cluster_queue writes no admission checks",
    ),
]
OTHERS = [
    Case(
        "with limits but no parent",
        "Cohort",
        lambda item: item.update(
            spec={"resourceGroups": copy.deepcopy(GOOD["ClusterQueue"]["spec"]["resourceGroups"])}
        ),
        "must be nil when parent is empty",
        "limits without a cohort",
        ROOT_UNLIMITED,
    ),
    Case("with an empty parent", "Cohort", _spec(parentName=""), "should match", "does not match", NAMES),
    Case(
        "with an upper-case parent",
        "Cohort",
        _spec(parentName="Vision"),
        "should match",
        "does not match",
        Config("HPF017", {"science/spec/parent": "Vision"}),
    ),
    Case(
        "with a negative weight",
        "Cohort",
        _spec(fairSharing={"weight": "-1"}),
        "must be greater than or equal to 0",
        "no whole number",
        Config("HPF017", {"science/spec/fairShareWeight": -1}),
    ),
    Case(
        "of a queue that has no name",
        "LocalQueue",
        _spec(clusterQueue=""),
        "should match",
        "does not match",
        NAMES,
    ),
    Case(
        "with an unknown stop policy",
        "LocalQueue",
        _spec(stopPolicy="Stop"),
        "Unsupported value",
        "is not one of",
        "kueue.local_queue writes None: the ClusterQueue is what is stopped",
    ),
    Case(
        "with a topology and no labels",
        "ResourceFlavor",
        lambda item: item.update(spec={"nodeLabels": {}, "topologyName": "x"}),
        "at least one nodeLabel is required when topology is set",
        "at least one nodeLabel",
        LABEL,
    ),
    Case(
        "with a label value that is none",
        "ResourceFlavor",
        _spec(nodeLabels={"a": "no value"}),
        "Invalid value",
        "node label a",
        LABEL,
    ),
    Case(
        "with a label key that is none",
        "ResourceFlavor",
        _spec(nodeLabels={"no key": "a"}),
        "Invalid value",
        "node label no key",
        LABEL,
    ),
    Case(
        "with 9 labels",
        "ResourceFlavor",
        _spec(nodeLabels={f"l{index}": "a" for index in range(9)}),
        "must have at most 8 items",
        "too many properties",
        LABEL,
    ),
    Case(
        "with 9 tolerations",
        "ResourceFlavor",
        _spec(
            tolerations=[
                {"key": f"k{index}", "operator": "Exists", "effect": "NoSchedule"} for index in range(9)
            ]
        ),
        "must have at most 8 items",
        "too long",
        Config(
            "HPF702",
            {
                f"{GROUP}/kubernetesConfig": {
                    "taints": [{"key": f"k{index}", "effect": "NoSchedule"} for index in range(9)]
                }
            },
        ),
    ),
    Case(
        "that tolerates an unknown effect",
        "ResourceFlavor",
        _toleration(key="a", operator="Exists", effect="Never"),
        "supported taint effect values",
        "supported taint effect values",
        _taints({"key": "a", "effect": "Never"}),
    ),
    Case(
        "that tolerates by an unknown operator",
        "ResourceFlavor",
        _toleration(key="a", operator="In", effect="NoSchedule"),
        "supported toleration values",
        "supported toleration values",
        TOLERATION,
    ),
    Case(
        "that tolerates any value of one value",
        "ResourceFlavor",
        _toleration(key="a", operator="Exists", value="x", effect="NoSchedule"),
        "a value must be empty when 'operator' is 'Exists'",
        "a value must be empty",
        TOLERATION,
    ),
    Case(
        "that tolerates a value of no key",
        "ResourceFlavor",
        _toleration(operator="Equal", value="x", effect="NoSchedule"),
        "operator must be Exists when 'key' is empty",
        "operator must be Exists",
        TOLERATION,
    ),
    Case(
        "that tolerates for some time what evicts nobody",
        "ResourceFlavor",
        _toleration(key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=9),
        "effect must be 'NoExecute' when 'tolerationSeconds' is set",
        "effect must be 'NoExecute'",
        TOLERATION,
    ),
    Case(
        "that tolerates a key that is none",
        "ResourceFlavor",
        _toleration(key="a..b/c", operator="Exists", effect="NoSchedule"),
        "Invalid value",
        "key of taint or toleration",
        _taints({"key": "a..b/c", "effect": "NoSchedule"}),
    ),
    Case(
        "that tolerates a key with too long a prefix",
        "ResourceFlavor",
        _toleration(key=f"{'p' * 254}/c", operator="Exists", effect="NoSchedule"),
        "Invalid value",
        "key of taint or toleration",
        _taints({"key": f"{'p' * 254}/c", "effect": "NoSchedule"}),
    ),
    Case(
        "with a taint of an unknown effect",
        "ResourceFlavor",
        _taint(key="a", effect="Never"),
        "supported taint effect values",
        "supported taint effect values",
        NO_TAINTS,
    ),
    Case(
        "with a taint key that is none",
        "ResourceFlavor",
        _taint(key="no key", effect="NoSchedule"),
        "Invalid value",
        "key of taint or toleration",
        NO_TAINTS,
    ),
    Case(
        "with a taint value that is none",
        "ResourceFlavor",
        _taint(key="a", value="no value", effect="NoSchedule"),
        "Invalid value",
        "value of taint or toleration",
        NO_TAINTS,
    ),
    Case(
        "with a taint twice",
        "ResourceFlavor",
        _spec(nodeTaints=[{"key": "a", "value": value, "effect": "NoSchedule"} for value in "xy"]),
        "taints must be unique by key and effect pair",
        "duplicate taints",
        NO_TAINTS,
    ),
    Case(
        "with 9 taints",
        "ResourceFlavor",
        _spec(nodeTaints=[{"key": f"k{index}", "effect": "NoSchedule"} for index in range(9)]),
        "must have at most 8 items",
        "too long",
        NO_TAINTS,
    ),
    Case(
        "with an upper-case topology",
        "ResourceFlavor",
        _spec(topologyName="Network"),
        "should match",
        "does not match",
        NAMES,
    ),
    Case("with a level twice", "Topology", _levels("a", "a"), "must be unique", "must be unique", LEVELS),
    Case(
        "with the hostname above another level",
        "Topology",
        _levels("kubernetes.io/hostname", "a"),
        "can only be used at the lowest level",
        "lowest level",
        LEVELS,
    ),
    Case("without a level", "Topology", _levels(), "should have at least 1 items", "non-empty", LEVELS),
    Case(
        "with 17 levels",
        "Topology",
        _levels(*(f"l{index}" for index in range(17))),
        "must have at most 16 items",
        "too long",
        LEVELS,
    ),
    Case(
        "with a level that is no label key",
        "Topology",
        _levels("no key"),
        "should match",
        "does not match",
        LEVELS,
    ),
    Case(
        "beyond int32",
        "WorkloadPriorityClass",
        lambda item: item.update(value=2**31),
        "",
        "greater than the maximum",
        Config("HPF017", {f"{STUDIO}/schedulerConfig/priorityClasses/0/weight": 2**31}),
    ),
    Case(
        "without a value",
        "WorkloadPriorityClass",
        lambda item: item.pop("value"),
        "Required value",
        "'value' is a required property",
        "kueue.priority_class always writes it",
    ),
    Case(
        "with an upper-case name",
        "WorkloadPriorityClass",
        lambda item: item["metadata"].update(name="High"),
        "RFC 1123",
        "no name",
        Config("HPF017", {f"{STUDIO}/schedulerConfig/priorityClasses/0/name": "High"}),
    ),
    Case(
        "of 64 characters",
        "Namespace",
        lambda item: item["metadata"].update(name="n" * 64),
        "must be no more than 63",
        "no name",
        Config("HPF017", {"llm/metadata/name": "n" * 59}),
    ),
    Case(
        "with a label that is no string",
        "Namespace",
        lambda item: item["metadata"]["labels"].update(team=True),
        "",
        "no label",
        "kueue.namespace writes labels of strings",
    ),
    Case(
        "without a namespace",
        "LocalQueue",
        lambda item: item["metadata"].update(namespace="is-not-there"),
        "not found",
        "",
        "every LocalQueue comes with its Namespace: resolve._Resolver.governance",
    ),
]
CASES = CLUSTER_QUEUE + OTHERS
