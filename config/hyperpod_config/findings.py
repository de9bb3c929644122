"""What the tools say about a config: findings, the places they point at, and the rules they come from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Severity(StrEnum):
    """How much a finding weighs: an error stops every later stage, a warning and an info do not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something is written: line and column count from 1, as editors and compilers count them.

    `file` is relative to the current directory when it is below it, and always has `/` as separator.
    """

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a rule found: what is wrong, where, and what to do about it.

    Raises KeyError when `rule` is not the id of a declared rule, so that no finding lacks its page.
    """

    rule: str
    severity: Severity
    message: str
    place: Place
    hint: str = ""

    def __post_init__(self) -> None:
        RULES[self.rule]


@dataclass(frozen=True, slots=True)
class Rule(Generic[P, R]):
    """A rule: its id, its title, its severity, and the function that looks or words the finding."""

    id: str
    title: str
    severity: Severity
    check: Callable[P, R]

    @property
    def page(self) -> str:
        """The rule's page: the docstring of its function, in Markdown."""
        return inspect.getdoc(self.check) or ""

    def finding(self, place: Place, message: str, hint: str = "") -> Finding:
        """Give a finding of this rule."""
        return Finding(self.id, self.severity, message, place, hint)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the rule's function."""
        return self.check(*args, **kwargs)


RULES: dict[str, Rule[..., Any]] = {}


def rule(
    rule_id: str, title: str, severity: Severity = Severity.ERROR
) -> Callable[[Callable[P, R]], Rule[P, R]]:
    """Declare the decorated function as a rule; its docstring becomes the rule's page.

    Raises ValueError when the id is taken or the function has no docstring.
    """

    def declare(check: Callable[P, R]) -> Rule[P, R]:
        if rule_id in RULES:
            raise ValueError(f"rule {rule_id} is declared twice: {RULES[rule_id].title!r} and {title!r}")
        if not check.__doc__:
            raise ValueError(f"rule {rule_id} has no page: write a docstring")
        declared = Rule(rule_id, title, severity, check)
        RULES[rule_id] = declared
        return declared

    return declare


# --- loading and schema: HPF0xx ---------------------------------------------------------------------------
# The docstring of each function is the rule's page. A function words the finding from the facts it is given.


@rule("HPF001", "The config directory cannot be read")
def directory_unreadable(place: Place, reason: str) -> Finding:
    """**What it means.** The path given as config is missing, is no directory, or may not be read.

    **Why it matters.** There is nothing to check; the exit code is 2.

    **Example.** `hpf validate confg` when the directory is `config`.

    **Fix.** Name the directory that holds the fleet's YAML files, and make it and all below it readable.
    """
    return directory_unreadable.finding(place, f"cannot read the config directory: {reason}")


@rule("HPF002", "The directory holds no YAML file")
def no_yaml(place: Place) -> Finding:
    """**What it means.** No file below the directory ends in `.yaml` or `.yml`. Hidden ones do not count.

    **Why it matters.** A fleet is a directory of YAML documents; the exit code is 2.

    **Example.** `hpf validate docs`.

    **Fix.** Name the right directory, or begin a fleet with a Fleet document (docs/config.md).
    """
    return no_yaml.finding(
        place,
        "no *.yaml or *.yml file below this directory",
        "name the directory that has the Fleet document",
    )


@rule("HPF003", "No document of kind Fleet")
def no_fleet(place: Place) -> Finding:
    """**What it means.** The directory holds documents, but none of `kind: Fleet`.

    **Why it matters.** Stack names and tags come from the Fleet document. The exit code is 2.

    **Example.** A directory with `clusters/` and `teams/` but without `fleet.yaml`.

    **Fix.** Add `fleet.yaml` with `apiVersion: hyperpod-fleet/v1alpha1`, `kind: Fleet`,
    `metadata: {name: example}` and `spec: {}`.
    """
    return no_fleet.finding(place, "no document of kind Fleet below this directory", "add fleet.yaml")


