"""The kernel ``file`` against fio on the same file of four devices, in alternating pairs.

    sudo .venv/bin/python benchmarks/file_kernel.py      # four minutes, on an idle host

The devices are those of benchmarks/correlation.py: the disk, a loop device over a tmpfs, a
throttled one on the disk, a tmpfs; --folder measures the device of a folder instead. Each round
takes every cell once by each program, in the other order in every second round, each time after our
program has written the file again. Of each cell the medians of operations per second, of the mean
time of an operation and of its processor time are printed, and the ratio of the rates with its
interval; the bar is 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from correlation import TIERS, tier
from models import HARNESS, HostTier, command, in_group
from smoke import SMOKE, parsed

from harness import hdr
from harness.native_programs import find_native
from harness.units import KIB, MIB, NS_PER_S
from reports.statistics import Ratio, ratio_of

SIZE_BYTES = 4 * MIB if SMOKE else 32 * MIB
BAR = 0.05
FILE = "data"


@dataclass(frozen=True)
class Cell:
    """One configuration. ``sync``: of fdatasync after each write."""

    operation: str
    pattern: str
    access_bytes: int
    threads: int = 1
    queue_depth: int = 1
    sync: bool = False
    direct: bool = True

    @property
    def name(self) -> str:
        """Return the cell's name as the table prints it."""
        words = [self.pattern, self.operation, f"{self.access_bytes // KIB} KiB"]
        words += [f"{self.threads} threads"] if self.threads > 1 else []
        words += [f"depth {self.queue_depth}"] if self.queue_depth > 1 else []
        words += ["fdatasync"] if self.sync else []
        return ", ".join([*words, "direct" if self.direct else "page cache"])


CELLS = (
    Cell("read", "random", 4 * KIB),
    Cell("read", "random", 16 * KIB, threads=16),
    Cell("read", "random", 4 * KIB, queue_depth=16),
    Cell("read", "random", 8 * KIB, direct=False),
    Cell("read", "sequential", MIB),
    Cell("write", "random", 16 * KIB, threads=4),
    Cell("write", "sequential", 8 * KIB, sync=True, direct=False),
    Cell("write", "sequential", 64 * KIB, sync=True),
)


@dataclass(frozen=True)
class JobResult:
    """Rates and times that a program reported. ``kernel_ns``: processor time of an operation."""

    operations_per_second: float
    mean_ns: float
    kernel_ns: float


