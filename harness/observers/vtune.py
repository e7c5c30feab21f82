"""Intel VTune Profiler: system-wide collections, finalised after the engine has stopped.

A collection is paused between queries, and before and after a window.

The summary is CSV with a level for each line; names repeat, so a figure is named by its path.
Values are plain numbers, or begin with a percentage (``23.5% (22.597 out of 96)``). The report
``hw-events`` has a column for each event and a row for each process, which separates the engine
from the client.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.observers import ObservedNumber, Observer, find_program

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
_SUMMARY, _PROCESSES = "summary.csv", "processes.csv"
#: Analyses without hardware events by process.
_SUMMARY_ALONE = ("performance-snapshot",)
_PROCESS, _EVENT = "Process", re.compile(r"Hardware Event Count:([^:]+)(:Self)?")
#: Processes with the most events; a host has thousands.
_MOST = 20


@dataclass(frozen=True)
class VTune(Observer):
    """Collects one type of analysis."""

    analysis: str
    started: str = "Collection started"
    #: Its collectors are closed: what they look up of processes is not documented.
    reads_programs: bool = True

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
        return self._command("stop", tree)

    def pause(self, tree: Path) -> Sequence[str]:
        return self._command("pause", tree)

    def resume(self, tree: Path) -> Sequence[str]:
        return self._command("resume", tree)

    @property
    def reports(self) -> Sequence[str]:
        return (_SUMMARY, _PROCESSES) if self._by_process else (_SUMMARY,)

    def finalise(self, tree: Path) -> Sequence[Sequence[str]]:
        reports = [["-report", "summary", "-report-output", str(tree / _SUMMARY)]]
        if self._by_process:
            output = str(tree / _PROCESSES)
            events = ["-report", "hw-events", "-group-by", "process", "-report-output", output]
            reports.append(events)
        form = ["-format", "csv", "-csv-delimiter", "comma"]
        program, result = str(self.program()), ["-r", str(tree)]
        return [
            [program, "-finalize", *result],
            *([program, *report, *form, *result] for report in reports),
        ]

    def figures(self, tree: Path, output: str) -> list[ObservedNumber]:
        figures = parse((tree / _SUMMARY).read_text("utf-8", "replace"))
        if self._by_process:
            figures += parse_processes((tree / _PROCESSES).read_text("utf-8", "replace"))
        return figures

    @property
    def _by_process(self) -> bool:
        return self.analysis not in _SUMMARY_ALONE

    def _command(self, command: str, tree: Path) -> Sequence[str]:
        return [str(self.program()), "-command", command, "-r", str(tree)]


def parse(text: str) -> list[ObservedNumber]:
    """The figures of a summary; ValueError for another format."""
    rows = csv.reader(io.StringIO(text))
    if next(rows, None) != _COLUMNS:
        raise ValueError(f"VTune's summary does not begin with {','.join(_COLUMNS)}")
    path: list[str] = []
    figures = []
    for row in rows:
        if len(row) < 2 or not row[0].isascii() or not row[0].isdigit():
            continue
        level = int(row[0])
        if level > len(path):
            raise ValueError(f"VTune's summary: {row[1]!r} is at level {level} without a parent")
        path = [*path[:level], row[1]]
        match = _NUMBER.match(row[2]) if len(row) > 2 else None
        if match and path[0] not in _NO_FIGURES and math.isfinite(value := float(match[0])):
            figures.append(ObservedNumber(tuple(path), value))
    return figures


def parse_processes(text: str) -> list[ObservedNumber]:
    """Events by process, those with the most first; ValueError for another format."""
    rows = csv.DictReader(io.StringIO(text), restval="")
    events = {name: match[1] for name in rows.fieldnames or () if (match := _EVENT.fullmatch(name))}
    if _PROCESS not in (rows.fieldnames or ()) or not events:
        raise ValueError("VTune's events have not the columns Process,Hardware Event Count:…")
    processes = []
    for row in rows:
        counts = {
            event: float(row[name])
            for name, event in events.items()
            if (match := _NUMBER.fullmatch(row[name])) and math.isfinite(float(match[0]))
        }
        processes.append((row[_PROCESS], counts))
    processes.sort(key=lambda process: -sum(process[1].values()))
    return [
        ObservedNumber(("Processes", process, event), count)
        for process, counts in processes[:_MOST]
        for event, count in counts.items()
    ]


OBSERVERS: Sequence[Observer] = [VTune(analysis) for analysis in _KNOBS]
