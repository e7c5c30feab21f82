#!/usr/bin/env python3
"""Write the JSON Schema of each document of the project into a folder: for other programs.

scripts/export_schemas.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from harness.drivers.loadgen.spec import LoadgenResult
from harness.experiment.profile_document import Profile
from harness.experiment.tuning import Tuning
from harness.micro.suite_document import SuiteDocument
from harness.paper.catalogue import PaperFile
from harness.store.datasets import DatasetRecord
from harness.structs import Struct, json_schema
from harness.tiers.hostfile import HostDocument
from reports.money import PriceList
from reports.published import PublishedValue

DOCUMENTS: dict[str, type[Struct]] = {
    "dataset": DatasetRecord,
    "host-file": HostDocument,
    "loadgen-result": LoadgenResult,
    "micro-suite": SuiteDocument,
    "paper": PaperFile,
    "prices": PriceList,
    "profile": Profile,
    "published-csv": PublishedValue,
    "tuning": Tuning,
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
