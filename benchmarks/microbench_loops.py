"""Our loops against those of others on the same memory, in turns of some milliseconds.

    cmake -S benchmarks/peers -B /tmp/peers …       # see there
    .venv/bin/python benchmarks/microbench_loops.py --program /tmp/peers/microbench_peers

benchmarks/microbench.py compares whole programs. Each of those gets other pages of the host's
and another moment of a shared machine, which makes up to 30 % of a figure. Here the others'
loops are kinds of job of our program: each pair is taken on the same 2 GiB, arms one behind
the other in windows of 40 ms, in an order drawn anew for each pair. Several processes, each
with memory of its own, hold a part of the pairs each.

The bars are those of microbench.py: bandwidth at least 0.98 of the better of both, the chase
within 3 % of multichase's walk on the same buffer and pages, each on the whole interval.
A cell of a size that is no power of two stands beside the bare loop alone: PerMA-Bench takes
no other sizes.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from smoke import SMOKE, parsed

from harness.native_programs import find_native
from microbench import (
    CELLS,
    CHASES,
    GIB,
    OURS,
    RANGE_BYTES,
    Cell,
    Chase,
    ProgramFigure,
    Samples,
    report,
)

WINDOW_NS, WARM_UP_NS, CHASE_NS = 40_000_000, 5_000_000, 400_000_000
CHASE_BYTES = GIB // 64 if SMOKE else GIB


def jobs(what: Cell | Chase) -> dict[str, dict[str, Any]]:
    """The same job by each program's loops; by ours alone with `--smoke`."""
    every = _every_job(what)
    return {"ours": every["ours"]} if SMOKE else every


def _every_job(what: Cell | Chase) -> dict[str, dict[str, Any]]:
    if isinstance(what, Chase):
        common: dict[str, Any] = {"name": "job", "target": what.pages, "threads": 1}
        return {
            "ours": {**common, "kind": "chase", "order": "random"},
            "multichase": {**common, "kind": "multichase"},
        }
    common = {
        "name": "job", "target": "huge", "threads": what.threads, "partitions": what.threads,
        "pattern": what.pattern, "access_bytes": what.access_bytes,
    }  # fmt: skip
    arms = {
        "ours": {**common, "kind": "throughput", **OURS[what.kind]},
        "refbench": {**common, "kind": "refbench", "operation": what.kind},
    }
    if what.access_bytes & (what.access_bytes - 1) == 0:
        arms["PerMA-Bench"] = {**common, "kind": "perma", "operation": what.kind}
    return arms


def measurements(what: Cell | Chase, pairs: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """With the name of the arm that each belongs to, one pair behind the other."""
    duration = CHASE_NS if isinstance(what, Chase) else WINDOW_NS
    order = random.Random(time.time_ns())
    for number in range(pairs):
        arms = list(jobs(what).items())
        order.shuffle(arms)  # an arm that always comes behind the same other one has its caches
        for arm, job in arms:
            yield arm, {
                "name": f"{what.name} {number} {arm}", "warm_up_ns": WARM_UP_NS,
                "duration_ns": duration, "jobs": [job],
            }  # fmt: skip


def measured(program: Path, what: Cell | Chase, pairs: int) -> list[dict[str, float]]:
    """Bytes a second (of a chase ns a load) of each arm, by pair.

    Pairs are left out in which the threads of an arm had no moment together.
    """
    planned = list(measurements(what, pairs))
    pages = what.pages if isinstance(what, Chase) else "huge"
    size = CHASE_BYTES if isinstance(what, Chase) else RANGE_BYTES
    spec = {
        "schema": 2,
        "seed": time.time_ns() % 2**31,
        "targets": {pages: {"kind": "dram", "pages": pages, "size_bytes": size}},
        "measurements": [measurement for _, measurement in planned],
    }
    done = subprocess.run(
        [program, "-"], input=json.dumps(spec), capture_output=True, text=True, check=False
    )
    result = json.loads(done.stdout or "{}")
    if result.get("status") != "complete":
        died = f"ended by signal {-done.returncode}" if done.returncode < 0 else ""
        raise SystemExit(f"{what.name}: {died or result.get('error')} {done.stderr}")
    samples: list[dict[str, float]] = [{} for _ in range(pairs)]
    arms = len(jobs(what))
    for at, ((arm, _), measurement) in enumerate(zip(planned, result["measurements"], strict=True)):
        (job,) = measurement["repeats"][0]["jobs"]
        samples[at // arms][arm] = (
            1e9 / job["operations_per_second"]
            if isinstance(what, Chase)
            else job["bandwidth_bytes_per_second"]
        )
    whole = [pair for pair in samples if all(value > 0 for value in pair.values())]
    if len(whole) < pairs:
        print(f"{what.name}: {pairs - len(whole)} of {pairs} pairs without common time left out")
    return whole


def keep(path: Path, name: str, pairs: Sequence[Mapping[str, float]]) -> None:
    """Add the pairs of a cell to the file."""
    with path.open("a") as file:
        for pair in pairs:
            file.write(json.dumps({name: pair}) + "\n")


def cell(text: str) -> Cell:
    """``random,read,512,1``: a bandwidth that no bar asks for."""
    pattern, kind, access_bytes, threads = text.split(",")  # argparse tells of a ValueError
    if kind not in OURS:
        raise argparse.ArgumentTypeError(f"{kind!r} is none of {', '.join(OURS)}")
    return Cell(pattern, kind, int(access_bytes), int(threads))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", type=Path, required=not SMOKE, help="microbench_peers")
    parser.add_argument("--pairs", type=int, default=10, help="of each process")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--only", help="cells whose name has this in it")
    parser.add_argument(
        "--cell", type=cell, action="append", default=[], metavar="random,read,512,1",
        help="another one instead: pattern, kind, bytes, threads; more than one may be given",
    )  # fmt: skip
    parser.add_argument("--samples", type=Path, help="write each pair there, a line of JSON each")
    given = parsed(
        parser, pairs=1, processes=1, only="1 threads", program=find_native("microbench")
    )
    everything: list[Cell | Chase] = given.cell or [*CELLS, *CHASES]
    what = [
        configuration
        for configuration in everything
        if given.only is None or given.only in configuration.name
    ]
    samples: dict[str, Samples] = defaultdict(Samples)
    for _ in range(given.processes):
        for configuration in what:
            pairs = measured(given.program, configuration, given.pairs)
            if given.samples:
                keep(given.samples, configuration.name, pairs)
            for pair in pairs:
                seen = {arm: ProgramFigure(value) for arm, value in pair.items()}
                samples[configuration.name].add({configuration.name: seen})
    for configuration in what:
        print("\n".join(report(samples[configuration.name], [configuration])))


if __name__ == "__main__":
    main()
