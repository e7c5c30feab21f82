"""Counts of the I/O trace, against three other sources, and their cost. As root:

    .venv/bin/python benchmarks/io_trace.py strace
    .venv/bin/python benchmarks/io_trace.py direct
    .venv/bin/python benchmarks/io_trace.py delay --pairs 3
    .venv/bin/python benchmarks/io_trace.py calls

``strace``: calls and bytes of data and log, against ``strace -f`` of the whole command; the bar:
the trace has at least 99 %. ``direct``: bytes of MySQL's data with O_DIRECT, against the block
layer's, on a loop device that has nothing else; the bar: within 5 %. ``delay``: a planted +200 µs
on the log's sync, as the difference of durations to runs without it; the bar: 200 µs ± 5 %.
``calls``: a loop of calls on a modelled tier: what a call costs that does not wait (the bar: 150 ns
more than without the library), and the Kolmogorov-Smirnov distance of the durations that were due
and achieved (the bar: 0.05 from 20 µs on).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smoke import SMOKE, parsed

from harness import hdr
from harness.counters import split
from harness.hdr import Histogram
from harness.iotrace.intervals import distance
from harness.iotrace.page import LIBRARY, CounterCell, IoTrace
from harness.models.device import OPERATIONS, DeviceModel, SizePoint
from harness.models.durations import constant, of_quantiles
from harness.models.page_cache import PageCache
from harness.models.page_table import models_table
from harness.native_programs import find_native
from harness.tiers.linux.ext4 import EAGER

ROOT = Path(__file__).resolve().parents[1]
HARNESS = str(ROOT / ".venv" / "bin" / "harness")
WINDOW = ("--ramp-up", "0s" if SMOKE else "2s", "--duration", "2s" if SMOKE else "10s")
TPCC = ("tpcc", "--warehouses", "1", "--users", "2", *WINDOW)
RECORDS = "1000" if SMOKE else "20000"
RATE = ("--rate", "200") if SMOKE else ()
YCSB = ("ycsb", "--workload", "a", "--records", RECORDS, "--threads", "2", *WINDOW)
COMMANDS: Mapping[str, Sequence[str]] = {
    "postgres": TPCC,
    "mysql": (*TPCC, "--set", "innodb_use_native_aio=OFF"),
    "rocksdb": (*YCSB, *RATE, "--set", "write_buffer_size=1048576"),
    "duckdb": ("tpch", "--scale", "0.1", "--test", "power", "--no-plans"),
}  # fmt: skip
CALLS = {
    **dict.fromkeys(("read", "pread64", "readv", "preadv", "preadv2"), "read"),
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "pwritev2"), "write"),
    **dict.fromkeys(("fsync", "fdatasync"), "sync"),
}
#: A thread, the time, and a call with its file, or the end of the thread's interrupted one.
LINE = re.compile(r"(\d+) +([\d.]+) (?:(\w+)\(\d+<([^>]*)>|<\.\.\. \w+ resumed>)(.*)")
PART = re.compile(r"/tierbench-work/[^/]+-(data|wal|temp|index)/")
RESULT = re.compile(r"= (\d+)$")
#: Calls and bytes by part and operation.
Totals = Counter[tuple[str, str, str]]
Points = tuple[SizePoint, ...]
DELAY_US = 200


def run(
    argv: Sequence[str], results: str, under: Sequence[str] = ()
) -> tuple[dict[str, Any], Path]:
    """The run of a command, and its directory."""
    command = [*under, HARNESS, "run", *argv, "--results", results, "--again", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    (run_document,) = json.loads(done.stdout)["runs"]
    return run_document, Path(results) / "runs" / run_document["run_id"]


def timed_samples(stored: Path) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """The first sample of the page in the timed phase, and the last."""
    artifacts = stored / "artifacts"
    samples = json.loads((artifacts / "monitor-io.json").read_text())["samples"]
    if (artifacts / "series.json").exists():
        (points,) = json.loads((artifacts / "series.json").read_text()).values()
        begin, end = points[0]["monotonic_ns"], points[-1]["monotonic_ns"]
    else:
        spans = json.loads((artifacts / "timeline.json").read_text())
        begin = min(span["submitted_ns"] for span in spans)
        end = max(span["ended_ns"] for span in spans)
    inside = [sample for sample in samples if begin <= sample["monotonic_ns"] <= end]
    return inside[0], inside[-1]


def traced(before: Mapping[str, float], after: Mapping[str, float]) -> Totals:
    """Counts of the page between two samples."""
    totals: Totals = Counter()
    for key, value in after.items():
        name, labels = split(key)
        if name in ("calls_count", "bytes"):
            cell = labels["part"], labels["operation"], name.removesuffix("_count")
            totals[cell] += round(value - before.get(key, 0))
    return totals


def kernel(log: Path, begin_s: float, end_s: float) -> Totals:
    """Calls that strace saw between two times of the wall clock; failed calls moved no bytes."""
    totals: Totals = Counter()
    begun: dict[str, tuple[str, str]] = {}
    with log.open(errors="replace") as lines:
        for line in lines:
            if not (match := LINE.match(line)):
                continue
            thread, second, call, path, rest = match.groups()
            if call is None:
                call, path = begun.pop(thread, ("", ""))
            elif rest.endswith("<unfinished ...>"):
                begun[thread] = call, path
                continue
            part, operation = PART.search(path + "/"), CALLS.get(call)
            if part and operation and begin_s <= float(second) <= end_s:
                totals[part[1], operation, "calls"] += 1
                if operation != "sync" and (result := RESULT.search(rest)):
                    totals[part[1], operation, "bytes"] += int(result[1])
    return totals


def strace(engines: Sequence[str]) -> None:
    """Between two samples of the page: processes that check the answers are not the engine's."""
    for engine in engines:
        with tempfile.TemporaryDirectory() as folder:
            argv = [*COMMANDS[engine], "--engine", engine, "--placement", "ssd-both"]
            if not SMOKE:
                run(argv, folder)  # loads the data
            log = Path(folder) / "strace"
            options = ("-f", "-qq", "-y", "-ttt", "-s", "0", "--seccomp-bpf", "-e", "signal=none")
            calls = f"trace={','.join(CALLS)}"
            _, stored = run(argv, folder, ("strace", *options, "-e", calls, "-o", str(log)))
            clock = json.loads((stored / "manifest.json").read_text())["clock"]
            ahead_ns = clock["realtime_ns"] - clock["monotonic_ns"]
            first, last = timed_samples(stored)
            ends = [(sample["monotonic_ns"] + ahead_ns) / 1e9 for sample in (first, last)]
            ours, theirs = traced(first, last), kernel(log, *ends)
            for cell in sorted(ours | theirs):
                share = f"{ours[cell] / theirs[cell]:.4f}" if theirs[cell] else "-"
                print(f"{engine}: {' '.join(cell)}: {ours[cell]:,} of {theirs[cell]:,}: {share}",
                      flush=True)  # fmt: skip


