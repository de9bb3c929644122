"""A control plane's life: what it leaves behind, and what it says when a part dies."""

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hyperpod_live.control_plane import ControlPlane, ControlPlaneError, cache_dir, ensure_built, run

CHILD = """
import json, sys, tempfile, time
from pathlib import Path
from hyperpod_live.control_plane import ControlPlane
with ControlPlane(scheduler=False, kwok=False) as running:
    folder = running.kubeconfig.parent
    print(json.dumps({"parts": running.parts, "folder": str(folder)}), flush=True)
    time.sleep(60)
"""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder where temporary files go during this test."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def small(**options: Any) -> ControlPlane:
    """Return one with API server and Kueue only, which is ready soonest."""
    return ControlPlane(scheduler=False, kwok=False, **options)


def alive(pids: Sequence[int]) -> set[int]:
    """Return which of these processes run; one that ended and that nobody asked about does not."""
    found = set()
    for pid in pids:
        shown = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        if shown.stdout.strip() and not shown.stdout.startswith("Z"):
            found.add(pid)
    return found


def until_empty(folder: Path, pids: Sequence[int]) -> None:
    """Wait for what another process still clears up."""
    end = time.monotonic() + 10
    while time.monotonic() < end and (alive(pids) or any(folder.iterdir())):
        time.sleep(0.05)
    assert (alive(pids), list(folder.iterdir())) == (set(), [])


def test_nothing_is_left_after_the_end(scratch: Path) -> None:
    with ControlPlane() as running:
        pids = list(running.parts.values())
        assert set(running.parts) == {
            "etcd",
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kwok",
            "kueue",
        }
        assert alive(pids) == set(pids)
        running.check()
    assert (alive(pids), list(scratch.iterdir())) == (set(), [])
    running.stop()
    with pytest.raises(ControlPlaneError, match="does not run"):
        running.client()


def test_two_run_side_by_side_and_know_nothing_of_each_other() -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "only-here"}}
    with small() as one, small() as other:
        one.client().apply(space)
        assert one.url != other.url
        assert "only-here" not in {
            each["metadata"]["name"] for each in other.client().list("v1", "Namespace")
        }


def test_a_port_that_somebody_took_first_is_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    free = run._free_ports
    with contextlib.ExitStack() as taken:
        lost = [[taken_port(taken)], taken_ports(taken, 2)]
        monkeypatch.setattr(
            run, "_free_ports", lambda count: lost.pop(0) if lost and len(lost[0]) == count else free(count)
        )
        with small() as running:
            assert lost == []
            running.check()
            assert running.client().raw("/readyz")[0] == 200


def taken_port(stack: contextlib.ExitStack) -> int:
    held = stack.enter_context(socket.socket())
    held.bind(("127.0.0.1", 0))
    held.listen()
    port: int = held.getsockname()[1]
    return port


def taken_ports(stack: contextlib.ExitStack, count: int) -> list[int]:
    return [taken_port(stack) for _ in range(count)]


@pytest.mark.parametrize("part", ["kube-apiserver", "kueue"])
def test_a_part_that_dies_is_named_with_the_end_of_its_log_and_a_next_step(part: str, scratch: Path) -> None:
    with pytest.raises(ControlPlaneError) as told, small() as running:
        os.kill(running.parts[part], signal.SIGKILL)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            running.client().list("v1", "Namespace")
    first, *log, advice = str(told.value).splitlines()
    assert first == f"{part} was killed by SIGKILL. The last lines of its log:"
    assert 1 <= len(log) <= 20 and all(line.startswith("  ") for line in log)
    assert "out of memory" in advice and advice.endswith("run the same command again.")
    assert list(scratch.iterdir()) == []


def test_a_part_that_cannot_start_is_told_and_leaves_nothing(scratch: Path) -> None:
    with pytest.raises(ControlPlaneError) as told:
        small(kueue_config={"noSuchSetting": True}).start()
    assert str(told.value).startswith("kueue ended with exit code 1. The last lines of its log:")
    assert "noSuchSetting" in str(told.value)
    assert list(scratch.iterdir()) == []


def test_logs_stay_where_they_are_asked_for(tmp_path: Path, scratch: Path) -> None:
    with small(log_dir=tmp_path / "logs"):
        pass
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {
        "etcd.log",
        "kube-apiserver.log",
        "kueue.log",
    }


