"""Write the handlers' SageMaker model: `python tools/generate_service_model.py [--check]`.

The boto3 of a Lambda runtime may be older than fields that the handlers read or write (MinCount,
AcceleratorPartition, AbsoluteBorrowLimits). So they bring the operations that they call, cut from the pinned
botocore's model, without documentation. botocore finds it by AWS_DATA_PATH, before its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

from hyperpod_cli.output import emit

Json = dict[str, Any]

API_VERSION = "2017-07-24"

OPERATIONS = (
    "AddTags",
    "CreateClusterSchedulerConfig",
    "CreateComputeQuota",
    "DeleteClusterSchedulerConfig",
    "DeleteComputeQuota",
    "DeleteTags",
    "DescribeCluster",
    "DescribeClusterEvent",
    "DescribeClusterSchedulerConfig",
    "DescribeComputeQuota",
    "ListClusterEvents",
    "ListClusterNodes",
    "ListClusterSchedulerConfigs",
    "ListComputeQuotas",
    "ListTags",
    "UpdateClusterSchedulerConfig",
    "UpdateComputeQuota",
)

OUTPUT = (
    Path(__file__).parents[1]
    / "constructs/hyperpod_constructs/handlers/models/sagemaker"
    / API_VERSION
    / "service-2.json"
)


def botocore_model() -> Json:
    """Return the whole model as botocore ships it."""
    file = files("botocore") / "data/sagemaker" / API_VERSION / "service-2.json.gz"
    model: Json = json.loads(gzip.decompress(file.read_bytes()))
    return model


def trim(model: Json) -> Json:
    """Keep OPERATIONS and the shapes that they reach, without documentation."""
    operations = {name: model["operations"][name] for name in OPERATIONS}
    shapes: Json = {}
    todo = sorted(_shape_names(operations))
    while todo:
        name = todo.pop()
        if name not in shapes:
            shapes[name] = model["shapes"][name]
            todo += _shape_names(shapes[name])
    kept = {key: model[key] for key in ("version", "metadata")}
    trimmed: Json = _without_documentation({**kept, "operations": operations, "shapes": shapes})
    return trimmed


def _shape_names(value: Any) -> list[str]:
    """Return every shape that a part of a model refers to."""
    if isinstance(value, list):
        return [name for item in value for name in _shape_names(item)]
    if not isinstance(value, dict):
        return []
    own = [value["shape"]] if isinstance(value.get("shape"), str) else []
    return own + [name for item in value.values() for name in _shape_names(item)]


def _without_documentation(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_documentation(item) for item in value]
    if isinstance(value, dict):
        # A member of this name would be a map.
        return {
            key: _without_documentation(item)
            for key, item in value.items()
            if not (key == "documentation" and isinstance(item, str))
        }
    return value


def main() -> int:
    """Write the model, or compare it with what is there; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the model differs")
    check = parser.parse_args().check
    text = json.dumps(trim(botocore_model()), indent=1, sort_keys=True) + "\n"
    if not check:
        emit(text, OUTPUT)
        return 0
    if OUTPUT.is_file() and OUTPUT.read_text(encoding="utf-8") == text:
        return 0
    print(f"{OUTPUT.name} differs from the pinned botocore; run `python tools/generate_service_model.py`")
    return 1


if __name__ == "__main__":
    sys.exit(main())
