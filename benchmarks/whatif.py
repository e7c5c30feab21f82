"""Predictions of a faster device, scored against measurements.

    .venv/bin/python benchmarks/whatif.py --results /var/tmp/whatif --duration 60s

Planted: tier B is tier A with a delay of 100, 200 or 400 us that the fit does not know. Each is
predicted from the longer delays of the same run alone and the mean duration of the calls on B, as a
faster device is, and compared with the blocks in which it was planted: all of them share the
minutes of the run. Next to it stands the error of a fit of the delays alone, which knows no more of
B than its delay, and nothing of the calls' own durations.

Tiers: predictions for a tmpfs from the fit on the disk, and the duration of the calls on the
tmpfs, compared with a run there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from smoke import SMOKE, parsed

from harness import hdr
from harness.explain import question
from harness.explain.fit import Block, Estimate, Refusal, TooFewBlocks
from harness.explain.whatif import WhatIf
from harness.store.runs import Store, StoredRun

LEVELS = "100us,200us,400us,600us,800us,1ms"
HELD_OUT_NS = (100_000, 200_000, 400_000)
TPCC = ("tpcc", "--warehouses", "1", "--engine", "postgres", "--ramp-up", "5s")
YCSB = ("ycsb", "--workload", "a", "--records", "100000", "--threads", "1", "--engine", "rocksdb",
        "--set", "sync=true", "--ramp-up", "5s")  # fmt: skip
TPCH = ("tpch", "--queries", "1,6,9", "--engine", "postgres", "--no-plans")
if SMOKE:
    TPCH = ("tpch", "--queries", "6", "--engine", "duckdb", "--no-plans")
SYNC, READ = ("--part", "wal", "--operation", "sync"), ("--part", "data", "--operation", "read")
#: Metrics of the latencies of a window.
DURATIONS = ("transaction_duration_ns", "operation_duration_ns")


@dataclass(frozen=True)
class Case:
    """A prediction and the measurement next to it, in us.

    ``would_be``: of a refused one, too. ``floor``: below which no device can bring the latency.
    ``plain``: predicted from the delays alone.
    """

    name: str
    measured: float
    would_be: float
    refused: str
    floor: float
    plain: float

    @property
    def error(self) -> float:
        return self.would_be / self.measured - 1

    def __str__(self) -> str:
        error = f"{self.error:+.0%}"
        shown = f"refused: {self.refused} ({error})" if self.refused else error
        plain = f"{self.plain / self.measured - 1:+.0%}"
        return f"| {self.name} | {self.measured:,.0f} | {self.would_be:,.0f} | {shown} | {plain} |"


def harness(*argv: str) -> Any:
    """The JSON that a command prints; stops where it fails."""
    command = [str(Path(sys.executable).with_name("harness")), *argv, "--json"]
    print(" ".join(command), file=sys.stderr)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}")
    return json.loads(done.stdout)


def held_out(name: str, one: WhatIf) -> Iterator[Case]:
    """Each of the shortest delays, predicted from those that are longer."""
    for level_ns in HELD_OUT_NS:
        there = [block for block in one.blocks if block.planted_ns == level_ns]
        known = [block for block in one.blocks if block.planted_ns > level_ns]
        call_ns = fmean(block.delay_ns + (block.call_ns or 0.0) for block in there)
        title = f"{name}, +{level_ns // 1000} us"
        try:
            two = replace(one, blocks=known), replace(one, blocks=_alone(known))
        except TooFewBlocks as error:
            print(f"{title}: {error}", file=sys.stderr)
            continue
        delay_ns = fmean(block.delay_ns for block in there)
        plain = two[1].fit.at(delay_ns)
        yield _case(title, fmean(block.latency_ns for block in there), two[0], call_ns, plain)


def _alone(blocks: Sequence[Block]) -> list[Block]:
    """With the mean delay of their level, whatever they achieved."""
    means = {
        level: fmean(block.delay_ns for block in blocks if block.planted_ns == level)
        for level in {block.planted_ns for block in blocks}
    }
    return [replace(b, call_ns=None, delay_ns=means[b.planted_ns]) for b in blocks]


def _case(name: str, measured_ns: float, one: WhatIf, call_ns: float, plain: Estimate) -> Case:
    found = one.at_latency(call_ns)
    refused = found.code if isinstance(found, Refusal) else ""
    would_be = one.fit.at(call_ns - one.calls.mean_ns)
    return Case(
        name,
        measured_ns / 1e3,
        would_be.value / 1e3,
        refused,
        (one.floor_ns or 0.0) / 1e3,
        plain.value / 1e3,
    )


def on_tier(name: str, one: WhatIf, runs: Sequence[StoredRun]) -> Case:
    """The latency in another tier, next to runs there: medians of several."""
    call_ns = median(
        question.device_like_tier([run], "pmem", run.spec, one.part, one.operation, {}).call_ns
        for run in runs
    )
    measured_ns = median(measured_latency_ns(run.run["metrics"], one.labels) for run in runs)
    plain = replace(one, blocks=_alone(one.blocks)).fit.at(call_ns - one.calls.mean_ns)
    return _case(f"{name}, tmpfs", measured_ns, one, call_ns, plain)


def measured_latency_ns(metrics: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> float:
    """Mean latency of a window, or the time of a query."""
    if labels:
        return float(
            next(
                m["value"]
                for m in metrics
                if m["name"] == "query_duration_ns" and m["labels"] == labels
            )
        )
    times = [hdr.decode(m["hdr"]) for m in metrics if m["name"] in DURATIONS and "hdr" in m]
    return sum(one.mean * one.total for one in times) / sum(one.total for one in times)


def _answers(store: Store, document: Any) -> list[WhatIf]:
    run_id = document.get("run_id") or document["answers"][0]["run_id"]
    return [answer.whatif for answer in question.answers(store.run(run_id))]


def main() -> None:
    """Parse the arguments; `--smoke` has one query on one tier in place of all workloads."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=Path, required=not SMOKE)
    parser.add_argument("--duration", default="60s")
    parser.add_argument("--scale", default="0.05")
    parser.add_argument("--rounds", default="6", help="of queries")
    parser.add_argument("--only", default="", help="tpcc-1, tpcc-8, ycsb, tpch")
    given = parsed(parser, scale="0.01", rounds="6", only="tpch")
    if given.smoke:
        with tempfile.TemporaryDirectory() as folder:
            given.results = Path(folder)
            compare(given)
    else:
        compare(given)


