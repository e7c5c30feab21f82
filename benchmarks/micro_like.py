"""How like the engine a derived suite is: its durations on the run's own tier, over the run's.

Each pair is a run of an engine and, right after it, `harness run micro --like` of that run. Of each
cell that was busy for at least 1 % of the window, printed: medians over the pairs of the engine's
and the suite's mean, and of their ratio, with the range.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from typing import Any

from smoke import SMOKE, parsed

from harness import hdr

_TPCC = ("--warehouses", "2", "--users", "4", "--ramp-up", "1s", "--duration", "4s")
RUNS = {
    "TPC-C, PostgreSQL": ("tpcc", "--engine", "postgres", *_TPCC),
    "TPC-C, MySQL": ("tpcc", "--engine", "mysql", *_TPCC),
    "YCSB A, RocksDB": ("ycsb", "--engine", "rocksdb", "--workload", "a", "--set", "sync=true",
                        "--records", "100000", "--threads", "4", "--ramp-up", "1s",
                        "--duration", "4s"),
    "TPC-H, DuckDB": ("tpch", "--engine", "duckdb", "--scale", "0.1", "--queries", "1,3,6,9,18"),
    "TPC-H, PostgreSQL": ("tpch", "--engine", "postgres", "--scale", "0.1", "--queries", "1,6"),
}  # fmt: skip
if SMOKE:
    RUNS = {
        "YCSB A": ("ycsb", "--engine", "rocksdb", "--workload", "a", "--set", "sync=true",
                   "--records", "1000", "--threads", "1", "--ramp-up", "0s", "--duration", "1s"),
    }  # fmt: skip
_SUITE_LENGTH = "1s" if SMOKE else "4s"
_LEAST_BUSY = 0.01
Cell = tuple[str, str, str]


def main() -> None:
    """Run the pairs and print a line of a table for each cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tier", default="ssd")
    options = parsed(parser, pairs=1)
    found: dict[tuple[str, Cell], list[tuple[float, float]]] = defaultdict(list)
    for pair in range(options.pairs):
        for name, argv in RUNS.items():
            run = harness(*argv, "--placement", f"{options.tier}-both", "--seed", str(pair))
            suite = harness("micro", "--like", run["run_id"], "--tier", options.tier,
                            "--duration", _SUITE_LENGTH)  # fmt: skip
            engine, like = means(run, "io_duration_ns"), means(suite, "io_like_duration_ns")
            total = sum(count * mean for count, mean in engine.values())
            for cell, (count, mean) in engine.items():
                if count * mean >= _LEAST_BUSY * total and cell in like:
                    found[name, cell].append((mean, like[cell][1]))
    for (name, cell), means_ns in found.items():
        ratios = [suite / run for run, suite in means_ns]
        run_us, suite_us = (
            statistics.median(column) / 1e3 for column in zip(*means_ns, strict=True)
        )
        print(
            f"| {name} | {' '.join(cell)} | {run_us:,.0f} | {suite_us:,.0f} "
            f"| {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}) |"
        )


def harness(*argv: str) -> dict[str, Any]:
    """The one run of ``harness run …``."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from harness.cli import main; main()",
            "run",
            *argv,
            "--json",
            "-q",
        ],
        stdout=subprocess.PIPE,
        check=True,
    )
    (run,) = json.loads(done.stdout)["runs"]
    return dict(run)


def means(run: dict[str, Any], metric: str) -> dict[Cell, tuple[int, float]]:
    """Calls and mean duration in ns by part, operation and role."""
    found = {}
    for one in run["metrics"]:
        if one["name"] == metric:
            labels, times = one["labels"], hdr.decode(one["hdr"])
            cell = (labels["part"], labels["operation"], labels["role"])
            found[cell] = (times.total, times.mean)
    return found


if __name__ == "__main__":
    main()
