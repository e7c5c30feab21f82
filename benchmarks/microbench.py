"""Our kernels against what others measure of the same memory, in alternating pairs.

    PERMA_BENCH=… REFBENCH=… MULTICHASE=… .venv/bin/python benchmarks/microbench.py --pairs 15

Each round takes every cell once: a program of its own for each arm, one behind the other and
in the other order in every second round, each on 2 GiB of anonymous memory on transparent
huge pages. Ctrl-C (or SIGTERM) ends it; it then tells what the complete rounds gave.
The machine has to be quiet, and needs two processors.

The peers, by environment variables that name their programs; one that is not named is left out:

PERMA_BENCH
    PerMA-Bench (VLDB 2022, commit 7c8cc3a), run with its own ``--dram``, so that neither its
    MAP_SYNC nor a DAX file system is in the way. Its loops over many addresses are emptied by
    GCC 12 at -O3, since of all values read only the last is asked for. For these figures each
    of its loads was made a volatile statement whose value nobody asks for, which is the
    cheapest load that stays. On a processor without AVX-512, which it insists on, each
    64-byte instruction was made two of 32 bytes, for reads and writes alike. Nothing else of
    what is timed was changed. Newer versions of its libraries than it names wanted two of
    its enumerations printed as numbers.
REFBENCH
    A bare loop, which takes GiB, huge pages, seconds, and then the name, access size and
    threads of the one line to print. It draws its addresses within the loop, which costs it
    some of 64-byte random accesses.
MULTICHASE
    multichase, unchanged. ``-a``: its mean, over as much time as ours.

The bars, each on the whole interval of the ratio: bandwidth at least 0.98 of the better of
the first two; the chase within 3 % of multichase; from the start of the program to the first
timed access (allocation, first touch, addresses) no longer than PerMA-Bench.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from smoke import SMOKE, parsed

from harness.native_programs import find_native
from reports.statistics import Ratio, ratio_of

GIB = 2**30
RANGE_BYTES = GIB // 64 if SMOKE else 2 * GIB
LEAST_BANDWIDTH, MOST_CHASE_ERROR = 0.98, 0.03
LEAST_CONFIDENCE = 0.9  # of an interval that decides
#: Random operations that PerMA-Bench gets for each thread: a third of a second or so.
PERMA_OPERATIONS = {
    ("read", 64): 20_000_000, ("read", 256): 9_000_000, ("none", 64): 24_000_000,
    ("nocache", 64): 4_000_000, ("cache", 64): 2_500_000, ("cacheinv", 64): 2_500_000,
}  # fmt: skip
OURS = {
    "read": {"operation": "load"},
    "nocache": {"operation": "ntstore", "fence": "sfence"},
    "cache": {"operation": "store", "flush": "clwb", "fence": "sfence"},
    "cacheinv": {"operation": "store", "flush": "clflushopt", "fence": "sfence"},
    "none": {"operation": "store"},
}
#: The loop's own names, by pattern and kind.
REFBENCH_LINES = {
    ("sequential", "read"): "seq-read", ("sequential", "nocache"): "seq-ntstore+sfence",
    ("sequential", "cache"): "seq-store+clwb+sf", ("random", "read"): "rand-read",
    ("random", "nocache"): "rand-ntstore+sf", ("random", "cache"): "rand-store+clwb+sf",
    ("random", "cacheinv"): "rand-store+clflo+sf", ("random", "none"): "rand-store",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One bandwidth. ``kind``: read, or how PerMA-Bench calls what makes a write durable."""

    pattern: str
    kind: str
    access_bytes: int
    threads: int

    @property
    def name(self) -> str:
        """As it is printed."""
        operation = "read" if self.kind == "read" else f"write {self.kind}"
        return f"{self.pattern} {operation} {self.access_bytes} B, {self.threads} threads"


@dataclass(frozen=True)
class Chase:
    """One latency of dependent loads. ``pages``: huge or base."""

    pages: str

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"chase, {self.pages} pages"


