"""Modelled tiers: a directory on a fast tier whose file operations take as long as a device's."""

from __future__ import annotations

import os
import re
import stat
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.models.device import OPERATIONS, DeviceModel
from harness.models.model_file import find_model
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from harness.tiers.linux.probe import facts_of_directory
from harness.tiers.stand_ins import MODEL_PREFIX

if TYPE_CHECKING:
    from harness.supervise.user_files import Credentials

#: Where ``harness host apply ramdisk`` mounts a file system on a disk in memory.
RAM_DISK = Path("/mnt/tierbench-ramdisk")
_MEMORY = Path("/dev/shm")
_CALLS = 51
_BYTES = 4096
#: Below this, the time that this process needs for a call counts, not the tier's.
_NOTICEABLE_NS = 5_000
_FAST_KINDS = ("tmpfs", "fsdax", "fs-nodax")
#: Disks whose blocks are in memory: a file system on one is as fast as its own work.
_RAM_DISKS = re.compile(r"/dev/(zram|ram|pmem)\d")


def requested_model(request: str) -> tuple[str, str] | None:
    """Return tier and model of ``fast=model:zero``; None for another request."""
    name, _, text = request.partition("=")
    return (name, text.removeprefix(MODEL_PREFIX)) if text.startswith(MODEL_PREFIX) else None


def model_requests(pairs: dict[str, str]) -> list[str]:
    """Return requests of ``--model NAME=MODEL`` in the form of ``--emulate``."""
    return [f"{name}={MODEL_PREFIX}{model}" for name, model in pairs.items()]


def tier_of_request(name: str, model: str) -> Tier:
    """Return the tier of ``--model NAME=MODEL``, in memory."""
    source = f"--model {name}={model}"
    return modelled_tier(TierClaim(name, "modelled", model=model, source=source))


def modelled_tier(claim: TierClaim, user: Credentials | None = None, kernel: Kernel = LIVE) -> Tier:
    """Return a modelled tier; UsageError where its base cannot keep the model's times."""
    problem = f"modelled tier {claim.name!r} ({claim.source})"
    if claim.model is None:
        raise UsageError(problem, "no model", "write model: NAME (harness model list)")
    model = find_model(claim.model)
    base = Path(claim.path) if claim.path else _default_base(model)
    try:
        facts = facts_of_directory(base, kernel)
    except OSError as error:
        hint = "name a directory on a tmpfs or on a DAX file system"
        raise UsageError(problem, f"{base}: {error.strerror}", hint) from error
    on_ram_disk = bool(_RAM_DISKS.match(facts.device or ""))
    if facts.kind not in _FAST_KINDS and not on_ram_disk:
        raise UsageError(
            problem,
            f"{base} is on a {facts.kind}, which has latencies of its own",
            "put it on a tmpfs, a DAX file system or a RAM disk (harness host apply ramdisk)",
        )
    if slower := _slower(base, model):
        raise UsageError(problem, slower, "put it on a faster tier")
    on = f"{facts.filesystem} on {facts.device}" if on_ram_disk else facts.kind
    warnings = [f"MODELLED: {claim.name} is {model.name} on {on}"]
    if model.page_cache and not model.instant and facts.kind == "tmpfs":
        warnings.append(
            f"{claim.name}: a disk's file system has more to do than a tmpfs, and throughput is "
            "too high by up to a third; `harness host apply ramdisk` mends it"
        )
    model_claim = replace(claim, path=str(_own_directory(base)))
    return Tier(model_claim, _without_device(facts), tuple(warnings), model)


def _default_base(model: DeviceModel) -> Path:
    """A model of a disk is on a disk's file system, where one in memory is fast enough."""
    fits = model.page_cache and os.path.ismount(RAM_DISK) and not _slower(RAM_DISK, model)
    return RAM_DISK if fits else _MEMORY


def refuse_modelled(problem: str, name: str, tiers: Mapping[str, Tier]) -> None:
    """UsageError where the tier of this name is modelled, and a tier of this host is needed.

    Only engines take a model's time: anything else measures the tier below it.
    """
    tier = tiers.get(name)
    if tier is None or tier.model is None:
        return
    place = tier.facts.mount_point
    below = [
        n for n, other in tiers.items() if not other.model and other.facts.mount_point == place
    ]
    raise UsageError(
        problem,
        f"tier {name!r} is modelled as {tier.model.name}, and only engines take a model's time",
        f"name the tier below it ({', '.join(below) or f'one of kind {tier.facts.kind}'}); "
        f"`harness model show {tier.model.name}` prints what the model states",
    )


def _own_directory(base: Path) -> Path:
    """A directory of this user, where others may write to the base."""
    sticky = base.stat().st_mode & stat.S_ISVTX
    return base / f"tierbench-{os.geteuid()}" if sticky else base


def _without_device(facts: TierFacts) -> TierFacts:
    """The base's own device is not the one that is modelled."""
    return replace(facts, device_model=None, rotational=None, readahead_bytes=None)


def _slower(base: Path, model: DeviceModel) -> str | None:
    """Return the operation that takes longer on the base than on the modelled device."""
    for operation, base_ns in _base_durations(base).items():
        points = model.points.get(operation, ())
        if not points or base_ns <= _NOTICEABLE_NS:
            continue
        fastest_ns = points[0].durations.quantile(50)
        if base_ns > fastest_ns:
            return (
                f"a {operation} takes {base_ns / 1000:.1f} us on {base}, "
                f"and {fastest_ns / 1000:.1f} us on the modelled device"
            )
    return None


def _base_durations(base: Path) -> dict[str, float]:
    """Return the median duration in ns of each operation on a file without a name."""
    try:
        descriptor = os.open(base, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:  # cannot be written: the run says so
        return {}
    try:
        block = bytes(_BYTES)
        calls: dict[str, Callable[[], object]] = {
            "write": lambda: os.pwrite(descriptor, block, 0),
            "read": lambda: os.pread(descriptor, _BYTES, 0),
            "sync": lambda: os.fdatasync(descriptor),
        }
        os.pwrite(descriptor, block, 0)
        return {name: statistics.median(_timed(calls[name])) for name in OPERATIONS}
    finally:
        os.close(descriptor)


def _timed(call: Callable[[], object]) -> list[int]:
    durations = []
    for _ in range(_CALLS):
        start = time.perf_counter_ns()
        call()
        durations.append(time.perf_counter_ns() - start)
    return durations
