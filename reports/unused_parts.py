"""Parts that two sides have on different tiers and that their runs neither read nor wrote.

Such runs did the same, so their difference is noise: it says nothing about the tiers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.experiment.placement import DIRECTORY_PARTS, Part
from harness.store.runs import StoredRun
from harness.warnings import RunWarning

#: With less of a part's bytes seen, the I/O trace does not show that another part has none.
_SEEN = 0.95


@dataclass(frozen=True)
class UnusedParts:
    """``every``: whether nothing else moved, so that a comparison shows nothing."""

    parts: tuple[Part, ...] = ()
    every: bool = False

    def warnings(self, sides: str) -> Iterator[RunWarning]:
        if self.parts:
            yield RunWarning(
                "part-not-used",
                "a part is on different tiers, and no byte of it was read or written",
                f"{sides}: {', '.join(self.parts)}",
                "run a workload that uses it: less memory for temp, writes for wal",
            )


def unused_parts(a: Sequence[StoredRun], b: Sequence[StoredRun]) -> UnusedParts:
    """Return the unused parts of A and B; a part is used unless each run shows that it was not.

    Where other parts moved and were used, a part that merely follows ``data`` is not listed.
    """
    first, second = a[0].spec.placement, b[0].spec.placement
    if first is None or second is None or first.memory != second.memory:
        return UnusedParts()
    parts = dict.fromkeys((*first.directory_parts, *second.directory_parts))
    moved = [part for part in parts if first.tier_of(part) != second.tier_of(part)]
    idle = [part for part in moved if all(_is_idle(run, part) for run in (*a, *b))]
    if moved and idle == moved:
        return UnusedParts(tuple(idle), every=True)
    of_data = first.data, second.data
    apart = [p for p in idle if (first.tier_of(p), second.tier_of(p)) != of_data]
    return UnusedParts(tuple(apart))


def _is_idle(run: StoredRun, part: Part) -> bool:
    """Return whether a run is known to have moved no byte of a part."""
    if part == "temp" and _sum(run, "spilled_bytes"):
        return False
    if (traced := _traced_bytes(run, part)) is not None:
        return traced == 0
    if part == "temp" and _sum(run, "spilled_bytes") == 0:
        return True
    return _tier_bytes(run, part) == 0


def _traced_bytes(run: StoredRun, part: Part) -> float | None:
    """Return a part's bytes by the I/O trace; None where it was off, or missed bytes."""
    shares = list(_values(run, "io_trace_coverage_share"))
    if not shares or min(shares) < _SEEN:
        return None
    return sum(_values(run, "io_bytes", part=part))


def _tier_bytes(run: StoredRun, part: Part) -> float | None:
    """Return what a part's device moved; None where it holds other parts, or is not counted."""
    placement = run.spec.placement
    assert placement is not None
    tier = placement.tier_of(part)
    if sum(placement.tier_of(other) == tier for other in DIRECTORY_PARTS) > 1:
        return None
    sizes = [_sum(run, f"tier_{way}_bytes", tier=tier) for way in ("read", "write")]
    return None if None in sizes else sum(size or 0.0 for size in sizes)


def _sum(run: StoredRun, name: str, **labels: str | None) -> float | None:
    """Sum the window's counter and the queries'; None where neither was counted."""
    values = [v for of in ("window", "query") for v in _values(run, f"{of}_{name}", **labels)]
    return sum(values) if values else None


def _values(run: StoredRun, name: str, **labels: str | None) -> Iterator[float]:
    for metric in run.result.metrics:
        same = metric.name == name and labels.items() <= metric.labels.items()
        if same and metric.value is not None:
            yield metric.value