@rule("HPF004", "More than one document of kind Fleet")
def several_fleets(place: Place, name: str, first: Place) -> Finding:
    """**What it means.** Two documents say `kind: Fleet`.

    **Why it matters.** One directory is one fleet: it would be unclear which name the stacks get.

    **Example.** `fleet.yaml` and `fleet-new.yaml` side by side.

    **Fix.** Keep one, or give each fleet its own directory.
    """
    return several_fleets.finding(place, f"Fleet {name} is a second Fleet document; the first is at {first}")


@rule("HPF005", "A file cannot be read")
def file_unreadable(place: Place, reason: str) -> Finding:
    """**What it means.** The operating system refuses to open a YAML file, or it is no regular file.

    **Why it matters.** What it says would be left out in silence.

    **Example.** A symbolic link `teams/a.yaml` whose target is gone.

    **Fix.** Repair or remove the file. Hidden files (`.a.yaml`) are never read.
    """
    return file_unreadable.finding(place, f"cannot read this file: {reason}")


@rule("HPF006", "A file is not UTF-8")
def not_utf8(place: Place, byte: int, offset: int) -> Finding:
    """**What it means.** The bytes at this place are not UTF-8 text.

    **Why it matters.** Other encodings read differently from machine to machine.

    **Example.** A comment `# Zürich` saved as Latin-1.

    **Fix.** Save the file as UTF-8. A byte order mark is fine.
    """
    message = f"byte 0x{byte:02X} at offset {offset} is not UTF-8"
    return not_utf8.finding(place, message, "save the file as UTF-8")


@rule("HPF007", "A file is not YAML")
def syntax(place: Place, problem: str, hint: str = "") -> Finding:
    """**What it means.** The YAML parser stops here. What follows in this file was not checked.

    **Why it matters.** The rest of the file has no meaning until it parses.

    **Example.** A tab as indentation, an unclosed `[`, a control character, more than 128 levels of nesting.

    **Fix.** Repair the text at the place given; the cause may stand a line above.
    """
    return syntax.finding(place, f"not YAML: {problem}", hint)


@rule("HPF008", "YAML outside the config language")
def outside_language(place: Place, feature: str, written: str) -> Finding:
    """**What it means.** Anchors, aliases, merge keys, tags and directives are no part of the language.

    **Why it matters.** A reviewer reads one file of one team; with them a line means what another line says.

    **Example.** `quota: *default`, `<<: *base`, `!!str 5`, `%YAML 1.1`.

    **Fix.** Write the value out. Quote a text that begins with `&`, `*`, `!` or `%`.
    """
    hint = f'write the value out, or quote it if it is text: "{written}"'
    return outside_language.finding(place, f"{feature} {written} is not part of the config language", hint)


@rule("HPF009", "A key is written twice")
def duplicate_key(place: Place, key: str, first: Place) -> Finding:
    """**What it means.** One mapping has the same key more than once.

    **Why it matters.** Parsers disagree about which one counts; most drop one in silence.

    **Example.** Two lines `instanceCount:` in one instance group.

    **Fix.** Keep one of them.
    """
    return duplicate_key.finding(place, f"{key} is already set at {first}", "keep one of them")


@rule("HPF010", "A file without a document", Severity.WARNING)
def empty_file(place: Place) -> Finding:
    """**What it means.** The file is empty or holds only comments.

    **Why it matters.** It is often a file whose content got lost.

    **Example.** A team's file of which every line is commented out.

    **Fix.** Remove the file, or write its document.
    """
    return empty_file.finding(place, "this file holds no document", "remove it, or write its document")


@rule("HPF011", "Not a document")
def not_a_document(place: Place, found: str) -> Finding:
    """**What it means.** The top of a document is a list or a plain value.

    **Why it matters.** Every document is a mapping of `apiVersion`, `kind`, `metadata` and `spec`.

    **Example.** A file that begins with `- name: research`.

    **Fix.** Write each item as a document of its own, with `---` between them.
    """
    return not_a_document.finding(
        place, f"a document is a mapping with apiVersion, kind, metadata and spec; this is {found}"
    )


@rule("HPF012", "Unknown kind or apiVersion")
def unknown_kind(place: Place, message: str, hint: str) -> Finding:
    """**What it means.** `kind` or `apiVersion` is missing, or is none that this version knows.

    **Why it matters.** They say which fields a document may have; without them nothing else can be checked.

    **Example.** `kind: Teem`, or a Kubernetes manifest inside the config directory.

    **Fix.** `apiVersion: hyperpod-fleet/v1alpha1` and one of the kinds Fleet, Cluster, Team, Department; keep
    other YAML outside the directory.
    """
    return unknown_kind.finding(place, message, hint)


