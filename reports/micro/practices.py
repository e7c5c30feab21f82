"""The four best practices of the Empirical Guide (FAST'20, Section 5), tried on a device.

Each is turned into a ratio: how much is gained by following it. A practice is *confirmed*
where the whole interval of that ratio lies above 1.1, *refuted* where it lies below, since a
gain of less than a tenth is not worth designing for; everything else is *not testable here*,
with the reason. The interval is that of paired repeats (harness.reports.statistics): they were
measured in blocks, so that repeat k of both sides ran in the same minute.

1. *Avoid random accesses smaller than 256 B*: what 256 B gain over 64 B at random places,
   beyond what they gain in sequence. An access has costs of its own (a fence, an
   instruction) that have nothing to do with where it goes; those are in both.
2. *Use non-temporal stores for large transfers, and control cache evictions*: ntstore
   against store+clwb, 4 KiB and more; and store+clwb against store alone.
3. *Limit the number of concurrent threads*: the best thread count against the most.
4. *Avoid accesses to remote NUMA nodes, above all mixed ones*: near against far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.reports.micro.points import RATE, Device, Point, best
from harness.reports.micro.sequences import CLWB, LOAD, NTSTORE, STORE, Instructions, sequence_of
from harness.reports.statistics import ALPHA, Estimate, compare_paired, repeats_needed
from harness.reports.words import counted, interval_text, quantity_text, times
from harness.units import format_bytes

Outcome = Literal["confirmed", "refuted", "not testable here"]

#: The least gain that is worth following a practice for.
BOUND = 1.1
#: FAST'20 sees bandwidth fall from 4 to 12 threads on: with fewer nothing can be said.
_MANY_THREADS = 8
#: "Large": where ntstore leads in FAST'20, Figure 12.
_LARGE = 4096
_SMALL, _LINE = "64", "256"


@dataclass(frozen=True)
class Trial:
    """One ratio that decides about a practice: what was compared, with the figures."""

    what: str
    figures: str
    outcome: Outcome
    why: str
    estimate: Estimate | None = None

    @property
    def said(self) -> str:
        """``ntstore 4 KiB: 1.50× [1.4, 1.6]; 3 GB/s against 2 GB/s``."""
        return f"{self.what}: {self.figures}" + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True)
class Practice:
    """A practice, what was tried of it, and what came out."""

    number: int
    text: str
    trials: tuple[Trial, ...]
    missing: str = ""

    @property
    def outcome(self) -> Outcome:
        """Confirmed where any trial is (there it pays to follow it), else refuted where one is."""
        told = [trial.outcome for trial in self.trials]
        found: tuple[Outcome, ...] = ("confirmed", "refuted")
        return next((one for one in found if one in told), "not testable here")

    @property
    def figures(self) -> str:
        """What every trial says, or why there is none."""
        return "; ".join(trial.said for trial in self.trials) or self.missing


def practices(device: Device) -> list[Practice]:
    """All four, in the paper's order and words."""
    return [
        Practice(1, "Avoid random accesses smaller than 256 B", tuple(_small(device)),
                 _absent("access_size, access_size_sequential")),
        Practice(2, "Use non-temporal stores for large transfers, and control cache evictions",
                 tuple(_large(device)), _absent("persist_size")),
        Practice(3, "Limit the number of concurrent threads accessing a DIMM",
                 tuple(_crowd(device)), _absent("threads")),
        Practice(4, "Avoid NUMA accesses, especially read-modify-write sequences",
                 tuple(_remote(device)), _no_far(device)),
    ]  # fmt: skip


def _absent(measurements: str) -> str:
    return (
        f"not measured: {measurements} of the suite device-card "
        "(`harness run micro --suite device-card --tier …`)"
    )


def _no_far(device: Device) -> str:
    if not device.select(RATE, measurement="mix"):
        return _absent("mix")
    return "no processors of another NUMA node: everything is near here"


# Trials -------------------------------------------------------------------------


def _small(device: Device) -> Iterator[Trial]:
    for kind in (LOAD, NTSTORE, CLWB):
        held = {
            (pattern, size): _fastest(device, kind, pattern, size)
            for pattern in ("random", "sequential")
            for size in (_SMALL, _LINE)
        }
        points = [point for point in held.values() if point is not None]
        if len(points) < len(held):
            continue
        r64, r256, s64, s256 = (
            held[pattern, size] for pattern in ("random", "sequential") for size in (_SMALL, _LINE)
        )
        assert r64 and r256 and s64 and s256
        both = min(len(point.samples) for point in points)
        gained = [a * b for a, b in _pairs(r256, s64)][:both]
        against = [a * b for a, b in _pairs(r64, s256)][:both]
        yield _trial(
            f"random {kind.title}, 256 B against 64 B, beyond what they gain in sequence",
            f"random {_rate(r64)} and {_rate(r256)}, sequential {_rate(s64)} and {_rate(s256)}",
            gained, against,
        )  # fmt: skip


