"""The control plane as a command."""

import signal
import subprocess
import sys
from pathlib import Path

from hyperpod_live.control_plane import Client, read_kubeconfig


def test_it_runs_until_it_is_interrupted_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hyperpod_live.control_plane"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        kubeconfig = Path(running.stdout.readline().strip())
        client = Client(read_kubeconfig(kubeconfig, tmp_path))
        assert client.list("kueue.x-k8s.io/v1beta2", "ClusterQueue") == []
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=30) == 0
    assert not kubeconfig.exists()
