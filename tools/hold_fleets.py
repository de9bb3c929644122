"""Hold random fleets against a real Kueue: `python tools/hold_fleets.py 1000`.

Every object of every fleet must be accepted, stored as it was sent, and every queue become active. Prints
the counts and each problem with the number of its fleet; `--show NUMBER` prints a fleet as YAML.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.live.claims import acceptance, random_fleets


def main() -> int:
    """Run; 1 if anything was refused, changed or inactive."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, nargs="?", default=1000, help="fleets (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="number of the first fleet (default: 0)")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="print this fleet and do nothing else")
    args = parser.parse_args()
    if args.show is not None:
        print(yaml.safe_dump_all(random_fleets.documents(args.show), sort_keys=False), end="")
        return 0
    account = acceptance.run(args.count, args.seed, lambda line: print(line, file=sys.stderr))
    print(f"{account.fleets} fleets, {account.objects} objects, {account.queues} queues", end="")
    print(f", {len(account.problems)} problems")
    print("\n".join(account.problems), end="\n" if account.problems else "")
    return 1 if account.problems else 0


if __name__ == "__main__":
    sys.exit(main())