CELLS = [
    Cell(pattern, kind, access_bytes, threads)
    for threads in (1, 2)
    for pattern, kind, access_bytes in (
        ("sequential", "read", 4096), ("sequential", "nocache", 4096),
        ("sequential", "nocache", 512), ("sequential", "cache", 4096),
        ("random", "read", 64), ("random", "read", 256), ("random", "cache", 64),
        ("random", "cacheinv", 64), ("random", "nocache", 64), ("random", "none", 64),
    )
]  # fmt: skip
CHASES = [Chase("huge"), Chase("base")]


@dataclass(frozen=True)
class ProgramFigure:
    """Result of one program: bytes a second, or ns a load of a chase; its start-up where known."""

    value: float
    start_up_s: float | None = None


@dataclass(frozen=True)
class Settings:
    """``seconds``: a timed window of ours, of the loop, and of a chase in units of half of one."""

    program: Path
    peers: Mapping[str, str]
    seconds: float
    chase_bytes: int

    def arms(self, what: Cell | Chase) -> dict[str, Callable[[], ProgramFigure]]:
        """Measurements of each program, by the program's name."""
        arms: dict[str, Callable[[], ProgramFigure]] = {"ours": lambda: self.ours(what)}
        if isinstance(what, Chase):
            if "MULTICHASE" in self.peers:
                arms["multichase"] = lambda: self.multichase(what)
            return arms
        if "REFBENCH" in self.peers:
            arms["refbench"] = lambda: self.refbench(what)
        if "PERMA_BENCH" in self.peers:
            arms["PerMA-Bench"] = lambda: self.perma(what)
        return arms

    def ours(self, what: Cell | Chase) -> ProgramFigure:
        """The program that is measured."""
        began_ns = time.monotonic_ns()
        done = subprocess.run(
            [self.program, "-"], input=json.dumps(self._spec(what)),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        result = json.loads(done.stdout or "{}")
        if result.get("status") != "complete":
            raise SystemExit(f"{what.name}: {result.get('error')} {done.stderr}")
        (repeat,) = result["measurements"][0]["repeats"]
        (job,) = repeat["jobs"]
        start_up_s = (min(thread["begin_ns"] for thread in job["threads"]) - began_ns) / 1e9
        if isinstance(what, Chase):
            return ProgramFigure(1e9 / job["operations_per_second"], start_up_s)
        return ProgramFigure(job["bandwidth_bytes_per_second"], start_up_s)

    def _spec(self, what: Cell | Chase) -> dict[str, Any]:
        common = {"name": "job", "target": "memory"}
        job: dict[str, Any]
        if isinstance(what, Chase):
            size, pages, seconds = self.chase_bytes, what.pages, 2 * self.seconds
            job = {**common, "kind": "chase", "threads": 1, "order": "random"}
        else:
            size, pages, seconds = RANGE_BYTES, "huge", self.seconds
            job = {
                **common, "kind": "throughput", "threads": what.threads, "pattern": what.pattern,
                "access_bytes": what.access_bytes, **OURS[what.kind],
            }  # fmt: skip
        return {
            "schema": 2,
            "seed": time.time_ns() % 2**31,
            "targets": {"memory": {"kind": "dram", "pages": pages, "size_bytes": size}},
            "measurements": [{"name": "cell", "duration_ns": int(seconds * 1e9), "jobs": [job]}],
        }

    def refbench(self, cell: Cell) -> ProgramFigure:
        """The bare loop."""
        line = REFBENCH_LINES[cell.pattern, cell.kind]
        given = [RANGE_BYTES / GIB, 1, self.seconds, line, cell.access_bytes, cell.threads]
        told = _output([self.peers["REFBENCH"], *map(str, given)])
        row = next(row for row in told.splitlines() if row.startswith(line))
        return ProgramFigure(float(row.split(" wall ")[1].split()[0]) * 1e9)

    def perma(self, cell: Cell) -> ProgramFigure:
        """PerMA-Bench. Ready once each of its threads says that its addresses are there."""
        with tempfile.TemporaryDirectory() as folder:
            workload = Path(folder) / "cell.yaml"
            workload.write_text(json.dumps({"cell": {"args": _perma_arguments(cell)}}))
            command = [self.peers["PERMA_BENCH"], "--dram", "--no-numa", "-v", "-c", str(workload),
                       "-r", f"{folder}/results"]  # fmt: skip
            began, ready = time.monotonic(), None
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for text in process.stdout:
                    if "Finished address generation" in text:
                        ready = time.monotonic()
            if process.returncode != 0 or ready is None:
                raise SystemExit(f"{cell.name}: PerMA-Bench failed ({process.returncode})")
            (path,) = Path(folder, "results").iterdir()
            (benchmark,) = json.loads(path.read_text())
        (result,) = benchmark["benchmarks"]
        return ProgramFigure(result["results"]["bandwidth"] * GIB, ready - began)

    def multichase(self, chase: Chase) -> ProgramFigure:
        """multichase, over all of the buffer and every line of it."""
        size = str(self.chase_bytes)
        samples = str(max(1, round(4 * self.seconds)))
        pages = ["-H"] if chase.pages == "huge" else []
        given = ["-a", "-n", samples, "-m", size, "-s", "64", "-T", size, *pages]
        return ProgramFigure(float(_output([self.peers["MULTICHASE"], *given])))


def _perma_arguments(cell: Cell) -> dict[str, Any]:
    """A pass over 2 GiB takes too little time to be timed once: sequential ones run a second."""
    arguments: dict[str, Any] = {
        "memory_range": str(RANGE_BYTES),
        "access_size": str(cell.access_bytes),
        "exec_mode": cell.pattern,
        "operation": "read" if cell.kind == "read" else "write",
        "number_threads": cell.threads,
    }
    if cell.kind != "read":
        arguments["persist_instruction"] = cell.kind
    if cell.pattern == "sequential":
        return {**arguments, "run_time": 1}
    operations = PERMA_OPERATIONS[cell.kind, cell.access_bytes] * cell.threads
    return {**arguments, "number_operations": operations, "min_io_chunk_size": "1M"}


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Samples:
    """Results of complete rounds: one value a round, by cell and program."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.start_ups: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.rounds = 0

    def add(self, seen: Mapping[str, Mapping[str, ProgramFigure]]) -> None:
        """A round: by cell and program."""
        self.rounds += 1
        for cell, programs in seen.items():
            for program, sample in programs.items():
                self.values[cell][program].append(sample.value)
                if sample.start_up_s is not None:
                    self.start_ups[cell][program].append(sample.start_up_s)


def measured_round(settings: Settings, what: Sequence[Cell | Chase], number: int) -> Any:
    """Measure each cell once, by each program; the other way round in every second round."""
    seen: dict[str, dict[str, ProgramFigure]] = {}
    for configuration in what:
        arms = list(settings.arms(configuration).items())
        for program, measure in arms if number % 2 == 0 else arms[::-1]:
            claim_memory()
            seen.setdefault(configuration.name, {})[program] = measure()
    return seen


def claim_memory() -> None:
    """Touch and give back as much as an arm takes, and half again.

    A host takes free memory back from its guests, and needs seconds to hand 2 GiB out again:
    the first to ask would pay for all that come behind.
    """
    pid = os.fork()
    if pid == 0:
        with mmap.mmap(-1, 3 * RANGE_BYTES // 2, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_HUGEPAGE)
            for at in range(0, len(memory), 4096):
                memory[at] = 1
        os._exit(0)
    os.waitpid(pid, 0)


def verdict(ratio: Ratio, least: float, most: float) -> str:
    """Position of the interval: within, outside, or on both sides of a limit."""
    if ratio.low is None or ratio.high is None:
        return "one pair tells nothing"
    if ratio.confidence < LEAST_CONFIDENCE:
        return f"too few pairs ({ratio.confidence:.0%})"
    if ratio.low >= least and ratio.high <= most:
        return "reached"
    return "MISSED" if ratio.high < least or ratio.low > most else "undecided"


def told(ratio: Ratio) -> str:
    """The ratio and its interval."""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f}"
    return f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def report(samples: Samples, what: Sequence[Cell | Chase]) -> Iterator[str]:
    """Lines: of each cell the medians, the ratios to each peer, and what the bar says."""
    yield f"{samples.rounds} pairs; load average {os.getloadavg()[0]:.1f}"
    for configuration in what:
        values = samples.values[configuration.name]
        peers = {name: ratio_of(values["ours"], values[name]) for name in values
                 if name != "ours"}  # fmt: skip
        if not peers:
            continue
        scale, unit = (1.0, "ns") if isinstance(configuration, Chase) else (1e9, "GB/s")
        seen = ", ".join(f"{name} {median(values[name]) / scale:.3f}" for name in values)
        ratios = ", ".join(f"/ {name} {told(ratio)}" for name, ratio in peers.items())
        if isinstance(configuration, Chase):
            limits = (1 - MOST_CHASE_ERROR, 1 + MOST_CHASE_ERROR)
        else:
            limits = (LEAST_BANDWIDTH, float("inf"))
        best = min(peers.values(), key=lambda ratio: ratio.value)
        yield f"{configuration.name}: {seen} {unit}; {ratios}: {verdict(best, *limits)}"
    for configuration in what:
        start_ups = samples.start_ups[configuration.name]
        if "PerMA-Bench" in start_ups:
            ratio = ratio_of(start_ups["ours"], start_ups["PerMA-Bench"])
            seen = ", ".join(f"{name} {median(start_ups[name]):.3f} s" for name in start_ups)
            limit = verdict(ratio, 0.0, 1.0)
            yield f"start-up, {configuration.name}: {seen}; / PerMA-Bench {told(ratio)}: {limit}"


def keep(seen: Mapping[str, Mapping[str, ProgramFigure]], path: Path) -> None:
    """Add a round to the file: by cell and program the value and the seconds of its start."""
    values = {
        cell: {name: [sample.value, sample.start_up_s] for name, sample in programs.items()}
        for cell, programs in seen.items()
    }
    with path.open("a") as file:
        file.write(json.dumps(values) + "\n")


def main() -> None:
    """Print what each round took, and at the end the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a timed window")
    parser.add_argument("--chase-gib", type=float, default=1.0, help="the buffer of a chase")
    parser.add_argument("--only", help="cells whose name has this in it")
    parser.add_argument("--program", type=Path, default=find_native("microbench"))
    parser.add_argument("--samples", type=Path, help="write each round there, a line of JSON each")
    given = parsed(parser, pairs=1, seconds=0.01, chase_gib=1 / 64)
    if given.program is None:
        parser.error("microbench was not built when the harness was installed")
    peers = {name: os.environ[name] for name in ("PERMA_BENCH", "REFBENCH", "MULTICHASE")
             if name in os.environ}  # fmt: skip
    settings = Settings(given.program, peers, given.seconds, int(given.chase_gib * GIB))
    everything: list[Cell | Chase] = [*CELLS, *CHASES]
    what = [
        configuration
        for configuration in everything
        if given.only is None or given.only in configuration.name
    ]
    samples = Samples()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for number in range(given.pairs):
            began = time.monotonic()
            seen = measured_round(settings, what, number)
            samples.add(seen)
            if given.samples:
                keep(seen, given.samples)
            print(f"pair {number + 1}: {time.monotonic() - began:.0f} s", flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    if samples.rounds:
        print("\n".join(report(samples, what)))


if __name__ == "__main__":
    main()