def test_kueue_takes_another_configuration_and_keeps_the_objects() -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "stays"}}
    with small() as running:
        running.client().apply(space)
        before = running.parts
        running.configure_kueue({"fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]}})
        after = running.parts
        assert running.client().get("v1", "Namespace", "stays")
    assert {name for name in before if before[name] != after[name]} == {"kueue"}


# What ends the process that started it


@contextlib.contextmanager
def child(code: str, *become: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    env = {**os.environ, **path, **options.pop("env", {})}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*become, sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True, env=env, **options
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def told_by(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the line that the child prints once its control plane runs."""
    assert process.stdout and process.stderr
    line = process.stdout.readline()
    assert line, process.stderr.read()
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_process_ends_the_parts(ended_by: signal.Signals, scratch: Path) -> None:
    with child(CHILD) as process:
        facts = told_by(process)
        pids = list(facts["parts"].values())
        assert alive(pids) == set(pids)
        process.send_signal(ended_by)
        assert process.wait(timeout=10) == -ended_by
        until_empty(scratch, pids)


def test_ctrl_c_while_it_starts_leaves_nothing(scratch: Path) -> None:
    with child(CHILD, start_new_session=True) as process:
        end = time.monotonic() + 20
        while time.monotonic() < end and not list(scratch.glob("*/kube-apiserver.log")):
            time.sleep(0.01)
        # As a terminal does: to the whole group of the command.
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=10) == -signal.SIGINT
        until_empty(scratch, [])


@pytest.mark.skipif(os.geteuid() != 0, reason="everybody else is an ordinary user already")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv to become another user with")
def test_an_ordinary_user_can_run_it() -> None:
    home = Path(tempfile.mkdtemp())
    try:
        built = ensure_built().home
        shutil.copytree(built, home / "cache" / built.relative_to(cache_dir()), copy_function=link_or_copy)
        (home / "tmp").mkdir()
        for path in [home, *home.rglob("*")]:
            if path.is_dir():
                os.chown(path, 65534, 65534)
        env = {"HOME": str(home), "TMPDIR": str(home / "tmp"), "HPF_CACHE_DIR": str(home / "cache")}
        with child(CHILD, *AS_NOBODY, env=env, cwd=home) as process:
            facts = told_by(process)
            assert {Path(f"/proc/{pid}").stat().st_uid for pid in facts["parts"].values()} == {65534}
            process.send_signal(signal.SIGINT)
            until_empty(home / "tmp", list(facts["parts"].values()))
    finally:
        shutil.rmtree(home)


# Root's own Python may lie where others cannot read, so that one right stays: to read, not to write.
AS_NOBODY = (
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--bounding-set=-all,+dac_read_search",
    "--inh-caps=-all,+dac_read_search",
    "--ambient-caps=-all,+dac_read_search",
)


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def test_without_the_extra_packages_the_import_says_how_to_get_them() -> None:
    with child(WITHOUT_URLLIB3) as process:
        _, complaint = process.communicate()
    assert complaint.splitlines()[-1].startswith("ImportError: A control plane needs more packages")


WITHOUT_URLLIB3 = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "urllib3" else find(name)
import hyperpod_live.control_plane
"""


# Disks


def test_a_full_disk_is_a_sentence_before_anything_starts(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_NEEDED_SPACE", 2**60)
    with pytest.raises(ControlPlaneError, match=r"disk is full .* set TMPDIR to a folder with more"):
        small().start()
    assert list(scratch.iterdir()) == []


def test_a_disk_that_fills_up_while_it_starts_is_a_sentence(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "kubeconfig")

    monkeypatch.setattr(run, "write_kubeconfig", full)
    with pytest.raises(ControlPlaneError, match=r"the disk is full \(kubeconfig\)"):
        small().start()
    assert list(scratch.iterdir()) == []


def test_a_part_that_found_the_disk_full_says_so(tmp_path: Path) -> None:
    log = tmp_path / "etcd.log"
    log.write_text("panic: write wal: no space left on device\n")
    process = subprocess.Popen(["false"])
    process.wait()
    part = run.Part("etcd", process, log)
    assert "The disk is full." in run._ended(part, 1)


def test_a_folder_for_temporary_files_that_is_closed_to_this_user_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def closed(**_: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", "somewhere")

    monkeypatch.setattr(tempfile, "mkdtemp", closed)
    with pytest.raises(ControlPlaneError, match=r"may not write there \(somewhere\)\. Set TMPDIR"):
        small().start()
