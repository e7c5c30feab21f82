"""What the I/O trace counts, against three other sources. As root:

    .venv/bin/python benchmarks/io_trace.py strace
    .venv/bin/python benchmarks/io_trace.py direct
    .venv/bin/python benchmarks/io_trace.py delay --pairs 3

``strace``: calls and bytes of data and log, against ``strace -f`` of the whole command; the bar:
the trace has at least 99 %. ``direct``: bytes of MySQL's data with O_DIRECT, against the block
layer's, on a loop device that has nothing else; the bar: within 5 %. ``delay``: a planted +200 µs
on the log's sync, as the difference of durations to runs without it; the bar: 200 µs ± 5 %.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
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

ROOT = Path(__file__).resolve().parents[1]
HARNESS = str(ROOT / ".venv" / "bin" / "harness")
WINDOW = ("--ramp-up", "0s" if SMOKE else "2s", "--duration", "2s" if SMOKE else "10s")
TPCC = ("tpcc", "--warehouses", "1", "--users", "2", *WINDOW)
RECORDS = "1000" if SMOKE else "20000"
YCSB = ("ycsb", "--workload", "a", "--records", RECORDS, "--threads", "2", *WINDOW)
COMMANDS: Mapping[str, Sequence[str]] = {
    "postgres": TPCC,
    "mysql": (*TPCC, "--set", "innodb_use_native_aio=OFF"),
    "rocksdb": (*YCSB, "--set", "write_buffer_size=1048576"),
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
DELAY_US = 200


def run(
    argv: Sequence[str], results: str, under: Sequence[str] = ()
) -> tuple[dict[str, Any], Path]:
    """The run of a command, and its directory."""
    command = [*under, HARNESS, "run", *argv, "--results", results, "--again", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    (found,) = json.loads(done.stdout)["runs"]
    return found, Path(results) / "runs" / found["run_id"]


def timed_samples(stored: Path) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """The first sample of the page in the timed phase, and the last."""
    artifacts = stored / "artifacts"
    samples = json.loads((artifacts / "monitor-io.json").read_text())["samples"]
    if (artifacts / "series.json").exists():
        (points,) = json.loads((artifacts / "series.json").read_text()).values()
        begin, end = points[0]["monotonic_ns"], points[-1]["monotonic_ns"]
    else:
        spans = json.loads((artifacts / "timeline.json").read_text())
        begin = min(one["submitted_ns"] for one in spans)
        end = max(one["ended_ns"] for one in spans)
    inside = [one for one in samples if begin <= one["monotonic_ns"] <= end]
    return inside[0], inside[-1]


def traced(before: Mapping[str, float], after: Mapping[str, float]) -> Totals:
    """What the page counted between two samples."""
    found: Totals = Counter()
    for key, value in after.items():
        name, labels = split(key)
        if name in ("calls_count", "bytes"):
            cell = labels["part"], labels["operation"], name.removesuffix("_count")
            found[cell] += round(value - before.get(key, 0))
    return found


def kernel(log: Path, begin_s: float, end_s: float) -> Totals:
    """What strace saw between two times of the wall clock; failed calls moved no bytes."""
    found: Totals = Counter()
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
                found[part[1], operation, "calls"] += 1
                if operation != "sync" and (result := RESULT.search(rest)):
                    found[part[1], operation, "bytes"] += int(result[1])
    return found


def strace(engines: Sequence[str]) -> None:
    """Between two samples of the page: processes that check the answers are not the engine's."""
    for engine in engines:
        with tempfile.TemporaryDirectory() as folder:
            argv = [*COMMANDS[engine], "--engine", engine, "--placement", "ssd-both"]
            run(argv, folder)  # loads the data
            log = Path(folder) / "strace"
            options = ("-f", "-qq", "-y", "-ttt", "-s", "0", "--seccomp-bpf", "-e", "signal=none")
            calls = f"trace={','.join(CALLS)}"
            _, stored = run(argv, folder, ("strace", *options, "-e", calls, "-o", str(log)))
            clock = json.loads((stored / "manifest.json").read_text())["clock"]
            ahead_ns = clock["realtime_ns"] - clock["monotonic_ns"]
            first, last = timed_samples(stored)
            ends = [(one["monotonic_ns"] + ahead_ns) / 1e9 for one in (first, last)]
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
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", image], check=True)
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
        found, _ = run([*argv, *(word for one in settings for word in ("--set", one))], name)
        for operation in ("read", "write"):
            ours = sum(
                one["value"]
                for one in found["metrics"]
                if one["name"] == "io_bytes"
                and one["labels"]["operation"] == operation
                and one["labels"]["part"] != "wal"
            )
            (theirs,) = (
                one["value"]
                for one in found["metrics"]
                if one["name"] == f"window_tier_{operation}_bytes"
                and one["labels"]["tier"] == "loop"
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
                found, stored = run([*argv, *planted], folder)
                (syncs,) = (
                    hdr.decode(one["hdr"])
                    for one in found["metrics"]
                    if one["name"] == "io_duration_ns"
                    and one["labels"] == {"part": "wal", "operation": "sync", "role": "foreground"}
                )
                durations.append((syncs.percentile(50), syncs.mean))
            operations = json.loads((stored / "artifacts" / "io-operations.json").read_text())
            (cell,) = (
                one
                for one in operations
                if (one["part"], one["operation"], one["role"]) == ("wal", "sync", "foreground")
            )
            (median, mean), (slower_median, slower_mean) = durations
            print(f"{syncs.total:,} syncs: median {(slower_median - median) / 1000:+.1f} us, mean "
                  f"{(slower_mean - mean) / 1000:+.1f} us, achieved "
                  f"{cell['delay_ns'] / cell['delayed'] / 1000:.1f} us", flush=True)  # fmt: skip


def main() -> None:
    """Print one line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("strace", "direct", "delay"), nargs="?" if SMOKE else None)
    parser.add_argument("--engine", choices=COMMANDS, action="append", help="of strace [all]")
    parser.add_argument("--pairs", type=int, default=3, help="of delay [3]")
    given = parsed(parser, pairs=1)
    if given.smoke:
        if shutil.which("strace"):
            strace(["rocksdb"])
        delay(given.pairs)
        print("left out: direct, which needs a device of its own")
    elif given.what == "strace":
        strace(given.engine or list(COMMANDS))
    elif given.what == "direct":
        direct()
    else:
        delay(given.pairs)


if __name__ == "__main__":
    main()
