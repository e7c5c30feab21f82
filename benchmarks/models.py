"""Distance of modelled tiers from devices that this host has (docs/models.md).

    sudo .venv/bin/python benchmarks/models.py --repeats 3      # about three hours, on an idle host

Four devices: the disk; ext4 on a loop device over a tmpfs; ext4 on a loop device on the disk,
throttled to a tenth of the disk's rates, and another one to 300 requests a second (blkio of cgroup
v1). Of each a model is made, and the same runs are made on the device and on its model, in blocks.
Half of the cases are fixed, half are drawn from a seed, which is printed.
Printed: of each case the errors, of all of them the median and the largest, and what was not
scored, with the reason. The bar: a median of at most 5 % of throughput, none above 15 % unmarked,
p99 within 25 %, processor time of an operation within 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from harness.models.tier import RAM_DISK
from harness.tiers.linux.ext4 import EAGER

ROOT = Path(__file__).resolve().parents[1]
HARNESS = str(ROOT / ".venv" / "bin" / "harness")
CASES = (
    "tpcc postgres users=4",
    "tpcc mysql users=4 innodb_use_native_aio=OFF",
    "ycsb rocksdb workload=a threads=4 sync=true",
    "tpch postgres queries=1,6,9",
)
SMOKE = ("ycsb rocksdb workload=a threads=1 records=1000 sync=true duration=1s ramp_up=0s",)
_LOOP_BYTES, _BLOCK_BYTES = 6 << 30, 4 << 20
_BLKIO = Path("/sys/fs/cgroup/blkio")
_SHARE = 10
_REQUESTS_PER_S = 300
_DEVICES = ("ssd", "loop", "slow", "few")


@dataclass(frozen=True)
class HostTier:
    """A tier of this host; ``cgroup``: where processes are whose I/O is throttled."""

    name: str
    path: Path
    cgroup: Path | None = None


def in_group(words: Sequence[str], cgroup: Path | None) -> list[str]:
    """The command line that runs a command in a control group."""
    if cgroup is None:
        return list(words)
    return ["sh", "-c", f'echo $$ > {cgroup}/cgroup.procs; exec "$@"', "sh", *words]


def command(*words: str, cgroup: Path | None = None, may_fail: bool = False) -> str:
    """Output of a command, which runs in a control group; exits where it fails."""
    argv = in_group(words, cgroup)
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, errors = process.communicate()
    except KeyboardInterrupt:
        process.communicate()  # it was interrupted, too, and stops what uses the device
        raise
    if process.returncode and not (may_fail and output):
        raise SystemExit(f"{' '.join(words)}\n{output[-2000:]}\n{errors[-2000:]}")
    return output


@contextmanager
def loop_device(folder: Path, name: str) -> Iterator[tuple[Path, str]]:
    """An ext4 file system on a loop device over a file in the folder: where it is mounted."""
    image, place = folder / f"{name}.img", folder / name
    with image.open("wb") as file:
        file.truncate(_LOOP_BYTES)
    place.mkdir()
    command("mkfs.ext4", "-q", "-F", "-E", EAGER, str(image))
    in_memory = str(folder).startswith("/dev/shm")
    # A first write to a hole allocates, and takes longer than later ones: no block is a hole.
    again = (f"if={image}", f"of={image}", "conv=notrunc", f"bs={_BLOCK_BYTES}")
    command("dd", *again, *(() if in_memory else ("oflag=direct",)))
    direct = "off" if in_memory else "on"
    loop = command("losetup", f"--direct-io={direct}", "--find", "--show", str(image)).strip()
    try:
        command("mount", loop, str(place))
        place.chmod(0o755)
        try:
            yield place, loop
        finally:
            command("umount", str(place))
    finally:
        command("losetup", "--detach", loop)
        image.unlink()


def drawn(random: Random, count: int) -> list[str]:
    """Cases of engines, workloads, users, scales, memory limits and caches, none of CASES."""
    cases: list[str] = []
    while len(cases) < count:
        users, limit = random.choice((1, 2, 4, 8, 16)), random.choice(("", " memory_limit=2GiB"))
        kind = random.choice(("tpcc", "ycsb", "ycsb", "tpch"))
        if kind == "tpcc":
            engine, more = random.choice(
                (("postgres", ""), ("mysql", " innodb_use_native_aio=OFF"))
            )
            case = f"tpcc {engine} users={users} warehouses={random.choice((2, 10))}{more}{limit}"
        elif kind == "ycsb":
            engine, more = random.choice((("rocksdb", " sync=true"), ("postgres", "")))
            records = random.choice((10_000, 100_000, 1_000_000))
            workload = random.choice("abf")
            case = (
                f"ycsb {engine} workload={workload} threads={users} records={records}{more}{limit}"
            )
        else:
            engine, queries = random.choice(("postgres", "duckdb")), random.sample(range(1, 23), 3)
            cache = random.choice(("cold-per-query", "cold-per-run", "warm"))
            listed = ",".join(map(str, sorted(queries)))
            scale = random.choice((0.1, 0.3, 1))
            case = f"tpch {engine} queries={listed} scale={scale} cache={cache}{limit}"
        if case not in (*CASES, *cases):
            cases.append(case)
    return cases


@contextmanager
def throttled(loop: str, limits: dict[str, float]) -> Iterator[Path]:
    """A control group whose processes have these limits of blkio on the device, by file."""
    group = _BLKIO / f"tierbench-{os.getpid()}-{Path(loop).name}"
    group.mkdir()
    status = Path(loop).stat().st_rdev
    number = f"{os.major(status)}:{os.minor(status)}"
    try:
        for name, limit in limits.items():
            (group / f"blkio.throttle.{name}_device").write_text(f"{number} {int(limit)}")
        yield group
    finally:
        group.rmdir()


@contextmanager
def device(name: str, disk: Path, rates: dict[str, float]) -> Iterator[HostTier | str]:
    """One of the devices, or why it cannot be made here."""
    limits = {f"{way}_bps": rates[way] / _SHARE for way in ("read", "write")}
    if name == "few":
        limits = {f"{way}_iops": _REQUESTS_PER_S for way in ("read", "write")}
    if name == "ssd":
        yield HostTier(name, disk)
    elif os.geteuid() != 0:
        yield "a loop device needs root"
    elif name != "loop" and not _BLKIO.is_dir():
        yield "no control of block I/O (cgroup v1's blkio)"
    else:
        folder = "/dev/shm" if name == "loop" else disk
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
            place.chmod(0o755)
            mounted, loop = stack.enter_context(loop_device(place, name))
            group = None if name == "loop" else stack.enter_context(throttled(loop, limits))
            yield HostTier(name, mounted, group)


def scores_of(
    device: HostTier, cases: Sequence[str], options: argparse.Namespace
) -> Iterator[tuple[str, Any]]:
    """Make a model of a device and score it: each case with its score, or why it has none."""
    host = Path(options.results) / f"{device.name}.yml"
    kind = f"{{kind: block, path: {device.path}}}"
    host.write_text(f"schema: 1\ntiers:\n  {device.name}: {kind}\n")
    shared = ("--host", str(host), "--results", options.results)
    name = f"benchmark-{device.name}"
    small = ("-p", "duration=50ms", "-p", "range=16MiB") if options.smoke else ()
    repeats = ("--repeats", str(options.repeats))
    make = ("model", "make", name, "--tier", device.name, "--replace", *small, *repeats, *shared)
    command(HARNESS, *make, cgroup=device.cgroup)
    verify = ("model", "verify", name, "--tier", device.name, *shared, "--json")
    for case in cases:
        argv = (HARNESS, *verify, *repeats, "--case", case)
        # Status 1: a case that other work disturbed, which is printed.
        document = json.loads(command(*argv, cgroup=device.cgroup, may_fail=True))
        (result,) = document.get("scores") or [document["error"]["context"]]
        yield case, result


def report(scores: Sequence[tuple[str, Any]]) -> None:
    """Print the errors over all scores."""
    for name in dict.fromkeys(m["name"] for _, score in scores for m in score["metrics"]):
        errors = [
            abs(metric["ratio"] - 1)
            for _, score in scores
            for metric in score["metrics"]
            if metric["name"] == name
        ]
        print(f"{name}: median error {median(errors):.0%}, largest {max(errors):.0%} "
              f"of {len(errors)} cases")  # fmt: skip


def main() -> None:
    """Print the scores of all devices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--case", action="append", help="in place of all cases; may repeat")
    parser.add_argument("--device", action="append", choices=_DEVICES)
    parser.add_argument("--seed", type=int, default=None, help="of the cases that are drawn")
    parser.add_argument("--results", default=None, help="a folder that is kept")
    parser.add_argument("--smoke", action="store_true", help="one short case on the disk")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leaves no device behind, either
    seed = int.from_bytes(os.urandom(4), "big") if options.seed is None else options.seed
    random = Random(seed)
    print(f"--seed {seed}")
    scores: list[tuple[str, Any]] = []
    missing: list[str] = []
    with ExitStack() as stack:
        if options.results is None:
            options.results = stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp"))
        Path(options.results).mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0 and not RAM_DISK.is_mount() and not options.smoke:
            command(HARNESS, "host", "apply", "ramdisk")
            stack.callback(command, HARNESS, "host", "restore", "ramdisk")
        tiers = json.loads(command(HARNESS, "doctor", "--json"))["tiers"]
        disk = Path(next(tier["place"] for tier in tiers if tier["name"] == "ssd"))
        disk.mkdir(parents=True, exist_ok=True)
        options.repeats = 1 if options.smoke else options.repeats
        for name in ["ssd"] if options.smoke else options.device or _DEVICES:
            defaults = [*CASES, *drawn(random, len(CASES))]
            cases = SMOKE if options.smoke else options.case or defaults
            with device(name, disk, {"read": 2e9, "write": 1e9}) as made:
                if isinstance(made, str):
                    missing.append(f"{name}: {made}")
                    continue
                for case, result in scores_of(made, cases, options):
                    if isinstance(result, str):
                        missing.append(f"{name}: {case}: {result}")
                        continue
                    scores.append((name, result))
                    ratios = {m["name"]: m["ratio"] - 1 for m in result["metrics"]}
                    text = "  ".join(f"{metric} {error:+.0%}" for metric, error in ratios.items())
                    print(f"{name:5} {result['case']:50} {text or 'not scored'}", flush=True)
                    missing += [f"{name}: {result['case']}: {r['why']}" for r in result["refused"]]
    report(scores)
    for line in missing:
        print(f"not measured: {line}")


if __name__ == "__main__":
    main()
