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

from harness.units import format_bytes
from reports.formatting import counted, quantity_text
from reports.micro.hypotheses import Claim, claim, claim_of
from reports.micro.points import RATE, Device, Point, best
from reports.micro.questions import (
    alike,
    beyond_caches,
    largest,
    mixes,
    persist_sizes,
    thread_counts,
)
from reports.micro.sequences import CLWB, LOAD, NTSTORE, STORE, sequence_of

#: The least gain that is worth following a practice for.
BOUND = 1.1
#: FAST'20 sees bandwidth fall from 4 to 12 threads on: with fewer nothing can be said.
_MANY_THREADS = 8
#: "Large": where ntstore leads in FAST'20, Figure 12.
_LARGE = 4096
_SMALL, _LINE = "64", "256"
_OF_SMALL = ("measurement", "pattern", "access_size_bytes", "threads")


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
    points = device.select(RATE, measurement=("access_size", "access_size_sequential"))
    points = beyond_caches(device, points)
    for kind in (LOAD, NTSTORE, CLWB):
        same = [p for p in points if sequence_of(p) == kind]
        held = _fastest(largest(same, *_OF_SMALL, having=_fastest))
        if not held:
            continue
        r64, r256, s64, s256 = held
        together = all(point.beside(r64) for point in held)
        gained = [a * b for a, b in zip(r256.samples, s64.samples, strict=False)]
        against = [a * b for a, b in zip(r64.samples, s256.samples, strict=False)]
        yield _trial(
            1,
            f"random {kind.title}, 256 B against 64 B, beyond what they gain in sequence",
            f"random {_rate(r64)} and {_rate(r256)}, sequential {_rate(s64)} and {_rate(s256)}",
            claim(gained, against, BOUND) if together else None,
            "in one of the repeats nothing was done" if together else "measured in different runs",
        )


def _fastest(points: Sequence[Point]) -> list[Point]:
    """Random 64 B and 256 B, sequential 64 B and 256 B, each over the thread counts.

    Empty where one of them is missing.
    """
    held = [
        [p for p in points if (p["pattern"], p["access_size_bytes"]) == (pattern, size)]
        for pattern in ("random", "sequential")
        for size in (_SMALL, _LINE)
    ]
    return [best(one) for one in held] if all(held) else []


def _large(device: Device) -> Iterator[Trial]:
    points = persist_sizes(device)
    large = sorted({int(p.number("access_size_bytes")) for p in points} - set(range(_LARGE)))
    for kind, other in ((NTSTORE, CLWB), (CLWB, STORE)):
        for size in dict.fromkeys(large[:1] + large[-1:]):
            at = [p for p in points if p.number("access_size_bytes") == size]
            a, b = ([p for p in at if sequence_of(p) == one] for one in (kind, other))
            if a and b:
                threads = int(a[0].number("threads"))  # of one experiment, so the same in all
                of = f" of {counted(threads, 'thread')}" if threads > 1 else ""
                what = f"{kind.title} against {other.title}, {format_bytes(size)}{of}"
                yield _against(2, what, best(a), best(b))


def _crowd(device: Device) -> Iterator[Trial]:
    held = [p for p in thread_counts(device) if p["pattern"] == "sequential"]
    for kind in (LOAD, NTSTORE, CLWB):
        points = [p for p in held if sequence_of(p) == kind]
        most = max((p.number("threads") for p in points), default=0)
        fewer = [p for p in points if p.number("threads") < most]
        if not fewer:
            continue
        if most < _MANY_THREADS:
            top = best(points)
            why = f"only {counted(int(most), 'thread')} here; the paper's DIMMs slow "
            yield Trial(
                3,
                f"{kind.title}, best thread count against {most:g} threads",
                f"best with {counted(int(top['threads']), 'thread')}, {_rate(top)}",
                None,
                f"{why}down with 4 to 12",
            )
            continue
        top, all_of_them = best(fewer), best([p for p in points if p.number("threads") == most])
        what = f"{kind.title}, {top['threads']} threads (the best of fewer) against {most:g}"
        yield _against(3, what, top, all_of_them)


def _remote(device: Device) -> Iterator[Trial]:
    for pattern in dict.fromkeys(p["pattern"] for p in device.select(RATE, measurement="mix")):
        held = mixes(device, pattern)
        crowd = max((p.number("threads") for p in held), default=0)
        for far in (p for p in held if p["numa"] == "far" and p.number("threads") == crowd):
            near = next((p for p in held if p["numa"] != "far" and alike(p, far, "numa")), None)
            if near and far["read_share"] in ("0", "0.5", "1"):
                share = f"{100 * far.number('read_share'):g} % reads"
                what = f"{pattern}, {crowd:g} threads, {share}".removeprefix(", ")
                yield _against(4, f"near against far, {what}", near, far)


def _against(practice: int, what: str, a: Point, b: Point) -> Trial:
    return _trial(
        practice,
        what,
        f"{_rate(a)} against {_rate(b)}",
        claim_of(a, b, BOUND),
        "in one of the repeats nothing was done",
    )


def _trial(practice: int, what: str, figures: str, found: Claim | None, why: str) -> Trial:
    """``why``: said where there is no claim."""
    return Trial(practice, what, figures, found, "" if found else why)


def _rate(point: Point) -> str:
    return quantity_text(point.median, "B/s")
