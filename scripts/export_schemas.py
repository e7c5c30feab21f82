#!/usr/bin/env python3
"""Write the JSON Schema of each document of the project into a folder: for other programs.

That of a workload's parameters (params-tpcc.json) is the schema of ``params`` in its run specs.

scripts/export_schemas.py FOLDER
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from harness import registry
from harness.drivers.loadgen.spec import LoadgenResult
from harness.experiment.profile_document import Profile
from harness.experiment.slurm import Submission
from harness.experiment.tuning import Tuning
from harness.micro.key_table import KernelKeys
from harness.micro.suite_document import SuiteDocument
from harness.models.device_document import DeviceDocument
from harness.models.score import Score
from harness.paper.catalogue import PaperFile
from harness.store.artifacts import KINDS, MonitorSamples
from harness.store.calibrations import Calibration, Canary
from harness.store.checkpoint import AttemptLine, StepLine
from harness.store.datasets import DatasetRecord
from harness.store.host import HostFacts
from harness.store.result import Manifest, RunResult
from harness.store.spec import RunSpec
from harness.structs import json_schema
from harness.tiers.hostfile import HostDocument
from harness.workloads.kinds import Choice, Count, Flag, Kind, Number
from harness.workloads.parameters import Parameters
from reports.price_list import PriceList
from reports.published import PublishedValue
from reports.site.folder import SiteManifest

DOCUMENTS: dict[str, Any] = {
    "attempt-line": AttemptLine,
    "calibration": Calibration,
    "canary": Canary,
    "dataset": DatasetRecord,
    "device-model": DeviceDocument,
    "host-facts": HostFacts,
    "host-file": HostDocument,
    "kernel-keys": KernelKeys,
    "loadgen-result": LoadgenResult,
    "manifest": Manifest,
    "micro-suite": SuiteDocument,
    "model-score": Score,
    "monitor-samples": MonitorSamples,
    "paper": PaperFile,
    "prices": PriceList,
    "profile": Profile,
    "published-csv": PublishedValue,
    "run": RunResult,
    "run-spec": RunSpec,
    "site": SiteManifest,
    "step-line": StepLine,
    "submission": Submission,
    "tuning": Tuning,
    **{f"artifact-{name}": kind for name, kind in KINDS.items()},
}


def parameters_schema(parameters: type[Parameters]) -> dict[str, Any]:
    """Return the schema of a workload's parameters; null stands for the default."""
    properties = {
        name: {
            "anyOf": [_schema_of(declared.kind), {"type": "null"}],
            "default": declared.default,
            "description": f"{declared.help} Values: {declared.kind.values}.",
        }
        for name, declared in parameters.declared().items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _schema_of(kind: Kind) -> dict[str, Any]:
    """Return types and bounds; of a kind with a grammar of its own, that it is a value."""
    if isinstance(kind, Flag):
        return {"type": "boolean"}
    if isinstance(kind, Choice):
        return {"enum": [*kind.words]}
    if isinstance(kind, Count):
        return {"type": "integer", "minimum": kind.least, "maximum": kind.most}
    if isinstance(kind, Number):
        low, high = (
            ("exclusiveMinimum", "exclusiveMaximum") if kind.open_ended else ("minimum", "maximum")
        )
        most = {} if math.isinf(kind.most) else {high: kind.most}
        return {"type": "number", low: kind.least, **most}
    return {"not": {"type": "null"}}


def main() -> None:
    """Write a file for each document."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    schemas = {name: json_schema(kind) for name, kind in DOCUMENTS.items()}
    schemas |= {
        f"params-{name}": parameters_schema(parameters)
        for name, parameters in registry.all_parameters().items()
    }
    for name, schema in schemas.items():
        text = json.dumps(schema, indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
