"""Start, watch and stop the processes of a control plane."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hyperpod_live.control_plane import guard, kueue
from hyperpod_live.control_plane.build import Files, Progress, ensure_built, to_stderr
from hyperpod_live.control_plane.certificates import Certificates, make_certificates
from hyperpod_live.control_plane.client import ApiError, Client, require
from hyperpod_live.control_plane.errors import ControlPlaneError, disk_errors
from hyperpod_live.control_plane.kubeconfig import CONTROLLER, Access, write_kubeconfig
from hyperpod_live.control_plane.nodes import stages

Object = dict[str, Any]

PORTS = range(20000, 32000)
"""Where free ports are looked for: below those that Linux and macOS lend to outgoing connections."""

_PORT_ATTEMPTS = 5
_TAIL_LINES = 20
_MEMORY_FOR_SPEED = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
"""Go collects garbage less often below 1 GiB: a third less processor time of the API server."""

_NEEDED_SPACE = 300 * 2**20
"""Bytes: etcd sets 64 MB aside at once, and 10,000 objects take about 100 MB."""

_CONTROLLERS = (
    "job-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "ttl-after-finished-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
)
"""What acts on jobs. Not the node lifecycle: fake nodes have no heartbeat."""


@dataclass
class Part:
    """One process, and where it writes its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def tail(self) -> str:
        """Return the last lines of the log, indented."""
        lines = self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        return "\n".join(f"  {line[:400]}" for line in lines) or "  (it wrote nothing)"

    def lost_its_port(self) -> bool:
        """Tell whether it ended because its port was taken."""
        ended = self.process.poll() is not None
        return ended and "address already in use" in self.log.read_text(errors="replace")