@contextmanager
def loop_device(folder: Path) -> Iterator[Path]:
    """A file system of its own on a loop device; without a journal, whose writes no part has."""
    image, mounted = folder / "image", folder / "mounted"
    folder.chmod(0o755)
    mounted.mkdir()
    subprocess.run(["truncate", "--size=4G", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-E", EAGER, "-O", "^has_journal", image], check=True)
    subprocess.run(["mount", "-o", "loop,noatime", image, mounted], check=True)
    try:
        yield mounted
    finally:
        subprocess.run(["umount", mounted], check=True)


def direct() -> None:
    """Data alone on the device; the log is on another tier."""
    with tempfile.TemporaryDirectory() as name, loop_device(Path(name)) as mounted:
        host = Path(name) / "host.yml"
        host.write_text(
            f"schema: 1\ntiers:\n  loop: {{kind: block, path: {mounted}}}\n"
            f"  ssd: {{kind: block, path: /var/tmp}}\n"
        )
        settings = ("innodb_flush_method=O_DIRECT", "innodb_use_fdatasync=ON",
                    "innodb_buffer_pool_size=65011712", "innodb_use_native_aio=OFF")  # fmt: skip
        argv = [*TPCC, "--engine", "mysql", "--placement", "loop-data-ssd-wal", "--host", str(host)]
        document, _ = run(
            [*argv, *(word for setting in settings for word in ("--set", setting))], name
        )
        for operation in ("read", "write"):
            ours = sum(
                metric["value"]
                for metric in document["metrics"]
                if metric["name"] == "io_bytes"
                and metric["labels"]["operation"] == operation
                and metric["labels"]["part"] != "wal"
            )
            (theirs,) = (
                metric["value"]
                for metric in document["metrics"]
                if metric["name"] == f"window_tier_{operation}_bytes"
                and metric["labels"]["tier"] == "loop"
            )
            print(f"{operation}: {ours:,.0f} of {theirs:,.0f}: {ours / theirs:.4f}")


def delay(pairs: int) -> None:
    """Medians and means of the log's syncs in the foreground, on a tmpfs, where a sync is short."""
    load = [*TPCC, "--engine", "postgres"]
    if SMOKE:
        load = [*YCSB, "--engine", "rocksdb", "--set", "sync=true"]
    argv = [*load, "--placement", "pmem-both", "--emulate", "pmem"]
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(pairs):
            durations = []
            for planted in ((), ("--plant", f"wal.sync=+{DELAY_US}us")):
                document, stored = run([*argv, *planted], folder)
                (syncs,) = (
                    hdr.decode(metric["hdr"])
                    for metric in document["metrics"]
                    if metric["name"] == "io_duration_ns"
                    and metric["labels"]
                    == {"part": "wal", "operation": "sync", "role": "foreground"}
                )
                durations.append((syncs.percentile(50), syncs.mean))
            operations = json.loads((stored / "artifacts" / "io-operations.json").read_text())
            (cell,) = (
                operation
                for operation in operations
                if (operation["part"], operation["operation"], operation["role"])
                == ("wal", "sync", "foreground")
            )
            (median, mean), (slower_median, slower_mean) = durations
            print(f"{syncs.total:,} syncs: median {(slower_median - median) / 1000:+.1f} us, mean "
                  f"{(slower_mean - mean) / 1000:+.1f} us, achieved "
                  f"{cell['delay_ns'] / cell['delayed'] / 1000:.1f} us", flush=True)  # fmt: skip


#: What calls of a part on a modelled tier do that does not wait, with the calls of the loop.
UNDELAYED = {
    "read of another part": ("read", "wal"),
    "read of a modelled part's cached page": ("read", "data"),
    "write into a modelled part's page cache": ("write", "data"),
}
#: Operation and durations of calls that wait.
DELAYED = {
    "read, 20 us": ("read", constant(20_000)),
    "read, 100 us": ("read", constant(100_000)),
    "read, 60 to 400 us": ("read", of_quantiles({1: 60_000, 50: 90_000, 90: 130_000, 99: 250_000,
                                                 100: 400_000})),
    "sync, 1 ms": ("sync", constant(1_000_000)),
}  # fmt: skip


class Loop:
    """benchmarks/io_loop.c on files of a tmpfs, with or without a modelled tier for data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "io_loop"
        source = ROOT / "benchmarks" / "io_loop.c"
        subprocess.run(["cc", "-O2", "-o", self.program, source], check=True)
        library = find_native(LIBRARY)
        if library is None:
            raise SystemExit(f"{LIBRARY} was not built: make setup")
        self.library = library

    def batches_ns(self, *words: object, trace: IoTrace | None = None) -> list[float]:
        """The duration of a call in each batch."""
        environment, inherited = dict(os.environ), []
        if trace is not None:
            inherited = [trace.page.descriptor]
            environment |= trace.environment(trace.page.descriptor)
        argv = [str(self.program), *map(str, words)]
        done = subprocess.run(argv, env=environment, pass_fds=inherited, capture_output=True,
                              text=True, check=True)  # fmt: skip
        return [float(line) for line in done.stdout.split()]

    @contextmanager
    def modelled(self, model: DeviceModel) -> Iterator[IoTrace]:
        """A trace in which data is on the device, and the log is not."""
        trace = IoTrace(self.library)
        trace.directories = {"data": self.folder / "data", "wal": self.folder / "wal"}
        cache = PageCache(None, 1 << 40, 1 << 40, 30_000_000_000)
        trace.page.model(models_table({"data": model}, {"data": "fast"}, cache))
        try:
            yield trace
        finally:
            trace.page.close()


def undelayed(loop: Loop, calls: int, rounds: int) -> None:
    """Without and with the library in turn; of each, the least of the rounds' medians."""
    points = {name: (SizePoint(4096, constant(1_000)),) for name in OPERATIONS}
    with loop.modelled(DeviceModel("buffered", "", "published", points=points)) as trace:
        for name, (operation, part) in UNDELAYED.items():
            words = (operation, loop.folder / part / "file", 4096, calls, 20)
            medians = [
                [statistics.median(loop.batches_ns(*words, trace=arm)) for arm in (None, trace)]
                for _ in range(rounds)
            ]
            alone, traced = (min(column) for column in zip(*medians, strict=True))
            print(f"{name}: {alone:.0f} ns, {traced:.0f} ns with the library: "
                  f"{traced - alone:+.0f} ns", flush=True)  # fmt: skip


def durations(
    loop: Loop, operation: str, points: Points, calls: int
) -> tuple[Histogram, Histogram, float]:
    """Return due and achieved durations of a run of the loop, and the processor time of a call."""
    device = DeviceModel("dax", "", "published", False, points={operation: points})
    file, cell = loop.folder / "data" / "file", CounterCell("data", operation, "foreground")
    with loop.modelled(device) as trace:
        before = os.times()
        loop.batches_ns(operation, file, 4096, calls, 1, trace=trace)
        after = os.times()
        reading = trace.page.read()
    due, achieved = (reading.histogram(cell, kind) for kind in ("due", "achieved"))
    assert due is not None and achieved is not None
    spent_s = sum(after[2:4]) - sum(before[2:4])  # of children
    return due, achieved, spent_s * 1e6 / due.total


def delayed(loop: Loop, calls: int, rounds: int) -> None:
    """The distance in each round, and quantiles of the last one."""
    for name, (operation, waits) in DELAYED.items():
        distances = []
        for _ in range(rounds):
            due, achieved, spent_us = durations(loop, operation, (SizePoint(4096, waits),), calls)
            distances.append(distance(due, achieved))
        each = ", ".join(
            f"p{p} {due.percentile(p) / 1000:.1f} and {achieved.percentile(p) / 1000:.1f} us"
            for p in (50, 99)
        )
        print(f"{name}: distance {statistics.median(distances):.3f} ({min(distances):.3f} to "
              f"{max(distances):.3f}); due and achieved: {each}; processor time {spent_us:.0f} us",
              flush=True)  # fmt: skip


def calls(rounds: int) -> None:
    """Both, with the load average: other work lengthens calls and wakes threads late."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        for part in ("data", "wal"):
            (Path(name) / part).mkdir()
        loop = Loop(Path(name))
        undelayed(loop, 100 if SMOKE else 20_000, rounds)
        delayed(loop, 20 if SMOKE else 2_000, rounds)
    print(f"load average {os.getloadavg()[0]:.1f}")


def main() -> None:
    """Print one line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "what", choices=("strace", "direct", "delay", "calls"), nargs="?" if SMOKE else None
    )
    parser.add_argument("--engine", choices=COMMANDS, action="append", help="of strace [all]")
    parser.add_argument("--pairs", type=int, default=3, help="of delay [3]")
    parser.add_argument("--rounds", type=int, default=7, help="of calls [7]")
    given = parsed(parser, pairs=1, rounds=1)
    if given.smoke:
        if shutil.which("strace"):
            strace(["rocksdb"])
        delay(given.pairs)
        calls(given.rounds)
        print("left out: direct, which needs a device of its own")
    elif given.what == "strace":
        strace(given.engine or list(COMMANDS))
    elif given.what == "direct":
        direct()
    elif given.what == "calls":
        calls(given.rounds)
    else:
        delay(given.pairs)


if __name__ == "__main__":
    main()
