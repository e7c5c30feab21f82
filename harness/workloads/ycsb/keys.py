"""How often each key is to be chosen, by the official generators' own definitions.

From their formulas, not by drawing: a generator that draws otherwise, here or elsewhere, is
found by comparing. ``zipfian`` draws a rank of 10¹⁰ by Gray's method (SIGMOD 1994) with the
constant 0.99 and a precomputed zeta, hashes it (FNV-1a over its eight bytes) and takes it
modulo the number of keys; what is beyond the newest record is drawn again. ``latest`` counts
a zipfian rank back from the newest record, ``exponential`` another number: both are counted as
if the newest were always the last that was loaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.drivers.result import DriverResult, KeyCount
from harness.store.result import Check
from harness.workloads.outliers import describe_outlier
from harness.workloads.ycsb.params import YcsbParams

_THETA = 0.99
_SCRAMBLED_ITEMS = 10_000_000_001
_SCRAMBLED_ZETA = 26.46902820178302
#: This number of ranks is followed to their keys; the others are nearly evenly spread.
_RANKS = 200_000
#: Number of the hottest keys that are checked, and of keys that are counted: which of them are
#: the hottest is the client's own finding.
HOTTEST, COUNTED = 100, 1000
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 1_099_511_628_211
#: Terms of zeta that are added up; the others are integrated.
_ZETA_TERMS = 1_000_000
#: A client thread counts the first 49,152 keys that it sees: a rarer one may not be among them.
_LEAST_SHARE = 3e-4
_SHOWN = 3


@dataclass(frozen=True)
class Expected:
    """Shares of all choices, by number of the record (or as :func:`_place` has it).

    ``hottest``: of the hottest, from the least to the most that their share can have been
    (new records take from those that were loaded). ``others``: what no other of the loaded
    records can exceed.
    """

    hottest: Mapping[int, tuple[float, float]]
    others: float


def expected(params: YcsbParams, inserted: int) -> Expected | None:
    """None where there is nothing to draw: each in its turn."""
    kind = params.requestdistribution
    start, count = params.insertstart, params.loaded_records
    newest = params.recordcount - 1
    if kind == "zipfian":
        return _scrambled(params, newest, newest + inserted)
    if kind == "latest":
        return _latest(newest, newest + inserted)
    if kind == "exponential":
        return _exponential(params, newest, newest + inserted)
    if kind == "sequential":
        return None
    if kind == "hotspot":
        return _hotspot(params, start, count)
    return Expected({}, 1 / count)


def fnv_hash(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The official ``Utils.fnvhash64``: the absolute value of a signed 64-bit FNV-1a."""
    rest = numbers.copy()
    found = np.full_like(rest, _FNV_OFFSET)
    with np.errstate(over="ignore"):
        for _ in range(8):
            found = (found ^ (rest & np.uint64(0xFF))) * np.uint64(_FNV_PRIME)
            rest >>= np.uint64(8)
    return np.abs(found.view(np.int64)).view(np.uint64)


def zipfian(
    items: int, zeta: float, ranks: int, grown: int | None = None
) -> npt.NDArray[np.float64]:
    """Share of each of the first ``ranks`` ranks, as Gray's method draws them.

    ``grown``: how many items there are by now, ``zeta`` being theirs. The official generator
    keeps the number that it began with in one of its terms: rank 2 then gets less and less.
    """
    alpha = 1 / (1 - _THETA)
    second = 0.5**_THETA
    eta = (1 - (2 / items) ** (1 - _THETA)) / (1 - (1 + second) / zeta)
    count = items if grown is None else grown
    bounds = np.minimum(np.arange(2, max(ranks, 2) + 1, dtype=np.float64), count)
    begins = ((bounds / count) ** (1 / alpha) + eta - 1) / eta
    begins = np.maximum(begins, (1 + second) / zeta)
    begins[0] = (1 + second) / zeta
    return np.concatenate(([1 / zeta, second / zeta], np.diff(begins)))[:ranks]


def zeta_of(items: int) -> float:
    """The sum of 1 / i^0.99 over 1 … ``items``; after a million terms by Euler and Maclaurin."""
    summed = min(items, _ZETA_TERMS)
    total = float(np.sum(np.arange(1, summed + 1, dtype=np.float64) ** -_THETA))
    if items == summed:
        return total
    power = 1 - _THETA
    integral = (items**power - summed**power) / power
    return float(total + integral + (items**-_THETA - summed**-_THETA) / 2)


