"""How often keys are to be chosen, and what is found where they are not."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from narrowed import present

from harness.drivers.result import DriverResult, KeyCount
from harness.workloads.ycsb.keys import COUNTED, check_keys, expected, fnv_hash, zeta_of, zipfian
from harness.workloads.ycsb.params import YcsbParams

DRAWS = 20_000
RECORDS = 1_000


def params(**more):
    return YcsbParams.from_mapping({"recordcount": RECORDS, "readproportion": 1, **more})


def gray(uniform: float, items: int, zeta: float) -> int:
    """The rank that Gray et al. (SIGMOD 1994) draw from a uniform number, theta 0.99."""
    theta = 0.99
    if uniform * zeta < 1:
        return 0
    if uniform * zeta < 1 + 0.5**theta:
        return 1
    eta = (1 - (2 / items) ** (1 - theta)) / (1 - (1 + 0.5**theta) / zeta)
    return int(items * (eta * uniform - eta + 1) ** (1 / (1 - theta)))


def fnv(number: int) -> int:
    """``Utils.fnvhash64``, octet by octet."""
    found = 0xCBF29CE484222325
    for _ in range(8):
        found = (found ^ (number & 0xFF)) * 1_099_511_628_211 % 2**64
        number >>= 8
    return abs(found - 2**64 if found >= 2**63 else found)


@cache
def drawn(kind: str) -> Counter[int]:
    """Numbers of records, drawn one by one as the generators do."""
    source = random.Random(1)
    newest = RECORDS - 1
    zeta = zeta_of(newest)

    def one() -> int:
        if kind == "zipfian":
            rank = gray(source.random(), 10_000_000_001, 26.46902820178302)
            return fnv(rank) % (RECORDS + 1)
        if kind == "latest":
            return newest - gray(source.random(), newest, zeta)
        if kind == "hotspot":
            hot = source.random() < 0.8
            return source.randrange(200) if hot else 200 + source.randrange(800)
        if kind == "exponential":
            gamma = -math.log(0.05) / (RECORDS * 0.8571428571)
            return newest - int(-math.log(1 - source.random()) / gamma)
        return source.randrange(RECORDS)

    counts: Counter[int] = Counter()
    while counts.total() < DRAWS:
        if 0 <= (number := one()) <= newest:
            counts[number] += 1
    return counts


def driven(counts: Counter[int], inserted: int = 0) -> DriverResult:
    hottest = [KeyCount(f"user{n}", n, count) for n, count in counts.most_common(COUNTED)]
    return DriverResult(
        "loadgen",
        "1",
        10**9,
        key_counts=hottest,
        chosen_count=counts.total(),
        inserted_count=inserted,
    )


def test_the_hash_is_fnv_1a_over_eight_octets():
    numbers = [0, 1, 255, 256, 10**10, 2**62]
    assert fnv_hash(np.array(numbers, dtype=np.uint64)).tolist() == [fnv(n) for n in numbers]


def test_zeta_of_many_is_the_sum():
    count = 3_000_000
    assert zeta_of(count) == pytest.approx(math.fsum(i**-0.99 for i in range(1, count + 1)))


def test_the_shares_of_ranks_add_up():
    assert zipfian(1000, zeta_of(1000), 1000).sum() == pytest.approx(1)


@pytest.mark.parametrize("kind", ["zipfian", "latest", "hotspot", "exponential", "uniform"])
def test_what_is_drawn_as_it_should_be_passes_and_as_another_fails(kind):
    counts = drawn(kind)
    (check,) = check_keys(params(requestdistribution=kind), driven(counts))
    assert (check.name, check.status) == ("keys", "passed"), check.detail
    for other in {"zipfian", "latest", "hotspot", "exponential"} - {kind}:
        (check,) = check_keys(params(requestdistribution=other), driven(counts))
        assert check.status == "failed", other


@pytest.mark.parametrize("kind", ["latest", "exponential"])
def test_distances_from_the_newest_record_are_what_is_expected_of_them(kind):
    back = Counter({RECORDS - 1 - n: count for n, count in drawn(kind).items()})
    for shifted, status in ((0, "passed"), (1, "failed")):
        told = [KeyCount(count=n, behind_newest=b + shifted) for b, n in back.most_common(COUNTED)]
        seen = replace(driven(drawn(kind)), key_counts=told)
        (check,) = check_keys(params(requestdistribution=kind), seen)
        assert check.status == status, check.detail


def test_keys_that_are_hot_but_not_the_right_ones_are_found():
    counts = Counter({(n + 1) % RECORDS: count for n, count in drawn("zipfian").items()})
    (check,) = check_keys(params(requestdistribution="zipfian"), driven(counts))
    assert check.status == "failed"
    assert "record " in check.detail


def test_a_few_draws_prove_nothing_and_fail_nothing():
    few = Counter(dict(drawn("zipfian").most_common(3)))
    few = Counter(dict.fromkeys(few, 1))
    (check,) = check_keys(params(requestdistribution="zipfian"), driven(few))
    assert check.status == "passed"


def test_what_is_not_drawn_or_not_told_is_not_checked():
    in_turn = params(requestdistribution="sequential")
    assert expected(in_turn, inserted=0) is None
    assert check_keys(in_turn, driven(drawn("uniform"))) == []
    assert check_keys(params(requestdistribution="latest"), DriverResult("ycsb", "1", 10**9)) == []


@pytest.mark.parametrize("kind", ["latest", "exponential"])
def test_among_more_records_the_newest_have_no_more(kind):
    mixed = params(requestdistribution=kind, insertproportion=0.05)
    (alone, _), *_ = present(expected(mixed, inserted=0)).hottest.values()
    (least, most), *_ = present(expected(mixed, inserted=200)).hottest.values()
    assert least < most == alone
    assert check_keys(mixed, driven(drawn(kind), inserted=200))[0].status == "passed"


def test_records_that_are_inserted_take_from_those_that_were_there():
    mixed = params(requestdistribution="zipfian", insertproportion=0.05, operationcount=10_000)
    least, most = next(iter(present(expected(mixed, inserted=500)).hottest.values()))
    assert least < most < 1.5 * least
