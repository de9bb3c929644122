"""Write docs/order.md, the table of what must come before what, from the code; --check only compares.

Exit code 1 when --check finds the committed file out of date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hyperpod_cli.output import emit
from hyperpod_infra.order import ORDER, Row

TARGET = Path(__file__).parents[1] / "docs" / "order.md"
HEAD = """# Order

CloudFormation creates and deletes as much as it can at the same time. What must wait for what has to be in
the templates: a cluster whose role went first stays in Deleting, an add-on that finds no node fails its
stack. The table says every such order. `hpf synth` proves each row on the templates that it is about to
write, by reachability in their dependency graph, and writes nothing when one is not proven. This page is
generated from the table in `infra/hyperpod_infra/order.py` (`python3 dev.py golden`).

## What counts as proof
- In one stack: DependsOn, Ref, Fn::GetAtt and Fn::Sub, also by way of other resources.
- Between stacks: the later stack imports a value that the first exports, or a stack between them does. It
  cannot be created before the first is complete, nor can the first be deleted while it is there.
- Between stacks, for a creation only: a dependency of stacks, of which `cdk deploy` knows and CloudFormation
  does not.
- For a deletion: the first is kept (DeletionPolicy and UpdateReplacePolicy).

Only what is certain counts: of an Fn::If what both branches name, and nothing by way of a resource that has a
Condition. A row applies wherever both its sides are among the stacks of one cluster; with a network or an EKS
cluster that is there already, there is nothing to prove.

## What it does not prove
- The proof is about stacks that come and go. When two resources in different stacks leave both templates in
  one deployment, `cdk deploy` updates the lower stack first.
- CloudFormation updates in the order of creation, so in one stack a row about creation holds for an update
  too. Between stacks it holds if all are deployed by one `cdk deploy`.
- A network outlives file systems that were kept only because AWS refuses to delete it while they are in it
  ([removal.md](removal.md)); no template can say so.
- That "complete" means ready: where it does not, a row names what waits (wait conditions, the wait for
  Kueue's controller).

## Add a row
Say both sides by what they are (`kinds.py`), not by the reference that the row is about, and see that a fleet
or an imagined stack of the tests has them: the tests break each row on a template, and expect to be told.

## The table
The mark says how sure a row is. D: documentation of AWS or of Kubernetes projects. R: code that AWS or such a
project publishes, and its issues. S: read from schemas or the CDK's output. F: one report from the field. I:
inferred.
"""


def _cells(row: Row) -> str:
    then = row.then.words if row.then is not None else "its stack: it is kept"
    cells = (f"`{row.id}`", row.first.words, then, row.holds, row.why, f"{row.source} [{row.mark}]")
    return "| " + " | ".join(cells) + " |"


def text() -> str:
    """The whole page."""
    lines = [HEAD, "| row | first | then | holds for | why | source |", "|---|---|---|---|---|---|"]
    lines += map(_cells, ORDER)
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Run the tool; give its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    wanted = text()
    if parser.parse_args(arguments).check:
        current = TARGET.is_file() and TARGET.read_text("utf-8") == wanted
        if not current:
            print(f"{TARGET.name} is out of date: run python3 dev.py golden")
        return 0 if current else 1
    emit(wanted, TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
