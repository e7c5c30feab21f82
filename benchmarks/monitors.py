"""What the default monitors cost: the same run with all of them, and with none.

    .venv/bin/python benchmarks/monitors.py --minutes 10

Pairs of whole runs, whose order is drawn for each pair: TPC-C on PostgreSQL with two users, YCSB C
on RocksDB, TPC-H on DuckDB. The ratio is that of throughput (of the queries' total time, inverted):
with monitors over without. The bar: at most 1 % less, where the whole interval is above 0.99.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from reports.statistics import Estimate, compare_paired

ROOT = Path(__file__).resolve().parents[1]
HARNESS = str(ROOT / ".venv" / "bin" / "harness")
WINDOW = ("--ramp-up", "5s", "--duration", "15s", "--placement", "ssd-both")
WORKLOADS: Mapping[str, Sequence[str]] = {
    "tpcc": ("--engine", "postgres", "--warehouses", "4", "--users", "2", *WINDOW),
    "ycsb": ("--engine", "rocksdb", "--workload", "c", "--records", "100000", "--threads", "2",
             *WINDOW),
    "tpch": ("--engine", "duckdb", "--scale", "1", "--cache", "warm", "--no-plans",
             "--placement", "ssd-both"),
}  # fmt: skip
METRICS = {
    "tpcc": "transactions_per_minute",
    "ycsb": "operations_per_second",
    "tpch": "queries_duration_ns",
}
LEAST = 0.99


def default_monitors() -> list[str]:
    """Those that this host has and that a run has if nothing is said."""
    command = [HARNESS, "doctor", "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    monitors = json.loads(said.stdout)["monitors"]
    return [one["name"] for one in monitors if one["available"] and one["default"]]


def speed(workload: str, left_out: Sequence[str], results: Path) -> float:
    """Operations of one run in a second or minute; of TPC-H, one over its queries' total time."""
    without = [text for name in left_out for text in ("--no-monitor", name)]
    given = (*WORKLOADS[workload], *without, "--results", str(results), "--again", "--json")
    command = [HARNESS, "run", workload, *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    (run,) = json.loads(done.stdout)["runs"]
    (metric,) = (one for one in run["metrics"] if one["name"] == METRICS[workload])
    value = float(metric["value"])
    return 1e9 / value if workload == "tpch" else value


def verdict(found: Estimate) -> str:
    """Where the interval of the ratio lies against the bar."""
    if found.low is None or found.high is None:
        return "undecided"
    return "within" if found.low >= LEAST else "OVER" if found.high < LEAST else "undecided"


def main() -> None:
    """Print the medians, the ratio and the verdict of each workload."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10, help="of each workload [10]")
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    given = parser.parse_args()
    arms: dict[str, list[str]] = {"with": [], "without": default_monitors()}
    print("monitors:", ", ".join(arms["without"]))
    for workload in given.workload or WORKLOADS:
        speeds: dict[str, list[float]] = {arm: [] for arm in arms}
        with tempfile.TemporaryDirectory() as folder:
            speed(workload, [], Path(folder))  # loads the data
            end = time.monotonic() + given.minutes * 60
            while time.monotonic() < end:
                for arm in random.sample(list(arms), 2):
                    speeds[arm].append(speed(workload, arms[arm], Path(folder)))
        found = compare_paired(speeds["with"], speeds["without"])
        medians = ", ".join(f"{arm} {median(values):.4g}" for arm, values in speeds.items())
        interval = f"[{found.low:.4f}, {found.high:.4f}]" if found.low and found.high else "-"
        print(f"{workload}: {found.n_a} pairs, {medians}, ratio {found.ratio:.4f} {interval}, "
              f"{verdict(found)}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
