"""How far modelled tiers are from devices that this host has (docs/models.md).

    sudo .venv/bin/python benchmarks/models.py --repeats 3      # about 45 minutes

Three devices: the disk; ext4 on a loop device over a tmpfs; ext4 on a loop device on the disk,
throttled to a tenth of the disk's rates (blkio of cgroup v1). Of each a model is made, and the same
runs are made on the device and on its model, in paired blocks. Printed: the errors of throughput,
p50 and p99, and the median and the largest error of throughput. The bar: a median of at most 10 %,
and none above 25 % that has no warning.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from harness.tiers.linux.ext4 import EAGER

ROOT = Path(__file__).resolve().parents[1]
HARNESS = str(ROOT / ".venv" / "bin" / "harness")
CASES = (
    "tpcc postgres users=1",
    "tpcc postgres users=4",
    "tpcc postgres users=8",
    "tpcc mysql users=4 innodb_use_native_aio=OFF",
    "ycsb rocksdb workload=a threads=1 sync=true",
    "ycsb rocksdb workload=a threads=4 sync=true",
    "tpch postgres queries=1,6,9",
    "tpch duckdb queries=1,6,9",
)
SMOKE = ("ycsb rocksdb workload=a threads=1 records=1000 sync=true duration=1s ramp_up=0s",)
_LOOP_BYTES = 6 << 30
_BLKIO = Path("/sys/fs/cgroup/blkio")
_SHARE = 10


@dataclass(frozen=True)
class Device:
    """A tier of this host; ``cgroup``: where processes are whose I/O is throttled."""

    name: str
    path: Path
    cgroup: Path | None = None


def command(*words: str, cgroup: Path | None = None) -> str:
    """Output of a command, which runs in a control group; exits where it fails."""
    argv = list(words)
    if cgroup is not None:
        argv = ["sh", "-c", f'echo $$ > {cgroup}/cgroup.procs; exec "$@"', "sh", *argv]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


@contextmanager
def loop_device(folder: Path, name: str) -> Iterator[tuple[Path, str]]:
    """An ext4 file system on a loop device over a file in the folder: where it is mounted."""
    image, place = folder / f"{name}.img", folder / name
    with image.open("wb") as file:
        file.truncate(_LOOP_BYTES)
    place.mkdir()
    command("mkfs.ext4", "-q", "-F", "-E", EAGER, str(image))
    direct = "off" if str(folder).startswith("/dev/shm") else "on"
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


@contextmanager
def throttled(loop: str, rates: dict[str, float]) -> Iterator[Path]:
    """A control group whose processes have a tenth of these bytes per second on the device."""
    group = _BLKIO / f"tierbench-{os.getpid()}"
    group.mkdir()
    status = Path(loop).stat().st_rdev
    number = f"{os.major(status)}:{os.minor(status)}"
    try:
        for way in ("read", "write"):
            limit = f"{number} {int(rates[way] / _SHARE)}"
            (group / f"blkio.throttle.{way}_bps_device").write_text(limit)
        yield group
    finally:
        group.rmdir()


@contextmanager
def devices(disk: Path, rates: dict[str, float]) -> Iterator[list[Device]]:
    """The disk, a loop device in memory, and a throttled one; the latter two as root alone."""
    found = [Device("ssd", disk)]
    with ExitStack() as stack:
        if os.geteuid() == 0:
            shm = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
            on_disk = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=disk)))
            shm.chmod(0o755)
            on_disk.chmod(0o755)
            place, _ = stack.enter_context(loop_device(shm, "loop"))
            found.append(Device("loop", place))
            place, loop = stack.enter_context(loop_device(on_disk, "slow"))
            if (_BLKIO / "blkio.throttle.read_bps_device").exists() or _BLKIO.is_dir():
                group = stack.enter_context(throttled(loop, rates))
                found.append(Device("slow", place, group))
        yield found


def score(device: Device, cases: Sequence[str], options: argparse.Namespace) -> list[Any]:
    """Make a model of a device and score it."""
    host = Path(options.results) / f"{device.name}.yml"
    kind = f"{{kind: block, path: {device.path}}}"
    host.write_text(f"schema: 1\ntiers:\n  {device.name}: {kind}\n")
    shared = ("--host", str(host), "--results", options.results)
    name = f"benchmark-{device.name}"
    small = ("-p", "duration=50ms", "-p", "size=16MiB", "--repeats", "1")
    measured = small if options.smoke else ()
    make = ("model", "make", name, "--tier", device.name, "--replace", *measured, *shared)
    command(HARNESS, *make, cgroup=device.cgroup)
    named = [word for case in cases for word in ("--case", case)]
    verify = ("model", "verify", name, "--tier", device.name, *named, *shared, "--json")
    repeats = ("--repeats", str(options.repeats))
    found = json.loads(command(HARNESS, *verify, *repeats, cgroup=device.cgroup))["scores"]
    return list(found)


def main() -> None:
    """Print the scores of all devices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--case", action="append", help="of the cases, only these; may repeat")
    parser.add_argument("--device", action="append", choices=("ssd", "loop", "slow"))
    parser.add_argument("--results", default=None, help="a folder that is kept")
    parser.add_argument("--smoke", action="store_true", help="one short case on the disk")
    options = parser.parse_args()
    with ExitStack() as stack:
        if options.results is None:
            options.results = stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp"))
        Path(options.results).mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            command(HARNESS, "host", "apply", "ramdisk")
        tiers = json.loads(command(HARNESS, "doctor", "--json"))["tiers"]
        disk = Path(next(tier["place"] for tier in tiers if tier["name"] == "ssd"))
        disk.mkdir(parents=True, exist_ok=True)
        chosen = ["ssd"] if options.smoke else (options.device or ["ssd", "loop", "slow"])
        options.repeats = 1 if options.smoke else options.repeats
        cases = SMOKE if options.smoke else (options.case or CASES)
        rates = {"read": 2e9, "write": 1e9}
        errors = []
        with devices(disk, rates) as found:
            for device in found:
                if device.name not in chosen:
                    continue
                for one in score(device, cases, options):
                    ratios = {m["name"]: m["ratio"] - 1 for m in one["metrics"]}
                    text = "  ".join(f"{name} {error:+.0%}" for name, error in ratios.items())
                    print(f"{device.name:5} {one['case']:50} {text}", flush=True)
                    errors.append(abs(ratios["throughput"]))
    print(f"throughput: median error {median(errors):.0%}, largest {max(errors):.0%}")
    sys.exit(0)


if __name__ == "__main__":
    main()