def measured_job(cell: Cell, device: HostTier, direct: bool, **end: Any) -> dict[str, Any]:
    """The result of our program, which writes the file first; ``end``: of the measurement."""
    job = {
        "name": "job", "kind": "file", "target": "file", "operation": cell.operation,
        "pattern": cell.pattern, "access_bytes": cell.access_bytes, "threads": cell.threads,
        "queue_depth": cell.queue_depth, "sync": "fdatasync" if cell.sync else "none",
        "direct": "yes" if direct else "no",
    }  # fmt: skip
    path = str(device.path / FILE)
    target = {"kind": "file", "path": path, "size_bytes": SIZE_BYTES, "overwrite": True}
    measurements = [{"name": "cell", "jobs": [job], **end}]
    spec = {"schema": 2, "seed": 1, "targets": {"file": target}, "measurements": measurements}
    program = find_native("microbench")
    assert program is not None, "microbench was not built: make setup-dev"
    argv = in_group((str(program), "-"), device.cgroup)
    done = subprocess.run(argv, input=json.dumps(spec), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{cell.name}: {done.stderr}")
    (repeat,) = json.loads(done.stdout)["measurements"][0]["repeats"]
    result: dict[str, Any] = repeat["jobs"][0]
    return result


def ours(cell: Cell, device: HostTier, seconds: float, direct: bool) -> JobResult:
    """Measure with the kernel ``file`` of the microbenchmark."""
    duration_ns = int(seconds * NS_PER_S)
    job = measured_job(cell, device, direct, duration_ns=duration_ns, warm_up_ns=NS_PER_S // 10)
    cpu_ns = sum(thread["cpu_ns"] for thread in job["threads"])
    return JobResult(
        job["operations_per_second"],
        hdr.decode(job["latency_hdr"]).mean,
        cpu_ns / job["operations"],
    )


def fio(cell: Cell, device: HostTier, seconds: float, direct: bool) -> JobResult:
    """The peer, after the file was written likewise. Of a synced write it reports both calls."""
    measured_job(cell, device, direct, duration_ns=1)
    options = {
        "name": "job", "filename": device.path / FILE, "size": SIZE_BYTES, "bs": cell.access_bytes,
        "rw": ("rand" if cell.pattern == "random" else "") + cell.operation,
        "numjobs": cell.threads, "iodepth": cell.queue_depth, "direct": int(direct),
        "ioengine": "io_uring" if cell.queue_depth > 1 else "psync", "fdatasync": int(cell.sync),
        "runtime": f"{round(1000 * seconds)}ms", "ramp_time": "100ms", "output-format": "json",
    }  # fmt: skip
    flags = ("thread", "group_reporting", "time_based", "norandommap", "randrepeat=0")
    given = [*(f"--{name}={value}" for name, value in options.items()), "--invalidate=0"]
    argv = in_group(["fio", *given, *(f"--{flag}" for flag in flags)], device.cgroup)
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=device.path)
    (job,) = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    side = job[cell.operation]
    mean_ns = side["lat_ns"]["mean"] + (job["sync"]["lat_ns"]["mean"] if cell.sync else 0)
    share = (job["usr_cpu"] + job["sys_cpu"]) / 100
    cpu_ns = share * job["job_runtime"] * 1e6 / max(1, side["total_ios"])
    return JobResult(side["iops"], mean_ns, cpu_ns)


PROGRAMS = {"ours": ours, "fio": fio}


def goes_direct(path: Path) -> bool:
    """Return whether the file system has O_DIRECT."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_DIRECT))
    except OSError:
        return False
    return True


def measured(
    device: HostTier, cells: Sequence[Cell], pairs: int, seconds: float
) -> dict[Cell, dict[str, list[JobResult]]]:
    """Return what each program reported of each cell, a value a round."""
    seen: dict[Cell, dict[str, list[JobResult]]] = {}
    with tempfile.TemporaryDirectory(dir=device.path, prefix="file-kernel-") as work:
        place = HostTier(device.name, Path(work), device.cgroup)
        (place.path / FILE).touch()
        possible = goes_direct(place.path / FILE)
        for number in range(pairs):
            for cell in cells:
                of_cell = seen.setdefault(cell, defaultdict(list))
                direct = cell.direct and possible
                for name in ("ours", "fio") if number % 2 == 0 else ("fio", "ours"):
                    of_cell[name].append(PROGRAMS[name](cell, place, seconds, direct))
    return seen


def verdict(ratio: Ratio) -> str:
    """Say where the interval lies: within the bar, outside, or on both sides of a limit."""
    if ratio.low is None or ratio.high is None:
        return "one pair shows nothing"
    if ratio.low >= 1 - BAR and ratio.high <= 1 + BAR:
        return "reached"
    return "MISSED" if ratio.high < 1 - BAR or ratio.low > 1 + BAR else "undecided"


def report(device: str, seen: Mapping[Cell, Mapping[str, list[JobResult]]]) -> Iterator[str]:
    """A row of the table for each cell: medians, the ratio of the rates, and what the bar says."""
    ratios = []
    for cell, programs in seen.items():
        rates = {name: [job.operations_per_second for job in programs[name]] for name in PROGRAMS}
        ratio = ratio_of(rates["ours"], rates["fio"])
        ratios.append(ratio.value)
        interval = "" if ratio.low is None else f" [{ratio.low:.3f}, {ratio.high:.3f}]"
        figures: dict[str, dict[str, Any]] = {
            name: {
                key: median(getattr(job, key) for job in each)
                for key in ("operations_per_second", "mean_ns", "kernel_ns")
            }
            for name, each in programs.items()
        }
        medians = " | ".join(
            f"{of['operations_per_second']:,.0f}/s, {of['mean_ns'] / 1e3:.1f} µs, "
            f"{of['kernel_ns'] / 1e3:.1f} µs"
            for of in figures.values()
        )
        result = f"{ratio.value:.3f}{interval} | {verdict(ratio)}"
        yield f"| {device} | {cell.name} | {medians} | {result} |"
    yield f"| {device} | geometric mean | | | {geometric_mean(ratios):.3f} | |"


def main() -> None:
    """Run the pairs, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tier", action="append", choices=TIERS, help="may repeat")
    parser.add_argument("--folder", type=Path, help="of another device")
    parser.add_argument("--cell", action="append", help="part of its name; may repeat")
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.3)
    given = parsed(parser, pairs=1, seconds=0.05, folder=Path("/var/tmp"))
    print(f"{given.pairs} pairs of {given.seconds:g} s")
    print("| device | calls | kernel `file`: rate, time, processor time | fio | ratio of rates | |")
    print("|---|---|---|---|---|---|")
    if given.folder:
        show(HostTier(str(given.folder), given.folder), given)
        return
    documents = json.loads(command(HARNESS, "doctor", "--json"))["tiers"]
    disk = Path(next(document["place"] for document in documents if document["name"] == "ssd"))
    disk.mkdir(parents=True, exist_ok=True)
    for name in given.tier or TIERS:
        with tier(name, disk) as made:
            if isinstance(made, str):
                print(f"not measured: {name}: {made}")
            else:
                show(made, given)


def show(device: HostTier, given: argparse.Namespace) -> None:
    """Measure a device, and print its rows."""
    cells = [cell for cell in CELLS if any(part in cell.name for part in given.cell or [""])]
    seen = measured(device, cells, given.pairs, given.seconds)
    print("\n".join(report(device.name, seen)), flush=True)


if __name__ == "__main__":
    main()
