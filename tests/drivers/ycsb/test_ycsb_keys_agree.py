"""The keys that the official core workload chooses, beside ours and what is expected of them."""

from __future__ import annotations

import json
import math
import subprocess

import numpy as np
import pytest
from small_ycsb import params

from harness import hdr
from harness.drivers.result import DriverResult, KeyCount
from harness.drivers.ycsb.histograms import STORED
from harness.workloads.ycsb.keys import COUNTED, check_keys, fnv_hash
from harness.workloads.ycsb.params import PROPORTIONS

RECORDS = 20_000
CHOICES = 1_000_000
READS = {name: float(name == "readproportion") for name in PROPORTIONS}
DISTRIBUTIONS = [
    {"requestdistribution": "zipfian"},
    {"requestdistribution": "zipfian", "insertstart": 5000, "insertcount": 15_000},
    {"requestdistribution": "zipfian", "insertorder": "ordered", "zeropadding": 12},
    {"requestdistribution": "latest"},
    {"requestdistribution": "hotspot"},
    {"requestdistribution": "exponential"},
    {"requestdistribution": "uniform"},
]
#: Of two counts of the same share, in standard deviations: of the 700 pairs here one is as far
#: apart in about one run of a million. (The official client's choices have no seed.)
FAR = 6.0


def name(one):
    return "-".join(map(str, one.values()))


def asked(one, **more):
    return params(recordcount=RECORDS, **READS, **one, **more)


def official(java, given):
    """What the official core chooses: counts of its most frequent keys, and of all."""
    same = {n: v for n, v in given.to_json().items() if v is not None}
    lines = java("Choices", {**same, "operationcount": CHOICES}, CHOICES, COUNTED)
    counts = dict(line.split() for line in lines if line.startswith("user"))
    return {key: int(count) for key, count in counts.items()}, CHOICES


def numbers(given):
    """The number of the record of each key, by the official client's names."""
    numbered = np.arange(RECORDS, dtype=np.uint64)
    keys = numbered if given.insertorder == "ordered" else fnv_hash(numbered)
    return {f"user{key:0{given.zeropadding}d}": n for n, key in enumerate(keys.tolist())}


@pytest.mark.parametrize("one", DISTRIBUTIONS, ids=name)
def test_both_clients_choose_what_is_expected(one, java, released_loadgen, tmp_path):
    given = asked(one)
    counts, total = official(java, given)
    known = numbers(given)
    driven = DriverResult(
        "ycsb", "0.17.0", 1, chosen_count=total,
        key_counts=[KeyCount(key, known[key], count) for key, count in counts.items()],
    )  # fmt: skip
    (check,) = check_keys(given, driven)
    assert check.status == "passed", check.detail
    result = by_the_native_client(released_loadgen, given, tmp_path / "empty")
    the_native_client_chooses_the_same_keys_as_often(given, counts, total, result)


def by_the_native_client(program, given, file):
    spec = {
        "schema": 1, "task": "run", "backend": "store",
        "connection": {"file": str(file)},
        "workload": {"name": "ycsb", "params": {
            **given.native_json(), "count_keys": COUNTED,
        }},
        "statements": {"read": "get :key"},
        "threads": 1, "connections": 1, "mode": {"kind": "closed"},
        "ramp_up_ns": 0, "operations": CHOICES, "seed": 7,
    }  # fmt: skip
    done = subprocess.run(
        [program, "-"], input=json.dumps(spec), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def the_native_client_chooses_the_same_keys_as_often(given, theirs, total, result):
    keys = {number: key for key, number in numbers(given).items()}
    ours = {
        one.get("key") or keys[RECORDS - 1 - one["behind_newest"]]: one["count"]
        for one in result["key_counts"]
    }
    assert hdr.decode(result["operations"][0]["latency_hdr"]).layout == STORED
    assert total / 10 < result["draws"] <= total  # of many, every 16th
    scale = total / result["draws"]
    hottest = sorted(theirs, key=theirs.__getitem__, reverse=True)[:100]
    least = min(ours.values())
    for key in hottest:
        # A key that is not among those counted was chosen no more often than the last of them.
        count = ours.get(key, least) * scale
        assert abs(count - theirs[key]) <= FAR * math.sqrt(count * scale + theirs[key]), key
