"""Cost of the default monitors: throughput and time with all of them over those with none.

    .venv/bin/python benchmarks/monitors.py --minutes 10

TPC-C on PostgreSQL with two users and YCSB C on RocksDB: one run each, in which blocks of 4 s with
and without alternate (alternating/), and the seconds of neighbouring blocks are compared. The I/O
trace, with which a call takes 0.1 us more, is on in both. TPC-H on DuckDB, which has no such
seconds: pairs of whole runs, of the queries' total time, inverted. The order within each pair is
drawn. The bar: at most 1 % less, where the whole interval is above 0.99.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from smoke import SMOKE, parsed

from reports.statistics import Ratio, ratio_of

ROOT = Path(__file__).resolve().parents[1]
HARNESS = str(ROOT / ".venv" / "bin" / "harness")
WORKLOADS: Mapping[str, Sequence[str]] = {
    "tpcc": ("--engine", "postgres", "--warehouses", "4", "--users", "2"),
    "ycsb": ("--engine", "rocksdb", "--workload", "c", "--records", "100000", "--threads", "2"),
    "tpch": ("--engine", "duckdb", "--scale", "5", "--cache", "warm", "--no-plans"),
}
if SMOKE:
    WORKLOADS = {
        "ycsb": ("--engine", "rocksdb", "--workload", "c", "--records", "1000", "--rate", "200"),
        "tpch": ("--engine", "duckdb", "--scale", "0.01", "--cache", "warm", "--no-plans",
                 "--queries", "6"),
    }  # fmt: skip
LEAST = 0.99


def default_monitors() -> list[str]:
    """Monitors that this host has and that a run has if nothing is said."""
    command = [HARNESS, "doctor", "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    monitors = json.loads(said.stdout)["monitors"]
    return [monitor["name"] for monitor in monitors if monitor["available"] and monitor["default"]]


def run(workload: str, given: Sequence[str], results: Path) -> dict[str, Any]:
    """One run, as ``harness run --json`` prints it."""
    placed = ("--placement", "ssd-both", "--results", str(results), "--again", "--json")
    command = [HARNESS, "run", workload, *WORKLOADS[workload], *placed, *given]
    environment = {**os.environ, **({"ALTERNATING_BLOCK_S": "2"} if SMOKE else {})}
    if "alternating" in given:
        environment["HARNESS_MONITOR_PATH"] = str(ROOT / "benchmarks" / "alternating")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    (run,) = json.loads(done.stdout)["runs"]
    return dict(run)


def alternating(workload: str, minutes: float, monitors: Sequence[str], results: Path) -> Ratio:
    """Operations of a second with monitors over without, by pairs of blocks of one run.

    Prints what processor time the harness itself takes in either.
    """
    without = [text for name in monitors if name != "io" for text in ("--no-monitor", name)]
    seconds_of = {"--ramp-up": 0 if SMOKE else 5, "--duration": round(minutes * 60)}
    window = [word for name, s in seconds_of.items() for word in (name, f"{s}s")]
    window += ["--monitor", "alternating"]
    artifacts = (
        results / "runs" / run(workload, [*window, *without], results)["run_id"] / "artifacts"
    )
    blocks = json.loads((artifacts / "monitor-alternating.json").read_text())["blocks"]
    (series,) = json.loads((artifacts / "series.json").read_text()).values()
    seconds = [(interval["monotonic_ns"], sum(interval["counts"].values())) for interval in series]
    arms: dict[bool, list[float]] = {True: [], False: []}
    for pair in zip(blocks[::2], blocks[1::2], strict=False):
        counts = [
            [n for at, n in seconds if block["begin_ns"] <= at <= block["end_ns"] - 10**9]
            for block in pair
        ]
        if all(counts):
            for block, of_block in zip(pair, counts, strict=True):
                arms[block["monitored"]].append(mean(of_block))
    for monitored in (True, False):
        spent = [
            b["cpu_ns"] / (b["end_ns"] - b["begin_ns"])
            for b in blocks[:-2]
            if b["monitored"] is monitored
        ]
        print(f"{workload}: {monitored=}: the harness takes {median(spent):.4f} processors")
    return ratio_of(arms[True], arms[False])


def of_whole_runs(minutes: float, monitors: Sequence[str], results: Path) -> Ratio:
    """One over TPC-H's total time, with monitors over without."""
    without = [text for name in monitors for text in ("--no-monitor", name)]

    def speed(given: Sequence[str]) -> float:
        metrics = run("tpch", given, results)["metrics"]
        return 1e9 / float(next(m["value"] for m in metrics if m["name"] == "queries_duration_ns"))

    if not SMOKE:
        speed([])  # loads the data
    arms: dict[bool, list[float]] = {True: [], False: []}
    end = time.monotonic() + minutes * 60
    while not arms[True] or time.monotonic() < end:
        for monitored in random.sample([True, False], 2):
            arms[monitored].append(speed([] if monitored else without))
    return ratio_of(arms[True], arms[False])


def verdict(ratio: Ratio) -> str:
    """Position of the interval of the ratio against the bar."""
    if ratio.low is None or ratio.high is None:
        return "undecided"
    return "within" if ratio.low >= LEAST else "OVER" if ratio.high < LEAST else "undecided"


def main() -> None:
    """Print the ratio and the verdict of each workload."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10, help="of each workload [10]")
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    given = parsed(parser, minutes=1 / 6)
    monitors = default_monitors()
    print("monitors:", ", ".join(monitors))
    for workload in given.workload or WORKLOADS:
        with tempfile.TemporaryDirectory() as folder:
            if workload == "tpch":
                ratio = of_whole_runs(0 if SMOKE else given.minutes, monitors, Path(folder))
            else:
                ratio = alternating(workload, given.minutes, monitors, Path(folder))
        interval = f"[{ratio.low:.4f}, {ratio.high:.4f}]" if ratio.low and ratio.high else "-"
        print(
            f"{workload}: {ratio.n_a} pairs, ratio {ratio.value:.4f} {interval}, {verdict(ratio)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