@rule("HPF013", "Two documents of one name")
def duplicate_document(place: Place, kind: str, name: str, first: Place) -> Finding:
    """**What it means.** Two documents of the same kind have the same `metadata.name`.

    **Why it matters.** Names become stack, queue and namespace names, which must differ.

    **Example.** A copied team file in which the name was not changed.

    **Fix.** Rename or remove one of them.
    """
    return duplicate_document.finding(
        place, f"{kind} {name} is already defined at {first}", "rename or remove one of them"
    )


@rule("HPF014", "Unknown field")
def unknown_field(place: Place, subject: str, hint: str) -> Finding:
    """**What it means.** The field does not exist here.

    **Why it matters.** A misspelt field that is ignored is a setting that does not hold.

    **Example.** `MinInstanceCount: 8`, `minInstances: 8`.

    **Fix.** Take the name suggested. Names are the AWS API's and Kueue's with the first letter lowered.
    """
    return unknown_field.finding(place, f"{subject} is not a field here", hint)


@rule("HPF015", "Missing field")
def missing_field(place: Place, subject: str, meaning: str) -> Finding:
    """**What it means.** A field that has no default is not set.

    **Why it matters.** No value can be chosen for you.

    **Example.** An instance group without `instanceType`.

    **Fix.** Set it, in the mapping at the place given.
    """
    return missing_field.finding(place, f"{subject} is required" + (f": {meaning}" if meaning else ""))


@rule("HPF016", "Wrong type")
def wrong_type(place: Place, subject: str, wanted: str, found: str, hint: str) -> Finding:
    """**What it means.** The value is of another type than the field: text for a number, or no list.

    **Why it matters.** Values are never converted, so that `1.30` cannot become `1.3`.

    **Example.** `version: 1.34` (a number) where `version: "1.34"` (text) is meant; `vCpu: "200.0"`.

    **Fix.** Add or remove the quotes, or write the list or mapping that belongs there.
    """
    return wrong_type.finding(place, f"{subject} must be {wanted}, not {found}", hint)


@rule("HPF017", "Value not allowed")
def not_allowed(place: Place, subject: str, value: str, allowed: str, hint: str = "") -> Finding:
    """**What it means.** The value is of the right type, but not one that the field may have.

    **Why it matters.** AWS or Kubernetes would refuse it when the deployment is already under way.

    **Example.** `nodeRecovery: Auto`, `instanceCount: -1`, a name with capital letters.

    **Fix.** Take one of the values, or a value within the limit, that the message names.
    """
    return not_allowed.finding(place, f"{subject} is {value}; allowed is {allowed}", hint)


def number_too_large(place: Place, written: str) -> Finding:
    """Word the HPF017 finding of a number that no field can hold."""
    return not_allowed(place, "the number", written[:40], "a whole number of at most 64 bits")


@rule("HPF018", "Fields that contradict each other")
def contradiction(place: Place, subject: str, problem: str, hint: str = "") -> Finding:
    """**What it means.** Each field is right by itself, but not together with the others of this mapping.

    **Why it matters.** It is unclear which of them should hold.

    **Example.** A quota item with both `instanceType` and `hardware`, or with neither.

    **Fix.** Set the fields as the message says.
    """
    return contradiction.finding(place, f"{subject}: {problem}" if subject else problem, hint)


@rule("HPF019", "A key is not text")
def key_not_text(place: Place, written: str | None) -> Finding:
    """**What it means.** A key reads as a number, a boolean or null, or is itself a list or mapping.

    **Why it matters.** All names are text; `1`, `true` and `null` are not.

    **Example.** `labels: {1: a}`, `true: Enabled`.

    **Fix.** Quote the key.
    """
    if written is None:
        return key_not_text.finding(place, "a key must be text, not a list, a mapping or an alias")
    return key_not_text.finding(place, f"the key {written or 'null'} is not text", f'quote it: "{written}"')