def compare(given: argparse.Namespace) -> None:
    """Run the workloads and print the table and the counts."""
    window = ("--duration", given.duration)
    workloads = {
        "tpcc-1": ("TPC-C, 1 user", (*TPCC, "--users", "1", *window), SYNC),
        "tpcc-8": ("TPC-C, 8 users", (*TPCC, "--users", "8", *window), SYNC),
        "ycsb": ("YCSB A, RocksDB", (*YCSB, *window), SYNC),
        "tpch": ("TPC-H", (*TPCH, "--scale", given.scale), READ),
    }
    store = Store(given.results)
    results = ("--results", str(given.results))
    cases: list[Case] = []
    for key, (name, argv, place) in workloads.items():
        if given.only and key not in given.only.split(","):
            continue
        rounds = ("-p", f"delay_rounds={given.rounds}") if key == "tpch" else ()
        ask = ("whatif", *argv, *rounds, *place, "--placement", "ssd-both", *results)
        near = _answers(store, harness(*ask, "--levels", LEVELS))
        if given.smoke:
            cases += [case for one in near for case in held_out(name, one)]
            continue
        far = near if key == "tpch" else _answers(store, harness(*ask))
        # The server where it was in the other run; queries were not pinned.
        pinned = () if key in ("tpch", "ycsb") else ("--cpus", "0")
        where = "data=ssd,wal=pmem" if place is SYNC else "data=pmem,wal=ssd"
        emulated = ("--placement", where, "--emulate", "pmem")
        # A query is executed once in a run.
        repeats = ("--repeats", "5" if key == "tpch" else "1")
        ran = harness("run", *argv, *emulated, *pinned, *repeats, *results)["runs"]
        there = [store.run(run["run_id"]) for run in ran]
        for one, other in zip(near, far, strict=True):
            title = f"{name} Q{one.labels['query']}" if one.labels else name
            cases += [*held_out(title, one), on_tier(title, other, there)]
    print("| case | measured, us | predicted, us | error | of the delays alone |")
    print("|---|---|---|---|---|")
    print("\n".join(map(str, cases)))
    predicted = [abs(case.error) for case in cases if not case.refused]
    refused = [abs(case.error) for case in cases if case.refused]
    below = sum(case.measured < case.floor for case in cases)
    print(f"\n{len(cases)} cases: {len(predicted)} predicted, {sum(e <= 0.1 for e in predicted)} "
          f"within 10 %, {sum(e > 0.25 for e in predicted)} off by more than 25 %; {len(refused)} "
          f"refused, {sum(e > 0.25 for e in refused)} of which would be off by more; {below} "
          "measured below the ceiling of any gain")  # fmt: skip


if __name__ == "__main__":
    main()
