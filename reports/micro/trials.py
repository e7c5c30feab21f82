"""What is tried of the Empirical Guide's practices (FAST'20, Section 5): a ratio for each trial.

1. *Avoid random accesses smaller than 256 B*: what 256 B gain over 64 B at random places,
   beyond what they gain in sequence. An access has costs of its own (a fence, an
   instruction) that have nothing to do with where it goes; those are in both.
2. *Use non-temporal stores for large transfers, and control cache evictions*: ntstore
   against store+clwb, 4 KiB and more; and store+clwb against store alone.
3. *Limit the number of concurrent threads*: the best of fewer threads against the most.
4. *Avoid accesses to remote NUMA nodes, above all mixed ones*: near against far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.reports.micro.claims import Claim, claim, claim_of
from harness.reports.micro.points import RATE, Device, Point, best
from harness.reports.micro.questions import alike, largest
from harness.reports.micro.sequences import CLWB, LOAD, NTSTORE, STORE, Instructions, sequence_of
from harness.reports.words import counted, quantity_text
from harness.units import format_bytes

#: The least gain that is worth following a practice for.
BOUND = 1.1
#: FAST'20 sees bandwidth fall from 4 to 12 threads on: with fewer nothing can be said.
_MANY_THREADS = 8
#: "Large": where ntstore leads in FAST'20, Figure 12.
_LARGE = 4096
_SMALL, _LINE = "64", "256"


@dataclass(frozen=True)
class Trial:
    """One ratio that decides about a practice, before it is judged.

    ``figures``: of both sides; ``claim``: None where nothing can be said, with the reason ``why``.
    """

    practice: int
    what: str
    figures: str
    claim: Claim | None
    why: str = ""

    @property
    def key(self) -> str:
        """Unique among the verdicts of a card."""
        return f"practice {self.practice}: {self.what}"


def trials(device: Device) -> list[Trial]:
    """All of them, in the order of the practices."""
    return [*_small(device), *_large(device), *_crowd(device), *_remote(device)]


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
        together = all(point.beside(r64) for point in points)
        gained = [a * b for a, b in zip(r256.samples, s64.samples, strict=False)]
        against = [a * b for a, b in zip(r64.samples, s256.samples, strict=False)]
        yield _trial(
            1, f"random {kind.title}, 256 B against 64 B, beyond what they gain in sequence",
            f"random {_rate(r64)} and {_rate(r256)}, sequential {_rate(s64)} and {_rate(s256)}",
            claim(gained, against, BOUND) if together else None,
            "in one of the repeats nothing was done" if together else "measured in different runs",
        )  # fmt: skip


def _large(device: Device) -> Iterator[Trial]:
    sizes = sorted({int(p.number("access_size_bytes")) for p in _of(device, "persist_size")})
    large = [size for size in sizes if size >= _LARGE]
    for kind, other in ((NTSTORE, CLWB), (CLWB, STORE)):
        for size in dict.fromkeys(large[:1] + large[-1:]):
            a, b = (
                _one(device, "persist_size", one, access_size_bytes=str(size))
                for one in (kind, other)
            )
            if a and b:
                what = f"{kind.title} against {other.title}, {format_bytes(size)}"
                yield _against(2, what, a, b)


def _crowd(device: Device) -> Iterator[Trial]:
    for kind in (LOAD, NTSTORE, CLWB):
        held = device.select(RATE, measurement="threads", pattern="sequential",
                             access_size_bytes=_LINE)  # fmt: skip
        points = [p for p in held if sequence_of(p) == kind]
        most = max((p.number("threads") for p in points), default=0)
        fewer = [p for p in points if p.number("threads") < most]
        if not fewer:
            continue
        if most < _MANY_THREADS:
            top = best(points)
            why = f"only {counted(int(most), 'thread')} here; the paper's DIMMs slow "
            yield Trial(
                3, f"{kind.title}, best thread count against {most:g} threads",
                f"best with {counted(int(top['threads']), 'thread')}, {_rate(top)}", None,
                f"{why}down with 4 to 12",
            )  # fmt: skip
            continue
        top, all_of_them = best(fewer), best([p for p in points if p.number("threads") == most])
        what = f"{kind.title}, {top['threads']} threads (the best of fewer) against {most:g}"
        yield _against(3, what, top, all_of_them)


def _remote(device: Device) -> Iterator[Trial]:
    points = _of(device, "mix")
    for pattern in dict.fromkeys(p["pattern"] for p in points):
        same = [p for p in points if p["pattern"] == pattern]
        held = largest(same, "numa", "threads", "read_share", having=_near_and_far)
        crowd = max((p.number("threads") for p in held), default=0)
        for far in (p for p in held if p["numa"] == "far" and p.number("threads") == crowd):
            near = next((p for p in held if p["numa"] != "far" and alike(p, far, "numa")), None)
            if near and far["read_share"] in ("0", "0.5", "1"):
                share = f"{100 * far.number('read_share'):g} % reads"
                what = f"{pattern}, {crowd:g} threads, {share}".removeprefix(", ")
                yield _against(4, f"near against far, {what}", near, far)


def _near_and_far(points: Sequence[Point]) -> bool:
    return len({p["numa"] == "far" for p in points}) == 2


def _against(practice: int, what: str, a: Point, b: Point) -> Trial:
    return _trial(practice, what, f"{_rate(a)} against {_rate(b)}", claim_of(a, b, BOUND),
                  "in one of the repeats nothing was done")  # fmt: skip


def _trial(practice: int, what: str, figures: str, found: Claim | None, why: str) -> Trial:
    """``why``: said where there is no claim."""
    return Trial(practice, what, figures, found, "" if found else why)


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


def _rate(point: Point) -> str:
    return quantity_text(point.median, "B/s")