def _large(device: Device) -> Iterator[Trial]:
    sizes = sorted({int(p.number("access_size_bytes")) for p in _of(device, "persist_size")})
    for kind, other in ((NTSTORE, CLWB), (CLWB, STORE)):
        for size in [size for size in sizes if size >= _LARGE][:1] + sizes[-1:]:
            a, b = (
                _one(device, "persist_size", one, access_size_bytes=str(size))
                for one in (kind, other)
            )
            if size >= _LARGE and a and b:
                yield _against(f"{kind.title} against {other.title}, {format_bytes(size)}", a, b)


def _crowd(device: Device) -> Iterator[Trial]:
    for kind in (LOAD, NTSTORE, CLWB):
        points = [p for p in _of(device, "threads") if sequence_of(p) == kind
                  and p["pattern"] == "sequential"]  # fmt: skip
        if len(points) < 2:
            continue
        most = max(points, key=lambda p: p.number("threads"))
        top = best(points)
        what = f"{kind.title}, best thread count against {most['threads']} threads"
        if most.number("threads") < _MANY_THREADS:
            figures = f"best with {counted(int(top['threads']), 'thread')}, {_rate(top)}"
            why = f"only {counted(int(most['threads']), 'thread')} here; the paper's DIMMs slow "
            yield Trial(what, figures, "not testable here", f"{why}down with 4 to 12")
        elif top is most:
            yield Trial(what, f"best with all of them, {_rate(top)}", "refuted", "")
        else:
            yield _against(f"{what}: {top['threads']}", top, most)


def _remote(device: Device) -> Iterator[Trial]:
    far = [p for p in _of(device, "mix") if p["numa"] == "far"]
    for point in far:
        near = [
            p for p in _of(device, "mix") if p["numa"] in ("", "near")
            and all(p[label] == point[label] for label in ("threads", "read_share"))
        ]  # fmt: skip
        crowd = max(p.number("threads") for p in far)
        if near and point.number("threads") == crowd and point["read_share"] in ("0", "0.5", "1"):
            share = f"{100 * point.number('read_share'):g} % reads"
            yield _against(f"near against far, {crowd:g} threads, {share}", near[0], point)


def _against(what: str, a: Point, b: Point) -> Trial:
    pairs = _pairs(a, b)
    return _trial(
        what, f"{_rate(a)} against {_rate(b)}", [x for x, _ in pairs], [y for _, y in pairs]
    )


def _trial(what: str, figures: str, a: Sequence[float], b: Sequence[float]) -> Trial:
    """What the ratio of paired repeats a/b says."""
    if not a or min(*a, *b) <= 0:
        return Trial(what, figures, "not testable here", "in one of the repeats nothing was done")
    estimate = compare_paired(a, b)
    told = f"{times(estimate.ratio)} {interval_text(estimate)}; {figures}"
    if estimate.confidence < 1 - ALPHA or estimate.low is None or estimate.high is None:
        needed = repeats_needed(ALPHA, "paired")
        why = f"cannot be shown with {counted(len(a), 'repeat')}, {needed} are needed"
        return Trial(what, told, "not testable here", why, estimate)
    if estimate.low > BOUND:
        return Trial(what, told, "confirmed", "", estimate)
    if estimate.high < BOUND:
        return Trial(what, told, "refuted", "", estimate)
    return Trial(what, told, "not testable here", f"the interval holds {BOUND}", estimate)


# Finding points -----------------------------------------------------------------


def _of(device: Device, measurement: str) -> list[Point]:
    return device.select(RATE, measurement=measurement)


def _one(device: Device, measurement: str, kind: Instructions, **labels: str) -> Point | None:
    found = [p for p in device.select(RATE, measurement=measurement, **labels)
             if sequence_of(p) == kind]  # fmt: skip
    return best(found) if found else None


def _fastest(device: Device, kind: Instructions, pattern: str, size: str) -> Point | None:
    """Over the thread counts."""
    measurement = "access_size" if pattern == "random" else "access_size_sequential"
    return _one(device, measurement, kind, pattern=pattern, access_size_bytes=size)


def _pairs(a: Point, b: Point) -> list[tuple[float, float]]:
    """Repeat by repeat, as many as both have."""
    return list(zip(a.samples, b.samples, strict=False))


def _rate(point: Point) -> str:
    return quantity_text(point.median, "B/s")