class ControlPlane:
    """A Kubernetes control plane with Kueue on this machine, for one process and as long as it.

    Use it as a context manager. Several run side by side. Whatever ends this process, the parts end with it
    and their folder goes.

    `scheduler` starts kube-scheduler and kube-controller-manager (without them jobs get no pods), `kwok` runs
    the pods of fake nodes. `kueue_config` is Kueue's Configuration as for a cluster. `frameworks` are Kueue's
    names of the job kinds to run; their CRDs are installed. `log_dir` keeps the logs after the end.
    """

    def __init__(
        self,
        *,
        scheduler: bool = True,
        kwok: bool = True,
        kueue_config: Mapping[str, Any] | None = None,
        frameworks: Sequence[str] = kueue.CORE_FRAMEWORKS,
        log_dir: Path | None = None,
        progress: Progress = to_stderr,
        start_seconds: float = 90,
    ) -> None:
        self._scheduler = scheduler
        self._kwok = kwok
        self._kueue_config = kueue_config
        self._frameworks = tuple(frameworks)
        self._log_dir = log_dir
        self._progress = progress
        self._start_seconds = start_seconds
        self._parts: dict[str, Part] = {}
        self._guard: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        self._folder: Path | None = None
        self._kueue_ports: Sequence[int] = ()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def kubeconfig(self) -> Path:
        """Path of a kubeconfig of its administrator; it goes with the control plane."""
        return self._running() / "kubeconfig"

    @property
    def url(self) -> str:
        """URL of the API server."""
        return self.client().url

    @property
    def parts(self) -> dict[str, int]:
        """Process ids by the names of the parts."""
        return {name: part.process.pid for name, part in self._parts.items()}

    def client(self) -> Client:
        """Return the client of its administrator, the same each time; threads may share it."""
        self._running()
        assert self._client is not None
        return self._client

    def check(self) -> None:
        """Raise `ControlPlaneError`, with the last lines of its log, if a part has ended by itself."""
        # A copy: another thread may start Kueue anew meanwhile.
        for part in list(self._parts.values()):
            if (code := part.process.poll()) is not None:
                raise ControlPlaneError(_ended(part, code))

    def start(self) -> Self:
        """Start all parts; return once API server and Kueue answer. A failure leaves nothing behind."""
        if self._folder:
            raise ControlPlaneError("This control plane runs already.")
        files = ensure_built(self._progress)
        try:
            with disk_errors(f"run the control plane in {tempfile.gettempdir()}", "TMPDIR"):
                self._start(files)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kill all parts and remove their folder; nothing happens when it does not run.

        Nothing is asked to end by itself: all that they keep is thrown away.
        """
        for part in reversed(self._parts.values()):
            part.process.kill()
        for part in self._parts.values():
            part.process.wait()
        self._parts.clear()
        if self._client:
            self._client.close()
            self._client = None
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        self._kueue_ports = ()
        if self._guard:
            self._guard.communicate(b"done")
            self._guard = None

    def configure_kueue(self, config: Mapping[str, Any] | None) -> None:
        """Start Kueue anew with another Configuration; objects and the other parts stay as they are."""
        self._running()
        self._kueue_config = config
        self._kill("kueue")
        self._start_kueue(self._kueue_ports)

    # Parts

    def _running(self) -> Path:
        if self._folder is None:
            raise ControlPlaneError(
                "This control plane does not run; use it inside `with ControlPlane() as ...`."
            )
        return self._folder

    def _start(self, files: Files) -> None:
        self._files = files
        folder = Path(tempfile.mkdtemp(prefix="hyperpod-fleet-"))
        self._folder = folder
        _require_space(folder)
        if self._log_dir:
            self._log_dir.mkdir(parents=True, exist_ok=True)
        self._guard = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-I", "-S", guard.__file__, str(folder)], stdin=subprocess.PIPE, process_group=0
        )
        self._certificates = make_certificates(folder / "certs")
        self._spawn("etcd", *_etcd_flags())
        self._start_api_server()
        self._start_api_clients()
        self._start_kueue(_free_ports(2))

    def _start_api_server(self) -> None:
        folder, certificates = self._running(), self._certificates

        def start(ports: Sequence[int]) -> None:
            url = f"https://127.0.0.1:{ports[0]}"
            write_kubeconfig(folder / "kubeconfig", url, certificates)
            write_kubeconfig(folder / "controllers", url, certificates, act_as=CONTROLLER)
            access = Access(url, certificates.authority, certificates.admin, certificates.admin_key)
            self._client = Client(access, check=self.check)
            self._spawn("kube-apiserver", *_api_server_flags(ports[0], certificates))

        self._with_ports("kube-apiserver", start, _free_ports(1), lambda: _answers(self.client()))

    def _start_api_clients(self) -> None:
        common = ["--kubeconfig", str(self._running() / "controllers")]
        if self._scheduler:
            alone = [
                "--leader-elect=false",
                "--secure-port=0",
                "--kube-api-qps=1000",
                "--kube-api-burst=2000",
            ]
            controllers = f"--controllers={','.join(_CONTROLLERS)}"
            jobs = "--concurrent-job-syncs=20"
            self._spawn("kube-controller-manager", *common, *alone, controllers, jobs)
            self._spawn("kube-scheduler", *common, *alone)
        if self._kwok:
            config = self._running() / "stages.yaml"
            published = self._files.read("stages")
            config.write_text("\n---\n".join(json.dumps(each) for each in stages(published)))
            nodes = ["--manage-all-nodes=true", "--node-lease-duration-seconds=0", "--server-address="]
            self._spawn("kwok", *common, *nodes, f"--config={config}")

    def _start_kueue(self, ports: Sequence[int]) -> None:
        """Start Kueue on two ports, for webhooks and for its readiness."""
        place = self._running() / "kueue"
        if not place.exists():
            place.mkdir()
            (place / "certs").symlink_to(self._certificates.authority.parent)

        def start(ports: Sequence[int]) -> None:
            self._install_kueue(ports[0])
            config = kueue.configuration(self._kueue_config, self._frameworks, *ports)
            (place / "config.yaml").write_text(json.dumps(config))
            identity = f"--kubeconfig={self._running() / 'controllers'}"
            self._spawn("kueue", "--config=config.yaml", identity, cwd=place)
            self._kueue_ports = ports

        self._with_ports("kueue", start, ports, lambda: _kueue_ready(*self._kueue_ports))

    def _install_kueue(self, webhook_port: int) -> None:
        """Apply CRDs and webhooks that point at a port, unless they do already."""
        if self._kueue_ports and self._kueue_ports[0] == webhook_port:
            return
        client = self.client()
        server = kueue.WebhookServer(webhook_port, self._certificates.authority)
        crds = kueue.crds_for(self._frameworks, self._files.read("crds"), server)
        hooks = kueue.webhooks_for(self._frameworks, self._files.read("webhooks"), server)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
        require(client.apply_all([namespace, *crds, *hooks]), "Installing Kueue")
        # Kueue looks once for its kinds, and exits without one. "Established" comes a little too early.
        self._until("kube-apiserver", lambda: _listed(client, crds))

    def _spawn(self, name: str, *flags: str, cwd: Path | None = None) -> None:
        folder = self._running()
        assert self._guard is not None
        log = (self._log_dir or folder) / f"{name}.log"
        # Nothing of the user's environment: a proxy in it would get the requests to this machine.
        env = {"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.defpath, **_MEMORY_FOR_SPEED}
        with log.open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 - what ensure_built built
                [self._files.binary(name), *flags],
                cwd=cwd or folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                # Ctrl-C in a terminal goes to the user's group, not to this one: `stop` decides.
                process_group=self._guard.pid,
            )
        self._parts[name] = Part(name, process, log)

    def _kill(self, name: str) -> None:
        part = self._parts.pop(name)
        part.process.kill()
        part.process.wait()

    def _with_ports(
        self,
        name: str,
        start: Callable[[Sequence[int]], None],
        ports: Sequence[int],
        ready: Callable[[], bool],
    ) -> None:
        """Start a part and wait for it, on other ports when somebody else was quicker to take these."""
        for attempt in range(_PORT_ATTEMPTS):
            start(ports)
            try:
                self._until(name, ready)
            except ControlPlaneError:
                if attempt == _PORT_ATTEMPTS - 1 or not self._parts[name].lost_its_port():
                    raise
                self._kill(name)
                ports = _free_ports(len(ports))
            else:
                return

    def _until(self, name: str, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + self._start_seconds
        # Each time before `ready`: another process may answer on a port that was lost to it.
        self.check()
        while not ready():
            if time.monotonic() > end:
                raise ControlPlaneError(
                    f"{name} was not ready after {self._start_seconds:g} s. The last lines of its log:\n"
                    f"{self._parts[name].tail()}\n"
                    "A machine that is busy with other work is the usual cause: run the same command again."
                )
            time.sleep(0.03)
            self.check()


def _etcd_flags() -> list[str]:
    # Sockets in a folder that only this user can enter: no port to lose, no certificate needed. etcd wants
    # them spelled as host and port.
    clients, peers = "unix://localhost:1", "unix://localhost:2"
    return [
        "--data-dir=etcd",
        "--name=rehearsal",
        "--unsafe-no-fsync",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=rehearsal={peers}",
        "--log-level=warn",
    ]


def _api_server_flags(port: int, certificates: Certificates) -> list[str]:
    return [
        "--etcd-servers=unix://localhost:1",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        # Else it writes the address above, which it may not, into the endpoints of its own service.
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--tls-cert-file={certificates.server}",
        f"--tls-private-key-file={certificates.server_key}",
        f"--client-ca-file={certificates.authority}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://127.0.0.1",
        f"--service-account-key-file={certificates.accounts_key}",
        f"--service-account-signing-key-file={certificates.accounts_key}",
        # Pods need no service account that nothing makes, nodes no taint that nothing takes away.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        # As Kueue's own performance tests set them.
        "--max-requests-inflight=5000",
        "--max-mutating-requests-inflight=2500",
    ]


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on just now."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if not _taken(port):
            found.append(port)
        if len(found) == count:
            return found
    raise ControlPlaneError(f"No free port between {PORTS.start} and {PORTS.stop} on this machine.")


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False


def _answers(client: Client) -> bool:
    """Tell whether the API server is ready; the client itself would look for a cause of silence."""
    try:
        return _listens(int(client.url.rpartition(":")[2])) and client.raw("/readyz")[0] == 200
    except ApiError:
        return False


def _listed(client: Client, crds: Sequence[Object]) -> bool:
    """Tell whether discovery lists every served version of these kinds, and `/apis` their groups."""

    def answer(path: str) -> Object:
        # A version that is new to it is no page at all to the server for a moment.
        status, content = client.raw(path)
        return dict(json.loads(content)) if status == 200 else {}

    groups = {each["name"] for each in answer("/apis").get("groups", [])}
    wanted: dict[str, set[str]] = {}
    for spec in (crd["spec"] for crd in crds):
        for version in spec["versions"]:
            if version["served"]:
                path = f"/apis/{spec['group']}/{version['name']}"
                wanted.setdefault(path, set()).add(spec["names"]["plural"])
    return groups >= {crd["spec"]["group"] for crd in crds} and all(
        plurals <= {each["name"] for each in answer(path).get("resources", [])}
        for path, plurals in wanted.items()
    )


def _kueue_ready(webhook_port: int, health_port: int) -> bool:
    """Tell whether Kueue says so itself and answers webhooks."""
    try:
        health = http.client.HTTPConnection("127.0.0.1", health_port, timeout=5)
        with contextlib.closing(health):
            health.request("GET", "/readyz")
            return health.getresponse().status == 200 and _listens(webhook_port)
    except (OSError, http.client.HTTPException):
        return False


def _require_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < _NEEDED_SPACE:
        raise OSError(errno.ENOSPC, "too little space", str(folder))


def _ended(part: Part, code: int) -> str:
    """Return what to tell about a part that ended by itself."""
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"{part.name} {how}. The last lines of its log:\n{part.tail()}\n{_advice(part, code)}"


def _advice(part: Part, code: int) -> str:
    text = part.log.read_text(errors="replace")
    if "no space left on device" in text or "disk quota exceeded" in text:
        return (
            "The disk is full. Free some space, or set TMPDIR to a folder with more, then run the same again."
        )
    if code == -signal.SIGKILL:
        return (
            "Somebody killed it, or the machine ran out of memory: a control plane takes about 1 GB. "
            "Free some and run the same command again."
        )
    return "Run the same command again. If it ends the same way, please report it with the lines above."
