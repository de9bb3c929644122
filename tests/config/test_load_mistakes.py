"""Every mistake of a config file is a finding: the rule, the place, and words that help."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from hyperpod_config import RULES, Finding, Loaded, Place, Severity, load

HEAD = "apiVersion: hyperpod-fleet/v1alpha1\n"
FLEET = HEAD + "kind: Fleet\nmetadata: {name: example}\nspec: {}\n"
TEAM = HEAD + "kind: Team\nmetadata: {name: vision}\nspec:\n"

PATCH = (
    HEAD
    + """\
kind: Cluster
metadata: {{name: a}}
spec:
  region: us-east-1
  orchestrator: {{eks: {{version: "1.34"}}}}
  instanceGroups:
    - name: g
      instanceType: ml.m5.xlarge
      instanceCount: 1
      autoPatchConfig:
        patchingStrategy: WhenIdle
        deploymentConfig: {{rollingUpdatePolicy: {{maximumBatchSize: {{type: {kind}, value: {value}}}}}}}
"""
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load_files(here: Path, **files: str | bytes) -> Loaded:
    for name, content in {"fleet": FLEET, **files}.items():
        path = here / "config" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(Path("config"))


def shown(finding: Finding) -> str:
    return f"{finding.place.line}:{finding.place.column} {finding.rule} {finding.message} [{finding.hint}]"


# sentence, text of the file, place, rule, a piece of the message or hint
TAINTED = (
    HEAD
    + "kind: Cluster\nmetadata: {name: other}\nspec:\n"
    + "  region: us-east-1\n  orchestrator: {slurm: {}}\n  network: {create: {cidr: 10.0.0.0/16}}\n"
    + "  instanceGroups:\n  - {name: g, instanceType: ml.m5.large, instanceCount: 1, kubernetesConfig: {"
)
ONE_MISTAKE = [
    ("a misspelt field is suggested", TEAM + "  departmnt: x\n", "5:3", "HPF014", "did you mean department?"),
    ("a field in AWS case is suggested", TEAM + "  Department: x\n", "5:3", "HPF014", "first letter lowered"),
    (
        "a field in Python case is refused",
        TEAM + "  fair_share_weight: 1\n",
        "5:3",
        "HPF014",
        "not a field here",
    ),
    (
        "a nested field is found in a flow mapping",
        TEAM + "  allocations: [{cluster: main, quota: [{instanceFamily: g5, VCpu: 1, count: 1}]}]\n",
        "5:62",
        "HPF014",
        "did you mean vCpu?",
    ),
    (
        "a missing field is at the object that lacks it",
        TEAM + "  allocations:\n    - quota: []\n",
        "6:7",
        "HPF015",
        "spec.allocations[0].cluster is required: Name of the Cluster document.",
    ),
    (
        "a quoted number is told to lose its quotes",
        TEAM + '  allocations: [{cluster: main, quota: [{hardware: cpu, vCpu: "200.0"}]}]\n',
        "5:63",
        "HPF016",
        'must be a number, not the text "200.0" [remove the quotes: 200.0]',
    ),
    (
        "an unquoted version keeps its last zero in the message",
        TEAM + "  department: 1.30\n",
        "5:15",
        "HPF016",
        'must be text, not the number 1.30 [quote it: "1.30"]',
    ),
    ("an empty value is at its key", TEAM + "  allocations:\n", "5:3", "HPF016", "must be a list, not empty"),
    (
        "a choice lists what is allowed",
        TEAM + "  allocations: [{cluster: main, preemptTeamTasks: Nver}]\n",
        "5:51",
        "HPF017",
        'is "Nver"; allowed is LowerPriority, Never [did you mean Never?]',
    ),
    (
        "a number beyond its limit names the limit",
        TEAM + "  allocations: [{cluster: main, fairShareWeight: 101}]\n",
        "5:50",
        "HPF017",
        "spec.allocations[0].fairShareWeight is 101; allowed is 100 or less",
    ),
    (
        "a fraction for a whole number is shown as written",
        TEAM + "  allocations: [{cluster: main, fairShareWeight: 2.0}]\n",
        "5:50",
        "HPF016",
        "write 2",
    ),
    (
        "a name with capitals is repaired",
        HEAD + "kind: Team\nmetadata: {name: Vision}\nspec: {}\n",
        "3:18",
        "HPF017",
        "did you mean vision?",
    ),
    (
        "an instance type without ml. is repaired",
        TEAM + "  allocations: [{cluster: main, quota: [{instanceType: g5.2xlarge, count: 1}]}]\n",
        "5:56",
        "HPF017",
        "did you mean ml.g5.2xlarge?",
    ),
    (
        "fields that exclude each other are told so at the second",
        TEAM + "  allocations: [{cluster: main, quota: [{instanceFamily: g5, hardware: cpu, count: 1}]}]\n",
        "5:72",
        "HPF018",
        "instanceFamily and hardware exclude each other",
    ),
    (
        "a batch of more than all instances is refused at its value",
        PATCH.format(kind="CAPACITY_PERCENTAGE", value=101),
        "13:103",
        "HPF018",
        "101 with CAPACITY_PERCENTAGE is more than 100 percent [take at most 100]",
    ),
    ("an unknown kind is suggested", HEAD + "kind: Teem\n", "2:7", "HPF012", "did you mean Team?"),
    ("a missing kind is told", "a: 1\n", "1:1", "HPF012", "kind is missing"),
    (
        "an unknown apiVersion is suggested",
        TEAM.replace("v1alpha1", "v1alpha2") + "  allocations: []\n",
        "1:13",
        "HPF012",
        "did you mean hyperpod-fleet/v1alpha1?",
    ),
    ("a list is no document", "- a\n", "1:1", "HPF011", "this is a list"),
    ("a plain value is no document", "hello\n", "1:1", "HPF011", 'this is the text "hello"'),
    (
        "a duplicate key names both places",
        TEAM + "  department: a\n  department: b\n",
        "6:3",
        "HPF009",
        "department is already set at config/bad.yaml:5:3",
    ),
    ("an anchor is refused", TEAM + "  department: &d a\n", "5:15", "HPF008", "anchor &d"),
    ("an alias is refused", TEAM + "  department: *d\n", "5:15", "HPF008", "alias *d"),
    ("a merge key is refused", TEAM + "  <<: {department: a}\n", "5:3", "HPF008", "merge key <<"),
    ("a tag is refused", TEAM + "  department: !!str a\n", "5:15", "HPF008", "tag tag:yaml.org,2002:str"),
    ("a custom tag is refused", TEAM + "  department: !Ref a\n", "5:15", "HPF008", "tag !Ref"),
    ("a directive is refused", "%YAML 1.1\n---\n" + TEAM + "  {}\n", "1:1", "HPF008", "directive %YAML"),
    ("a tab is told to be spaces", TEAM + "\tdepartment: a\n", "5:1", "HPF007", "indent with spaces"),
    ("an unclosed list is no YAML", TEAM + "  allocations: [\n", "6:1", "HPF007", "not YAML"),
    ("a control character is refused", TEAM + "  department: a\x01b\n", "5:16", "HPF007", "U+0001"),
    ("a second byte order mark is refused", "\ufeff\ufeff" + TEAM, "1:1", "HPF007", "U+FEFF"),
    ("a NUL is refused", TEAM + "  department: a\0\n", "5:16", "HPF007", "U+0000"),
    ("deep flow nesting is refused", "[" * 100_000, "1:129", "HPF007", "more than 128 levels"),
    ("deep block nesting is refused", "- " * 50_000 + "a", "1:257", "HPF007", "more than 128 levels"),
    (
        "a whole number beyond 64 bits is refused",
        TEAM + f"  allocations: [{{cluster: main, fairShareWeight: {2**70}}}]\n",
        "5:50",
        "HPF017",
        "1180591620717411303424",
    ),
    (
        "a number beyond a float is refused",
        TEAM + "  allocations: [{cluster: main, quota: [{hardware: cpu, vCpu: 1e400}]}]\n",
        "5:63",
        "HPF016",
        "the number is too large",
    ),
    (
        "a number of 5,000 digits is refused",
        TEAM + f"  allocations: [{{cluster: main, fairShareWeight: {'9' * 5000}}}]\n",
        "5:50",
        "HPF016",
        "the number is too large",
    ),
    (
        "not a number is no number",
        TEAM + "  allocations: [{cluster: main, quota: [{hardware: cpu, vCpu: .nan}]}]\n",
        "5:63",
        "HPF017",
        "a finite number",
    ),
    (
        "infinity is no number",
        TEAM + "  allocations: [{cluster: main, quota: [{hardware: cpu, vCpu: .inf}]}]\n",
        "5:63",
        "HPF017",
        "a finite number",
    ),
    (
        "a number as key is refused",
        TEAM + "  1: a\n",
        "5:3",
        "HPF019",
        'the key 1 is not text [quote it: "1"]',
    ),
    ("a list as key is refused", TEAM + "  ? [a]\n  : b\n", "5:5", "HPF019", "a key must be text"),
    (
        "a number as label key is refused",
        HEAD + "kind: Fleet\nmetadata: {name: other}\nspec: {tags: {1: x}}\n",
        "4:15",
        "HPF019",
        "the key 1 is not text",
    ),
    *(
        (
            f"a taint key {about} is refused, as Kueue would",
            f"{TAINTED}taints: [{{key: {key}, effect: NoSchedule}}]}}}}\n",
            "9:94",
            "HPF017",
            "text that matches",
        )
        for about, key in (
            ("with two dots together", "a..b/c"),
            ("with a hyphen before a dot", "a-.b/c"),
            ("with a prefix of 254 characters", f"{'p' * 254}/c"),
        )
    ),
]


@pytest.mark.parametrize(
    ("text", "place", "rule", "fragment"),
    [row[1:] for row in ONE_MISTAKE],
    ids=[row[0] for row in ONE_MISTAKE],
)
def test_one_mistake(here: Path, text: str, place: str, rule: str, fragment: str) -> None:
    loaded = load_files(here, bad=text)
    in_file = [finding for finding in loaded.findings if finding.rule != "HPF004"]
    assert [f"{finding.place.line}:{finding.place.column}" for finding in in_file] == [place]
    (finding,) = in_file
    assert finding.place.file == "config/bad.yaml"
    assert finding.rule == rule
    assert fragment in shown(finding)
    assert loaded.fleet is None
    assert not loaded.broken


ACCEPTED = [
    ("a batch of all instances", TEAM + "  {}\n---\n" + PATCH.format(kind="CAPACITY_PERCENTAGE", value=100)),
    ("a batch of many instances", TEAM + "  {}\n---\n" + PATCH.format(kind="INSTANCE_COUNT", value=101)),
    ("a name of one letter", TEAM + "  {}\n---\n" + PATCH.format(kind="INSTANCE_COUNT", value=1)),
    ("a byte order mark", "\ufeff" + TEAM + "  department: a\n"),
    ("Windows line ends", (TEAM + "  department: a\n").replace("\n", "\r\n")),
    ("empty documents between others", "---\n---\n" + TEAM + "  department: a\n---\n"),
    ("marks of other features inside text", TEAM + "  department: a # R&D: *all* !important\n"),
    ("marks of other features in quotes", TEAM + "  access: {groups: ['&a', '*', \"!b\", '% c']}\n"),
    (
        "a flow document",
        '{"apiVersion": "hyperpod-fleet/v1alpha1", "kind": "Team", "metadata": {"name": "a"}, "spec": {}}',
    ),
]


@pytest.mark.parametrize("text", [row[1] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED])
def test_is_no_mistake(here: Path, text: str) -> None:
    loaded = load_files(here, good=text)
    assert loaded.findings == ()
    assert loaded.fleet is not None
    assert len(loaded.fleet.teams) == 1


def test_all_mistakes_of_all_files_come_together_sorted_by_place(here: Path) -> None:
    broken = dedent("""\
        apiVersion: hyperpod-fleet/v1alpha1
        kind: Team
        metadata: {name: vision}
        spec:
          departmnt: x
          department: *x
          allocations:
            - cluster: 1.30
              fairShareWeight: 200
              cluster: b
        ---
        kind: Teem
        ---
        a: [
        """)
    loaded = load_files(here, a=broken, b="- 1\n", c=b"# Z\xfcrich\n", d="# nothing\n")
    assert [f"{finding.place} {finding.rule}" for finding in loaded.findings] == [
        "config/a.yaml:5:3 HPF014",
        "config/a.yaml:6:15 HPF008",
        "config/a.yaml:8:16 HPF016",
        "config/a.yaml:9:24 HPF017",
        "config/a.yaml:10:7 HPF009",
        "config/a.yaml:12:7 HPF012",
        "config/a.yaml:15:1 HPF007",
        "config/b.yaml:1:1 HPF011",
        "config/c.yaml:1:4 HPF006",
        "config/d.yaml:1:1 HPF010",
    ]
    assert loaded.fleet is None


def test_a_misspelt_required_field_is_one_mistake_not_two(here: Path) -> None:
    loaded = load_files(here, bad=TEAM + "  allocations: [{Cluster: main}]\n")
    assert [finding.rule for finding in loaded.findings] == ["HPF014"]


def test_bad_utf8_names_the_byte_and_its_offset(here: Path) -> None:
    loaded = load_files(here, bad="\ufeff# é\nab".encode() + b"\xff")
    (finding,) = loaded.findings
    assert shown(finding) == "2:3 HPF006 byte 0xFF at offset 10 is not UTF-8 [save the file as UTF-8]"


def test_an_empty_file_is_a_warning_and_the_fleet_is_loaded(here: Path) -> None:
    loaded = load_files(here, empty="", comment="# later\n")
    assert [(finding.rule, finding.severity) for finding in loaded.findings] == [
        ("HPF010", Severity.WARNING),
        ("HPF010", Severity.WARNING),
    ]
    assert loaded.fleet is not None


def test_two_documents_of_one_name_are_told_with_both_places(here: Path) -> None:
    team = TEAM + "  department: a\n"
    loaded = load_files(here, a=team, b="# copy\n" + team)
    (finding,) = loaded.findings
    assert str(finding.place) == "config/b.yaml:4:18"
    assert finding.message == "Team vision is already defined at config/a.yaml:3:18"


def test_a_second_fleet_is_told_with_both_places(here: Path) -> None:
    loaded = load_files(here, g=FLEET)
    (finding,) = loaded.findings
    assert finding.rule == "HPF004"
    assert "config/fleet.yaml:3:18" in finding.message


def test_the_same_name_of_another_kind_is_no_duplicate(here: Path) -> None:
    text = TEAM + "  department: vision\n---\n" + HEAD + "kind: Department\nmetadata: {name: vision}\n"
    assert load_files(here, a=text).findings == ()


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda path: None, "HPF001"),
        (lambda path: path.write_text(FLEET), "HPF001"),
        (lambda path: path.symlink_to(path), "HPF001"),
        (lambda path: path.mkdir(), "HPF002"),
        (lambda path: (path.mkdir(), (path / ".hidden.yaml").write_text(FLEET)), "HPF002"),
        (lambda path: (path.mkdir(), (path / "team.yaml").write_text(TEAM + "  {}\n")), "HPF003"),
    ],
    ids=["missing", "a file", "a link to itself", "without YAML", "with hidden YAML only", "without a Fleet"],
)
def test_a_path_that_is_no_fleet_is_broken_input(
    here: Path, make: Callable[[Path], object], rule: str
) -> None:
    make(here / "config")
    loaded = load(Path("config"))
    assert loaded.broken
    assert loaded.fleet is None
    assert [(finding.rule, finding.place) for finding in loaded.findings] == [(rule, Place("config", 1, 1))]


def test_a_fleet_that_may_stand_in_an_unread_file_is_not_missed(here: Path) -> None:
    loaded = load_files(here, fleet="a: [", team=TEAM + "  {}\n")
    assert [finding.rule for finding in loaded.findings] == ["HPF007"]
    assert not loaded.broken


def test_a_wrong_fleet_document_is_not_a_missing_one(here: Path) -> None:
    loaded = load_files(here, fleet=FLEET.replace("example", "Example"))
    assert [finding.rule for finding in loaded.findings] == ["HPF017"]


def test_links_that_lead_nowhere_pipes_and_loops_do_not_stop_the_loader(here: Path) -> None:
    load_files(here)
    config = here / "config"
    (config / "gone.yaml").symlink_to("nowhere")
    (config / "self.yaml").symlink_to("self.yaml")
    (config / "loop").symlink_to(config)
    os.mkfifo(config / "pipe.yaml")
    loaded = load(Path("config"))
    assert [str(finding.place) for finding in loaded.findings] == [
        "config/gone.yaml:1:1",
        "config/pipe.yaml:1:1",
        "config/self.yaml:1:1",
    ]
    assert {finding.rule for finding in loaded.findings} == {"HPF005"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_told(here: Path) -> None:
    load_files(here, secret=TEAM)
    (here / "config" / "secret.yaml").chmod(0)
    (here / "config" / "closed").mkdir(mode=0)
    loaded = load(Path("config"))
    assert [f"{finding.place} {finding.rule} {finding.message}" for finding in loaded.findings] == [
        "config/closed:1:1 HPF005 cannot read this file: Permission denied",
        "config/secret.yaml:1:1 HPF005 cannot read this file: Permission denied",
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read_is_broken_input(here: Path) -> None:
    (here / "config").mkdir(mode=0)
    loaded = load(Path("config"))
    assert loaded.broken
    assert [finding.message for finding in loaded.findings] == [
        "cannot read the config directory: Permission denied"
    ]


def test_hidden_directories_are_skipped_and_both_suffixes_are_read(here: Path) -> None:
    load_files(here)
    for name in (".git/a.yaml", "teams/b.yml", "teams/deep/c.yaml", "teams/readme.md"):
        path = here / "config" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEAM.replace("vision", f"team-{path.stem}") + "  {}\n")
    loaded = load(Path("config"))
    assert loaded.fleet is not None
    assert [team.name for team in loaded.fleet.teams] == ["team-b", "team-c"]


def test_places_are_absolute_outside_the_current_directory(
    here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "fleet.yaml").write_text(FLEET.replace("Fleet", "Flet"))
    (finding,) = load(other).findings
    assert finding.place.file == (other / "fleet.yaml").as_posix()


def test_every_loading_rule_has_a_page_with_its_four_parts() -> None:
    loading = [rule for rule in RULES.values() if rule.id.startswith("HPF0")]
    assert {rule.id for rule in loading} >= {f"HPF{number:03}" for number in range(1, 20)}
    for rule in loading:
        for part in ("**What it means.**", "**Why it matters.**", "**Example.**", "**Fix.**"):
            assert part in rule.page, rule.id


def test_a_clean_config_loads_neither_pyyaml_nor_the_explanations(here: Path) -> None:
    load_files(here, a=TEAM + "  department: a\n")
    program = (
        "import sys, pathlib, hyperpod_config as c; assert c.load(pathlib.Path('config')).fleet;"
        "print([m for m in ('yaml', 'difflib', 'jsonschema', 'jsii', 'boto3', 'hyperpod_config.explain',"
        " 'hyperpod_config.nodes') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
