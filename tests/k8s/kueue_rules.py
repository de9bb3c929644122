"""What an API server with Kueue v0.19.2 would say about an object, as far as it can be said offline.

The CRD schemas are Kueue's own (data/kueue_crds.json). CEL rules and the rules of the validating webhooks are
stated here again in Python; a CEL rule that the CRDs have and this file does not is itself a problem.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from hyperpod_governance.quantity import base_units, format_quantity, parse_quantity

KINDS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "kueue_crds.json").read_text("utf-8")
)["kinds"]

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

Object = dict[str, Any]


def problems(item: Object) -> list[str]:
    """Everything that would be refused or changed on the way into the cluster."""
    found = [*_metadata(item)]
    kind = item["kind"]
    if kind not in KINDS:
        return found + _schema_problems(CORE[kind], item)
    found += _schema_problems(KINDS[kind]["schema"], item)
    if found:
        return found
    found += _walk(KINDS[kind]["schema"], item, kind)
    return found + (list(WEBHOOKS[kind](item["spec"])) if kind in WEBHOOKS else [])


# --- metadata ---------------------------------------------------------------------------------------------


def _metadata(item: Object) -> Iterator[str]:
    metadata, kind = item["metadata"], item["kind"]
    unknown = set(metadata) - {"name", "namespace", "labels", "annotations"}
    if unknown:
        yield f"metadata has {sorted(unknown)}"
    name = DNS_LABEL if kind == "Namespace" else SUBDOMAIN
    if not name.fullmatch(metadata["name"]) or len(metadata["name"]) > (63 if kind == "Namespace" else 253):
        yield f"{metadata['name']!r} is no name for a {kind}"
    if ("namespace" in metadata) != (kind in NAMESPACED):
        yield f"{kind} with namespace {metadata.get('namespace')}"
    for key, value in {**metadata.get("labels", {}), **metadata.get("annotations", {})}.items():
        if not _qualified_name(key) or not isinstance(value, str):
            yield f"{key}: {value!r} is no label or annotation"
    for key, value in metadata.get("labels", {}).items():
        if not _label_value(str(value)):
            yield f"label {key}: {value!r}"


def _qualified_name(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return (not slash or (bool(SUBDOMAIN.fullmatch(prefix)) and len(prefix) <= 253)) and (
        bool(LABEL_NAME.fullmatch(name)) and len(name) <= 63
    )


def _label_value(value: str) -> bool:
    return not value or (bool(LABEL_NAME.fullmatch(value)) and len(value) <= 63)


# --- schemas ----------------------------------------------------------------------------------------------


def _schema_problems(schema: Object, item: Object) -> list[str]:
    errors = _validator(json.dumps(schema)).iter_errors(item)
    return [f"{error.json_path}: {error.message}" for error in errors]


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator(_strict(json.loads(schema)))


def _strict(node: Any) -> Any:
    """JSON Schema of an OpenAPI v3 schema; unknown fields are refused, as with strict validation."""
    if isinstance(node, list):
        return [_strict(value) for value in node]
    if not isinstance(node, dict):
        return node
    strict = {key: _strict(value) for key, value in node.items()}
    if isinstance(strict.get("properties"), dict):
        strict.setdefault("additionalProperties", False)
    if strict.get("format") == "int32":
        strict |= {"minimum": -(2**31), "maximum": 2**31 - 1}
    return strict


def _walk(schema: Object, value: Any, path: str) -> list[str]:
    """Defaults left out, quantities that would be re-written, list-map keys, and CEL."""
    found = [f"{path}: {problem}" for problem in _node_problems(schema, value, path)]
    if isinstance(value, dict):
        for key, below in schema.get("properties", {}).items():
            if key in value:
                found += _walk(below, value[key], f"{path}.{key}")
            elif "default" in below:
                found.append(f"{path}.{key}: the API server would fill in {below['default']!r}")
    if isinstance(value, list):
        for index, entry in enumerate(value):
            found += _walk(schema["items"], entry, f"{path}[{index}]")
    return found


def _node_problems(schema: Object, value: Any, path: str) -> Iterator[str]:
    if schema.get("x-kubernetes-int-or-string") and not _canonical(value):
        yield f"{value!r} is no canonical quantity"
    if schema.get("x-kubernetes-list-type") in ("map", "set"):
        keys = schema.get("x-kubernetes-list-map-keys")
        entries = [tuple(entry[key] for key in keys) if keys else entry for entry in value]
        if len(set(entries)) < len(entries):
            yield f"duplicates in {entries}"
    for rule in schema.get("x-kubernetes-validations", []):
        if "oldSelf" in rule["rule"]:
            continue  # Speaks of updates only.
        if rule["rule"] not in CEL:
            yield f"this file does not state the CEL rule {rule['rule']!r}"
        elif not CEL[rule["rule"]](value):
            yield str(rule["message"])


def _canonical(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    # Binary suffixes stay binary and all others decimal, whatever the resource.
    resource = "memory" if value.endswith("i") else "cpu"
    amount = parse_quantity(resource, value)
    # A larger one is cut down, to what Kueue takes for no limit.
    countable = amount < base_units(resource) * (2**63 - 1)
    return countable and format_quantity(resource, amount) == value


# --- CEL --------------------------------------------------------------------------------------------------


def _limits(spec: Object, name: str) -> bool:
    return any(
        name in quota
        for group in spec.get("resourceGroups", [])
        for flavor in group["flavors"]
        for quota in flavor["resources"]
    )


EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
CEL: dict[str, Callable[[Any], bool]] = {
    "!has(self.cohortName) && has(self.resourceGroups) ? self.resourceGroups.all(rg, rg.flavors.all(f, "
    "f.resources.all(r, !has(r.borrowingLimit)))) : true": lambda spec: (
        "cohortName" in spec or not _limits(spec, "borrowingLimit")
    ),
    "self.flavors.all(x, size(x.resources) == size(self.coveredResources))": lambda group: all(
        len(flavor["resources"]) == len(group["coveredResources"]) for flavor in group["flavors"]
    ),
    "!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor' && "
    "self.whenCanPreempt == 'TryNextFlavor')": (
        lambda value: (
            "preference" not in value or value["whenCanBorrow"] == value["whenCanPreempt"] == "TryNextFlavor"
        )
    ),
    "!(self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort) &&  "
    "self.borrowWithinCohort.policy != 'Never')": lambda value: (
        value["reclaimWithinCohort"] != "Never"
        or value.get("borrowWithinCohort", {}).get("policy", "Never") == "Never"
    ),
    "!has(self.topologyName) || self.nodeLabels.size() >= 1": lambda spec: (
        "topologyName" not in spec or bool(spec.get("nodeLabels"))
    ),
    "self.all(x, !has(x.key) ? x.operator == 'Exists' : true)": lambda items: all(
        "key" in item or item.get("operator") == "Exists" for item in items
    ),
    "self.all(x, has(x.tolerationSeconds) ? x.effect == 'NoExecute' : true)": lambda items: all(
        "tolerationSeconds" not in item or item["effect"] == "NoExecute" for item in items
    ),
    "self.all(x, !has(x.operator) || x.operator in ['Equal', 'Exists'])": lambda items: all(
        item.get("operator", "Equal") in ("Equal", "Exists") for item in items
    ),
    "self.all(x, has(x.operator) && x.operator == 'Exists' ? !has(x.value) : true)": lambda items: all(
        item.get("operator") != "Exists" or "value" not in item for item in items
    ),
    "self.all(x, !has(x.effect) || x.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])": (
        lambda items: all(item.get("effect", "NoSchedule") in EFFECTS for item in items)
    ),
    "self.all(x, x.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])": lambda items: all(
        item["effect"] in EFFECTS for item in items
    ),
    "size(self.filter(i, size(self.filter(j, j == i)) > 1)) == 0": lambda levels: (
        len({level["nodeLabel"] for level in levels}) == len(levels)
    ),
    "size(self.filter(i, i.nodeLabel == 'kubernetes.io/hostname')) == 0 || "
    "self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'": lambda levels: all(
        level["nodeLabel"] != "kubernetes.io/hostname" for level in levels[:-1]
    ),
}


# --- webhooks (pkg/webhooks of v0.19.2) -------------------------------------------------------------------


def _cluster_queue(spec: Object) -> Iterator[str]:
    yield from _resource_groups(spec, limits_allowed="cohortName" in spec)
    for quota in _quotas(spec):
        if "lendingLimit" in quota and _amount(quota["lendingLimit"]) > _amount(quota["nominalQuota"]):
            yield f"lendingLimit above nominalQuota in {quota}"
    selector = spec.get("namespaceSelector", {})
    if set(selector) - {"matchLabels"}:
        yield f"namespaceSelector selects by more than labels: {selector}"
    for key, value in selector.get("matchLabels", {}).items():
        if not _qualified_name(key) or not _label_value(value):
            yield f"namespaceSelector {key}: {value!r}"
    flavors = {flavor["name"] for group in spec.get("resourceGroups", []) for flavor in group["flavors"]}
    for check in spec.get("admissionChecksStrategy", {}).get("admissionChecks", []):
        yield from (f"check on {name}" for name in {*check.get("onFlavors", [])} - flavors)


def _cohort(spec: Object) -> Iterator[str]:
    yield from _resource_groups(spec, limits_allowed="parentName" in spec)


def _resource_groups(spec: Object, limits_allowed: bool) -> Iterator[str]:
    groups = spec.get("resourceGroups", [])
    flavors = [flavor["name"] for group in groups for flavor in group["flavors"]]
    covered = [name for group in groups for name in group["coveredResources"]]
    for what, names in (("flavor", flavors), ("resource", covered)):
        yield from (f"{what} {name} twice" for name, count in Counter(names).items() if count > 1)
        if len(names) > 256:
            yield f"{len(names)} of {what}"
    for group in groups:
        if len(group["flavors"]) * len(group["coveredResources"]) > 512:
            yield "more than 512 quotas in a group"
        for flavor in group["flavors"]:
            if [quota["name"] for quota in flavor["resources"]] != group["coveredResources"]:
                yield f"resources of {flavor['name']} are not in the order of coveredResources"
    yield from (f"{name} is no resource name" for name in covered if not _qualified_name(name))
    for quota in _quotas(spec):
        yield from (
            f"negative {key} in {quota}" for key in quota if key != "name" and _amount(quota[key]) < 0
        )
        if not limits_allowed and {"borrowingLimit", "lendingLimit"} & set(quota):
            yield f"limits without a cohort in {quota}"
    # Kueue refuses less than 0, and fractions that come to nothing; ours have no fractions.
    if not spec.get("fairSharing", {}).get("weight", "1").isdigit():
        yield "weight that is no whole number"


def _quotas(spec: Object) -> Iterator[Object]:
    for group in spec.get("resourceGroups", []):
        for flavor in group["flavors"]:
            yield from flavor["resources"]


def _amount(text: str) -> int:
    return parse_quantity("cpu", text)


def _resource_flavor(spec: Object) -> Iterator[str]:
    for key, value in spec.get("nodeLabels", {}).items():
        if not _qualified_name(key) or not _label_value(value):
            yield f"node label {key}: {value!r}"
    for taint in (*spec.get("nodeTaints", []), *spec.get("tolerations", [])):
        if not _qualified_name(taint.get("key", "any")):
            yield f"key of taint or toleration {taint['key']!r}"
        if not _label_value(taint.get("value", "")):
            yield f"value of taint or toleration {taint['value']!r}"
    taints = [(taint["key"], taint["effect"]) for taint in spec.get("nodeTaints", [])]
    if len(set(taints)) < len(taints):
        yield f"duplicate taints {taints}"


WEBHOOKS: dict[str, Callable[[Object], Iterator[str]]] = {
    "ClusterQueue": _cluster_queue,
    "Cohort": _cohort,
    "ResourceFlavor": _resource_flavor,
}


# --- kinds of Kubernetes itself ---------------------------------------------------------------------------


def _record(optional: Object | None = None, **required: Any) -> Object:
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def _list(of: Object) -> Object:
    return {"type": "array", "items": of, "minItems": 1}


def _kind(api_version: str, kind: str, **content: Any) -> Object:
    return _record(
        apiVersion={"const": api_version}, kind={"const": kind}, metadata={"type": "object"}, **content
    )


_TEXT = {"type": "string"}
_FILLED = {"type": "string", "minLength": 1}
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io/v1"
_RULES = _list(_record(apiGroups=_list(_TEXT), resources=_list(_FILLED), verbs=_list(_FILLED)))
_ROLE_REF = _record(apiGroup={"const": _RBAC}, kind={"const": "ClusterRole"}, name=_FILLED)
_SUBJECTS = _list(_record(apiGroup={"const": _RBAC}, kind={"const": "Group"}, name=_FILLED))
_SELECTOR = _record({"matchExpressions": _list(_record(key=_FILLED, operator={"enum": ["Exists"]}))})
# The API server would fill in the three: they must be written out.
_MATCH = {"matchPolicy": {"const": "Equivalent"}, "namespaceSelector": _SELECTOR, "objectSelector": _SELECTOR}
_RESOURCE_RULES = _list(
    _record(
        apiGroups=_list(_TEXT),
        apiVersions=_list(_FILLED),
        operations=_list({"enum": ["CREATE", "UPDATE", "DELETE", "CONNECT"]}),
        resources=_list(_FILLED),
        scope={"enum": ["*", "Cluster", "Namespaced"]},
    )
)
_POLICY_SPEC = _record(
    failurePolicy={"enum": ["Fail", "Ignore"]},
    matchConstraints=_record(**_MATCH, resourceRules=_RESOURCE_RULES),
    matchConditions=_list(_record(name=_FILLED, expression=_FILLED)),
    validations=_list(_record(expression=_FILLED, message=_FILLED, reason={"const": "Invalid"})),
)
_BINDING_SPEC = _record(
    policyName=_FILLED,
    validationActions=_list({"enum": ["Deny", "Warn", "Audit"]}),
    matchResources=_record(**_MATCH),
)

CORE: dict[str, Object] = {
    "Namespace": _kind("v1", "Namespace"),
    "ClusterRole": _kind(f"{_RBAC}/v1", "ClusterRole", rules=_RULES),
    "RoleBinding": _kind(f"{_RBAC}/v1", "RoleBinding", roleRef=_ROLE_REF, subjects=_SUBJECTS),
    "ClusterRoleBinding": _kind(f"{_RBAC}/v1", "ClusterRoleBinding", roleRef=_ROLE_REF, subjects=_SUBJECTS),
    "ValidatingAdmissionPolicy": _kind(_ADMISSION, "ValidatingAdmissionPolicy", spec=_POLICY_SPEC),
    "ValidatingAdmissionPolicyBinding": _kind(
        _ADMISSION, "ValidatingAdmissionPolicyBinding", spec=_BINDING_SPEC
    ),
}
NAMESPACED = {"RoleBinding", *(kind for kind, entry in KINDS.items() if entry["scope"] == "Namespaced")}
