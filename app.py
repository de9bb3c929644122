"""What `cdk` runs: the same config and the same checks as `hpf synth` (`-c config=DIR`, default `config`)."""

import sys
from pathlib import Path

from hyperpod_cli import pipeline, report
from hyperpod_cli.synth import use_packaged_node

use_packaged_node()

from aws_cdk import App  # noqa: E402  (jsii reads JSII_NODE when it is imported)

from hyperpod_infra.app import add_stacks  # noqa: E402

app = App()
directory = Path(app.node.try_get_context("config") or "config")
checked = pipeline.check(directory)
sys.stderr.write(report.findings(checked.findings, "text"))
if checked.resolved is None:
    sys.exit(f"{directory}: {report.summary(checked.findings)}")
add_stacks(app, checked.resolved, directory)
app.synth()
