#!/usr/bin/env python3
"""Write the JSON Schema of each document of the project into a folder: for other programs.

scripts/export_schemas.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from harness.drivers.loadgen.spec import LoadgenResult
from harness.experiment.profile_document import Profile
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
from reports.money import PriceList
from reports.published import PublishedValue

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
    "step-line": StepLine,
    "tuning": Tuning,
    **{f"artifact-{name}": kind for name, kind in KINDS.items()},
}


def main() -> None:
    """Write a file for each document."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in DOCUMENTS.items():
        text = json.dumps(json_schema(kind), indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
