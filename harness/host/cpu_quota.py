"""Limits of processor time of the control groups that this process is in (CFS bandwidth).

A quota stops every thread of a group for the rest of a period once its time is used up: a
stall that no queue of the host shows. Containers and systemd units have them (``docker --cpus``,
``CPUQuota=``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from harness.host.cgroup import own_groups_of
from harness.tiers.linux.kernel import LIVE


@dataclass(frozen=True)
class CpuQuota:
    """``processors``: the processor time per time; ``directory``: of the control group."""

    directory: Path
    processors: float


def quota_of(directory: Path) -> float | None:
    """Return the quota of one control group in processors, None where it has none."""
    if (text := LIVE.read(directory / "cpu.max")) is not None:
        quota, _, period = text.partition(" ")
    else:
        quota = LIVE.read(directory / "cpu.cfs_quota_us") or ""
        period = LIVE.read(directory / "cpu.cfs_period_us") or ""
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:  # "max", "-1"
        return None
    return int(quota) / int(period)


def cpu_quotas(proc: Path = Path("/proc/self")) -> list[CpuQuota]:
    """Return the quotas of this process's control group and of its ancestors in view."""
    return [
        CpuQuota(directory, processors)
        for directory in own_groups_of("cpu", proc)
        if (processors := quota_of(directory)) is not None
    ]


def within_quota(processors: int, proc: Path = Path("/proc/self")) -> int:
    """Return how many of these processors quotas leave in whole, at least one.

    Rounded up, as Java does it: threads for a quota of 2.5 use all of it.
    """
    least = min((quota.processors for quota in cpu_quotas(proc)), default=float(processors))
    return min(processors, max(1, ceil(least)))


def throttled(quotas: Iterable[CpuQuota]) -> dict[str, float]:
    """Return how often and how long quotas have stopped their groups so far.

    Of several groups, the one that was stopped the longest: an ancestor stops the same threads.
    """
    counts = [_throttled(quota.directory) for quota in quotas]
    if not counts:
        return {}
    count, duration_ns = max(counts, key=lambda pair: pair[1])
    return {"cpu_throttled_count": count, "cpu_throttled_ns": duration_ns}


def _throttled(directory: Path) -> tuple[float, float]:
    lines = (line.split() for line in (LIVE.read(directory / "cpu.stat") or "").splitlines())
    stat = {words[0]: float(words[1]) for words in lines if len(words) == 2}
    duration_ns = stat.get("throttled_time", stat.get("throttled_usec", 0.0) * 1000)
    return stat.get("nr_throttled", 0.0), duration_ns
