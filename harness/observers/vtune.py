"""Intel VTune Profiler: system-wide collections, finalised after the engine has stopped.

The summary is CSV with a level for each line; names repeat, so a figure is named by its path.
Values are plain numbers, or begin with a percentage (``23.5% (22.597 out of 96)``).
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.observers import Figure, Observer, find_program

#: Bandwidth limits are measured by a load of VTune's own, memory objects by intercepting
#: allocations: both change the run.
_KNOBS: Mapping[str, Sequence[str]] = {
    "memory-access": ("analyze-mem-objects=false", "dram-bandwidth-limits=false"),
    "uarch-exploration": ("dram-bandwidth-limits=false",),
    "hotspots": ("sampling-mode=hw",),
    "performance-snapshot": ("dram-bandwidth-limits=false",),
}
_COLUMNS = ["Hierarchy Level", "Metric Name", "Metric Value"]
#: Sections of text.
_NO_FIGURES = ("Collection and Platform Info", "Recommendations:")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?(?=$|%)")
_SUMMARY = "summary.csv"


@dataclass(frozen=True)
class VTune:
    """One analysis type."""

    analysis: str
    started: str = "Collection started"

    @property
    def name(self) -> str:
        return f"vtune:{self.analysis}"

    def program(self) -> Path:
        return find_program(
            "VTune", "VTUNE_HOME", ("bin64/vtune", "latest/bin64/vtune"), ("vtune",)
        )

    def collect(self, tree: Path) -> Sequence[str]:
        knobs = [word for knob in _KNOBS[self.analysis] for word in ("-knob", knob)]
        how = ["-duration", "unlimited", "-finalization-mode", "none"]
        return [str(self.program()), "-collect", self.analysis, *knobs, *how, "-r", str(tree)]

    def stop(self, tree: Path) -> Sequence[str]:
        return [str(self.program()), "-command", "stop", "-r", str(tree)]

    def finalise(self, tree: Path) -> Sequence[Sequence[str]]:
        program, result = str(self.program()), ["-r", str(tree)]
        form = ["-format", "csv", "-csv-delimiter", "comma"]
        report = ["-report", "summary", *form, "-report-output", str(tree / _SUMMARY)]
        return [[program, "-finalize", *result], [program, *report, *result]]

    def figures(self, tree: Path, output: str) -> list[Figure]:
        return parse((tree / _SUMMARY).read_text("utf-8", "replace"))


def parse(text: str) -> list[Figure]:
    """The figures of a summary; ValueError for another format."""
    rows = csv.reader(io.StringIO(text))
    if next(rows, None) != _COLUMNS:
        raise ValueError(f"VTune's summary does not begin with {','.join(_COLUMNS)}")
    path: list[str] = []
    found = []
    for row in rows:
        if len(row) < 2 or not row[0].isascii() or not row[0].isdigit():
            continue
        level = int(row[0])
        if level > len(path):
            raise ValueError(f"VTune's summary: {row[1]!r} is at level {level} without a parent")
        path = [*path[:level], row[1]]
        match = _NUMBER.match(row[2]) if len(row) > 2 else None
        if match and path[0] not in _NO_FIGURES and math.isfinite(value := float(match[0])):
            found.append(Figure(tuple(path), value))
    return found


OBSERVERS: Sequence[Observer] = [VTune(analysis) for analysis in _KNOBS]
