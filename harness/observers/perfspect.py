"""Intel PerfSpect: metrics of the whole host, with mean, minimum and maximum over time."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

from harness.observers import Figure, Observer, find_program

_STATISTICS = ("mean", "min", "max", "stddev")


class PerfSpect(Observer):
    """``perfspect metrics``."""

    name = "perfspect"
    started = "collecting metrics"

    def program(self) -> Path:
        return find_program("PerfSpect", "PERFSPECT_HOME", ("perfspect",), ("perfspect",))

    def collect(self, tree: Path) -> Sequence[str]:
        """By its default, a workload of less than 5 s would have no interval."""
        options = ["--interval", "1", "--format", "csv", "--output", str(tree)]
        return [str(self.program()), "metrics", *options]

    def figures(self, tree: Path, output: str) -> list[Figure]:
        files = sorted(tree.glob("*_metrics_summary.csv"))
        if not files:
            raise ValueError(f"PerfSpect wrote no *_metrics_summary.csv to {tree}")
        return [one for path in files for one in parse(path.read_text("utf-8", "replace"))]


def parse(text: str) -> list[Figure]:
    """The figures of a summary, by metric and statistic; ValueError for another format."""
    rows = csv.DictReader(io.StringIO(text))
    if not {"metric", *_STATISTICS} <= set(rows.fieldnames or ()):
        raise ValueError(f"PerfSpect's summary has not the columns metric,{','.join(_STATISTICS)}")
    groups = [name for name in rows.fieldnames or () if name not in ("metric", *_STATISTICS)]
    found = []
    for row in rows:
        for statistic in _STATISTICS:
            path = (*(f"{name} {row[name]}" for name in groups), str(row["metric"]), statistic)
            try:
                value = float(row[statistic] or "nan")
            except ValueError:
                continue
            if math.isfinite(value):
                found.append(Figure(path, value))
    return found


OBSERVERS: Sequence[Observer] = [PerfSpect()]