def _scrambled(params: YcsbParams, first: int, last: int) -> Expected:
    """``first``, ``last``: the newest record at the run's beginning and end."""
    start = params.insertstart
    new = int(
        (params.operationcount or 0) * params.insertproportion * 2
    )  # as the official client foretells them
    items = params.loaded_records + new + 1
    ranked = zipfian(_SCRAMBLED_ITEMS, _SCRAMBLED_ZETA, _RANKS)
    numbers = fnv_hash(np.arange(_RANKS, dtype=np.uint64)) % np.uint64(items)
    spread = float(1 - ranked.sum()) / items
    hot: dict[int, float] = {}
    for number, share in zip(numbers.tolist(), ranked.tolist(), strict=True):
        hot[number] = hot.get(number, spread) + share
    # What is beyond the newest record is drawn again: the others have their part of it.
    kept = [_kept(hot, spread, items, newest - start) for newest in (first, last)]
    hottest = sorted(
        ((share, number) for number, share in hot.items() if number <= first - start),
        reverse=True,
    )
    shown = {
        start + number: (share / max(kept), share / min(kept))
        for share, number in hottest[:HOTTEST]
    }
    next_hottest = max((share for share, _ in hottest[HOTTEST:]), default=spread)
    return Expected(shown, next_hottest / min(kept))


def _kept(hot: Mapping[int, float], spread: float, items: int, newest: int) -> float:
    """The share of draws that name a record that is there."""
    beyond = [share for number, share in hot.items() if number > newest]
    cold = max(items - 1 - newest, 0) - len(beyond)
    return float(1 - math.fsum(beyond) - cold * spread)


def _latest(first: int, last: int) -> Expected:
    """Among more records each rank has less."""
    if first <= HOTTEST:
        return Expected({}, 1.0)
    ends = [zipfian(first, zeta_of(n), HOTTEST + 1, n).tolist() for n in (first, last)]
    both = list(zip(*ends, strict=True))
    hottest = {first - rank: (min(both[rank]), max(both[rank])) for rank in range(HOTTEST)}
    return Expected(hottest, float(max(both[-1])))


def _exponential(params: YcsbParams, first: int, last: int) -> Expected:
    """γ is chosen so that a percentile of the choices falls into a part of the records."""
    part = params.recordcount * params.exponential_frac
    gamma = -math.log(1 - params.exponential_percentile / 100) / part
    # Older than the oldest is drawn again.
    most, least = ((1 - math.exp(-gamma)) / (1 - math.exp(-gamma * (n + 1))) for n in (first, last))
    shares = ((math.exp(-gamma * back), back) for back in range(min(HOTTEST, first + 1)))
    hottest = {first - back: (least * share, most * share) for share, back in shares}
    return Expected(hottest, most * math.exp(-gamma * HOTTEST))


def _hotspot(params: YcsbParams, start: int, count: int) -> Expected:
    hot = int(count * params.hotspotdatafraction)
    operations = params.hotspotopnfraction
    each = operations / hot if hot else 0.0
    cold = (1 - operations) / (count - hot) if count > hot else 0.0
    number = min(hot, HOTTEST)
    hottest = {start + i: (each, each) for i in range(number)} if each > cold else {}
    return Expected(hottest, max(each, cold))


def check_keys(params: YcsbParams, driven: DriverResult) -> list[Check]:
    """Whether the hottest keys were chosen as often as the distribution says.

    Empty where the driver counts no keys, or nothing can be said of them beforehand.
    """
    counted, chosen = driven.key_counts, driven.chosen_count
    if counted is None or not chosen:
        return []
    predicted = expected(params, driven.inserted_count or 0)
    if predicted is None:
        return []
    counts = {_place(one, params): one.count for one in counted}
    wrong = [
        *_far_from(predicted, counts, chosen),
        *_too_hot(predicted, counts, chosen, params.recordcount),
    ]
    looked_at = (
        f"{chosen:,} choices, {len(predicted.hottest) or 'the most frequent'} keys looked at"
    )
    found = "; ".join(wrong[:_SHOWN]) + ("; and more" if len(wrong) > _SHOWN else "")
    said = f"{params.requestdistribution}: {found or looked_at}"
    return [Check("keys", "failed" if wrong else "passed", said)]


def _place(one: KeyCount, params: YcsbParams) -> int:
    """The record's number; of a distance from the newest, as if that were the last loaded."""
    if one.number is not None:
        return one.number
    return params.recordcount - 1 - (one.behind_newest or 0)


def _far_from(predicted: Expected, by_number: Mapping[int, int], chosen: int) -> Iterator[str]:
    """Keys that are to be hot and were chosen too rarely, or too often."""
    # What is not among the keys that were counted was chosen no more often than the last.
    unseen = min(by_number.values(), default=0) if len(by_number) >= COUNTED else 0
    for number, (least, most) in predicted.hottest.items():
        if least < _LEAST_SHARE:
            continue
        seen = by_number.get(number)
        middle = round(chosen * (least + most) / 2)
        count = min(middle, unseen) if seen is None else seen
        if chosen * least <= count <= chosen * most:
            continue
        nearest = least if count < chosen * least else most
        if said := describe_outlier(f"record {number}", count, chosen, nearest):
            yield said


def _too_hot(
    predicted: Expected, by_number: Mapping[int, int], chosen: int, records: int
) -> Iterator[str]:
    """Loaded records that were chosen more often than any but the hottest can be."""
    for number, count in by_number.items():
        known = number in predicted.hottest or number >= records
        if not known and count > chosen * predicted.others:
            share = predicted.others
            if said := describe_outlier(f"record {number}", count, chosen, share, tries=records):
                yield said
