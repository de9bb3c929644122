"""`python -m hyperpod_live.control_plane`: a control plane to look into with kubectl, until Ctrl-C.

The path of its kubeconfig is on standard output.
"""

import sys
import time

from hyperpod_live.control_plane import ControlPlane, ControlPlaneError


def main() -> int:
    """Run it until it is interrupted (exit code 0) or one of its parts ends (1)."""
    try:
        with ControlPlane() as running:
            print(running.kubeconfig, flush=True)
            print("Ctrl-C ends it and removes all that it holds", file=sys.stderr)
            while True:
                running.check()
                time.sleep(1)
    except ControlPlaneError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
