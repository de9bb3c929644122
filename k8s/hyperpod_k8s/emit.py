"""YAML that a person reads and that every YAML reader understands the same way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

_NEVER_WRAP = 2**31 - 1


class _Dumper(yaml.CSafeDumper):
    """libyaml's block style, without anchors, for readers of YAML 1.1, of YAML 1.2 and of Go's mixture.

    PyYAML quotes what YAML 1.1 would not read as a string (``no``, ``12:30``). The resolvers below add what
    YAML 1.2 and the Go reader of kubectl, Helm and Argo CD take for numbers and booleans beside that: a team
    may be called ``1e3`` or ``y``.
    """

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.[\d_]+)([eE][-+]?\d+)?$"),
    list("-+.0123456789"),
)
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?0[bBoOxX][\da-fA-F_]+$"), list("-+0")
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]$"), list("yYnN"))


def to_yaml(objects: Iterable[dict[str, Any]]) -> str:
    """Write ``objects`` as one YAML stream; keys keep their order, equal objects give equal bytes."""
    return yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, explicit_start=True, allow_unicode=True, width=_NEVER_WRAP
    )
