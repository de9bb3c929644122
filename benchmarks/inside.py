"""Figures from inside one process, as JSON on standard output: `inside.py WHAT CONFIG [OUT]`.

`run.py` starts it, once for each figure that is not to be disturbed by another, and says what the names mean.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hyperpod_cli import pipeline, report
from hyperpod_governance.model import ResolvedCluster, ResolvedFleet


def best(rounds: int, **ways: Callable[[], object]) -> dict[str, float]:
    """Least processor seconds of each way, taken in turns; the first round is dropped."""
    least = dict.fromkeys(ways, float("inf"))
    for number in range(rounds + 1):
        for name, way in ways.items():
            gc.collect()
            gc.disable()  # as `hpf` and timeit do
            before = time.process_time()
            way()
            if number:
                least[name] = min(least[name], time.process_time() - before)
            gc.enable()
    return least


def resolved(config: Path) -> ResolvedFleet:
    """Resolve a fleet of the benchmark, whose config has no error."""
    fleet = pipeline.check(config).resolved
    assert fleet is not None
    return fleet


def parse(config: Path) -> dict[str, float]:
    """Compare `check` with the C parser in one process: no interpreter start, no imports."""
    import yaml  # noqa: PLC0415  (each figure imports what it needs, and nothing else)

    def yardstick() -> None:
        for path in config.rglob("*.yaml"):
            list(yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader))

    return best(5, parse=yardstick, check=lambda: pipeline.check(config))


def imported(config: Path) -> dict[str, bool]:
    """Tell which heavy modules `validate` imports."""
    from hyperpod_cli.main import main  # noqa: PLC0415

    main(["validate", str(config), "--output", os.devnull])
    return {name: name in sys.modules for name in ("jsii", "boto3", "yaml", "aws_cdk", "cdk8s")}


def scale(config: Path) -> dict[str, float]:
    """Time what grows with the number of teams."""
    from hyperpod_k8s.emit import to_yaml  # noqa: PLC0415
    from hyperpod_k8s.objects import manifests  # noqa: PLC0415

    fleet = resolved(config)
    rows = [row for cluster in fleet.clusters if cluster.governance for row in cluster.governance.rows]
    return best(
        3,
        validate=lambda: pipeline.check(config),
        quotas=lambda: report.quotas(rows, "json"),
        manifests=lambda: [
            to_yaml(file.objects) for cluster in fleet.clusters for file in manifests(cluster)
        ],
    )


def dump(config: Path) -> dict[str, float]:
    """Compare making and writing all manifests with PyYAML's C dumper on finished objects."""
    import yaml  # noqa: PLC0415

    from hyperpod_k8s.emit import to_yaml  # noqa: PLC0415
    from hyperpod_k8s.objects import manifests  # noqa: PLC0415

    (cluster,) = resolved(config).clusters
    finished = [item for file in manifests(cluster) for item in file.objects]

    return best(
        3,
        dumper=lambda: yaml.dump_all(finished, Dumper=yaml.CSafeDumper, sort_keys=False),
        manifests=lambda: [to_yaml(file.objects) for file in manifests(cluster)],
    ) | {"objects": float(len(finished))}


def cdk8s_ours(config: Path, out: Path) -> dict[str, float]:
    """Time ClusterChart, from the resolved model to the file, with the start of jsii."""
    (cluster,) = resolved(config).clusters
    before = time.perf_counter()
    from cdk8s import App  # noqa: PLC0415

    from hyperpod_k8s.charts import ClusterChart  # noqa: PLC0415

    app = App(outdir=str(out))
    ClusterChart(app, "chart", cluster=cluster)
    app.synth()
    return {"seconds": time.perf_counter() - before}


def cdk8s_usual(config: Path, out: Path) -> dict[str, float]:
    """Time the same objects as one ApiObject each in one chart, with the start of jsii."""
    (cluster,) = resolved(config).clusters
    before = time.perf_counter()
    from cdk8s import ApiObject, App, Chart, JsonPatch  # noqa: PLC0415

    app = App(outdir=str(out))
    chart = Chart(app, "chart")
    for number, item in enumerate(_objects(cluster)):
        made = ApiObject(
            chart, str(number), api_version=item["apiVersion"], kind=item["kind"], metadata=item["metadata"]
        )
        rest = [key for key in item if key not in ("apiVersion", "kind", "metadata")]
        made.add_json_patch(*(JsonPatch.add(f"/{key}", item[key]) for key in rest))
    app.synth()
    return {"seconds": time.perf_counter() - before}


def _objects(cluster: ResolvedCluster) -> list[dict[str, Any]]:
    from hyperpod_k8s.objects import manifests  # noqa: PLC0415

    return [item for file in manifests(cluster) for item in file.objects]


def charts(config: Path, out: Path) -> dict[str, float]:
    """Write the example's Helm charts for the app that is written by hand."""
    from hyperpod_governance import naming  # noqa: PLC0415
    from hyperpod_k8s import helm, manager  # noqa: PLC0415

    clusters = {cluster.name: cluster for cluster in resolved(config).clusters}
    research, studio = clusters["research"], clusters["studio"]
    assert studio.governance is not None
    teams = naming.release()
    found = {
        "research-teams": helm.helm_chart(research, teams, None, True),
        "studio-shared": helm.helm_chart(studio, naming.SHARED_RELEASE, (), True),
        "studio-teams": helm.helm_chart(studio, teams, None, False),
    }
    for name, files in found.items():
        for path, text in files.items():
            target = out / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="\n")
    values = manager.helm_values(studio.governance)
    text = values["managerConfig"]["controllerManagerConfigYaml"]
    (out / "studio-kueue.yaml").write_text(text, encoding="utf-8", newline="\n")
    return {}


def stacks(config: Path, out: Path) -> dict[str, float]:
    """Synthesize a fleet, and measure what CloudFormation and Helm set limits to."""
    from hyperpod_cli.synth import use_packaged_node  # noqa: PLC0415

    use_packaged_node()
    fleet = resolved(config)
    before = time.perf_counter()
    from hyperpod_infra.app import synthesize  # noqa: PLC0415

    synthesize(fleet, config, out)
    seconds = time.perf_counter() - before
    templates = list(out.glob("*.template.json"))
    resources = [len(json.loads(path.read_bytes())["Resources"]) for path in templates]
    assets = [folder for folder in out.glob("asset.*") if (folder / "Chart.yaml").is_file()]
    return {
        "seconds": seconds,
        "stacks": len(templates),
        "largest template, bytes": max(path.stat().st_size for path in templates),
        "largest template, resources": max(resources),
        "charts": len(assets),
        "largest release, bytes": max((_release(folder) for folder in assets), default=0),
    }


def prove(assembly: Path) -> dict[str, float]:
    """Time the proof of all orders on a synthesized cloud assembly."""
    from hyperpod_infra import order  # noqa: PLC0415

    return best(5, prove=lambda: order.prove(assembly))


def _release(folder: Path) -> int:
    from hyperpod_k8s.helm import release_bytes  # noqa: PLC0415

    files = (path for path in folder.rglob("*") if path.is_file())
    return release_bytes({str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files})


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps(globals()[what](*map(Path, arguments))))
