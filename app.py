"""What `cdk` runs: the same config and the same checks as `hpf synth` (`-c config=DIR`, default `config`)."""

import sys
from pathlib import Path

from hyperpod_cli import pipeline, report
from hyperpod_cli.synth import use_packaged_node

use_packaged_node()

from hyperpod_infra.app import add_stacks, new_app  # noqa: E402  (jsii reads JSII_NODE when it is imported)
from hyperpod_infra.order import prove  # noqa: E402  (with the above)

app = new_app()
directory = Path(app.node.try_get_context("config") or "config")
checked = pipeline.check(directory)
sys.stderr.write(report.findings(checked.findings, "text"))
if checked.resolved is None:
    sys.exit(f"{directory}: {report.summary(checked.findings)}")
try:
    add_stacks(app, checked.resolved, directory)
    prove(Path(app.synth().directory))
except ValueError as error:
    sys.exit(f"{directory}: {error}")
