"""Runs beside a control plane and clears up after a process that died before it could do so itself.

Started as a script with the folder of the run as its argument. It leads the process group that all parts are
in, so that no other process can get that group's number while it lives. It reads its standard input to the
end: the writing side closes with the process that started it, whatever ended it. `done` there means that
nothing is left to do. Works the same on Linux and macOS, which a parent-death signal does not.
"""

import os
import shutil
import signal
import sys
import time


def clear(group: int, folder: str) -> None:
    """Kill the process group, then remove the folder that its processes wrote to."""
    # Out of the group, to outlive it.
    os.setpgid(0, 0)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
            break
        time.sleep(0.02)
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Wait for the end of standard input and clear up, unless it said `done`."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    if sys.stdin.buffer.read() != b"done":
        group = os.getpgrp()
        if os.fork() == 0:
            clear(group, sys.argv[1])
            os._exit(0)


if __name__ == "__main__":
    main()
