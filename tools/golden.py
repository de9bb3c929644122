"""Write tests/golden/example: all that `hpf` makes of the example fleet, in a form that a person reviews.

Manifests, previews and tables are what the commands write, byte for byte. Templates are rewritten for the
eye: YAML, resources by name, a join as one text with `${}` for each reference, JSON in strings as YAML,
`<asset>` for the hash of a file, and without the check of the bootstrap version that the CDK puts into each.

With --check nothing is written: exit code 1, and the difference on stdout, when the copy is not current.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hyperpod_cli import pipeline, report
from hyperpod_cli.output import replacing
from hyperpod_cli.synth import synth

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "config"
TARGET = ROOT / "tests" / "golden" / "example"
ENTRIES = frozenset({"manifests", "preview", "quotas", "stacks.yaml", "templates"})

_HASH = re.compile(r"\b[0-9a-f]{64}\b")


class _Dumper(yaml.SafeDumper):
    """YAML with lists indented and text of several lines as such."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


def review_form(template: Mapping[str, Any]) -> str:
    """A template as a reviewer reads it."""
    shown = {key: _shown(value) for key, value in template.items()}
    for section, noise in (("Parameters", "BootstrapVersion"), ("Rules", "CheckBootstrapVersion")):
        shown[section].pop(noise)
    ordered = {
        key: dict(sorted(value.items())) if isinstance(value, dict) else value for key, value in shown.items()
    }
    return _yaml({key: value for key, value in ordered.items() if value != {}})


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"Fn::Join"} and (text := _substitution(*value["Fn::Join"])) is not None:
        return {"Fn::Sub": _string(text)}
    return {key: _shown(item) for key, item in value.items()}


def _string(text: str) -> str:
    if text.startswith("{"):
        try:
            return _yaml(_shown(json.loads(text)))
        except ValueError:
            pass
    return _HASH.sub("<asset>", text)


def _substitution(delimiter: str, parts: Any) -> str | None:
    """A join as one text, None if it has something that is no reference."""
    if not isinstance(parts, list):
        return None
    words: list[str] = []
    for part in parts:
        match part:
            case str():
                words.append(part.replace("${", "${!"))
            case {"Ref": name}:
                words.append(f"${{{name}}}")
            case {"Fn::GetAtt": [name, attribute]}:
                words.append(f"${{{name}.{attribute}}}")
            case {"Fn::ImportValue": str(name)}:
                words.append(f"${{{name}}}")
            case _:
                return None
    return delimiter.join(words)


def render() -> dict[str, str]:
    """Text of each golden file by its path under ``TARGET``.

    Raises:
        SystemExit: the example has an error.
    """
    checked = pipeline.check(EXAMPLE)
    if checked.resolved is None:
        raise SystemExit(report.findings(checked.findings, "text"))
    governed = [cluster.governance for cluster in checked.resolved.clusters if cluster.governance]
    rows = [row for governance in governed for row in governance.rows]
    endings = {"text": "txt", "json": "json", "markdown": "md"}
    files = {f"quotas/quotas.{end}": report.quotas(rows, style) for style, end in endings.items()}
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary, "out")
        synth(checked.resolved, EXAMPLE, out)
        for directory in ("manifests", "preview"):
            for path in (out / directory).rglob("*.yaml"):
                files[path.relative_to(out).as_posix()] = path.read_text("utf-8")
        files |= _assembly(out / "cdk.out")
    return dict(sorted(files.items()))


def _assembly(directory: Path) -> dict[str, str]:
    """The stacks of a cloud assembly: a list of them, and each template."""
    artifacts = json.loads((directory / "manifest.json").read_text("utf-8"))["artifacts"]
    stacks = {name: each for name, each in artifacts.items() if each["type"] == "aws:cloudformation:stack"}
    listed = [
        {
            "name": name,
            "environment": stack["environment"],
            "after": [each for each in stack["dependencies"] if each in stacks],
        }
        for name, stack in sorted(stacks.items())
    ]
    files = {"stacks.yaml": _yaml(listed)}
    for name, stack in stacks.items():
        text = (directory / stack["properties"]["templateFile"]).read_text("utf-8")
        files[f"templates/{name}.yaml"] = review_form(json.loads(text))
    return files


def committed(target: Path) -> dict[str, str]:
    """Text of each file that is there now."""
    paths = sorted(path for path in target.rglob("*") if path.is_file())
    return {path.relative_to(target).as_posix(): path.read_text("utf-8") for path in paths}


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Unified diff of two sets of files."""
    lines: list[str] = []
    for name in sorted({*old, *new}):
        before, after = (side.get(name, "").splitlines(keepends=True) for side in (old, new))
        there, here = (name if name in side else "/dev/null" for side in (old, new))
        lines += difflib.unified_diff(before, after, fromfile=there, tofile=here)
    return "".join(lines)


def main(arguments: list[str]) -> int:
    """Run the tool; give its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--target", type=Path, default=TARGET, help="default: tests/golden/example")
    options = parser.parse_args(arguments)
    old, new = committed(options.target), render()
    if options.check:
        sys.stdout.write(difference(old, new))
        return 1 if old != new else 0
    with replacing(options.target, ENTRIES) as fresh:
        for name, text in new.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8", newline="\n")
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            print("removed" if name not in new else "changed" if name in old else "added", name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
