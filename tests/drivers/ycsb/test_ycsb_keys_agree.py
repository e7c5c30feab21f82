"""The keys that the official core workload chooses, and those that the native client chooses."""

from __future__ import annotations

import json
import math
import subprocess
from collections import Counter

import pytest
from small_ycsb import params

from harness.workloads.ycsb.params import OFFICIAL, PROPORTIONS

RECORDS = 20_000
CHOICES = 1_000_000
READS = {name: float(name == "readproportion") for name in PROPORTIONS}
DISTRIBUTIONS = [
    {"requestdistribution": "zipfian", "insertstart": 5000, "insertcount": 15_000},
    {"requestdistribution": "zipfian", "insertorder": "ordered", "zeropadding": 12},
    {"requestdistribution": "latest"},
    {"requestdistribution": "hotspot"},
    {"requestdistribution": "exponential"},
]
#: Of two counts of the same share, in standard deviations: of the 500 pairs here one is as far
#: apart in about one run of a million. (The official client's choices have no seed.)
FAR = 6.0


def name(one):
    return "-".join(map(str, one.values()))


def asked(one, **more):
    return params(records=RECORDS, **READS, **one, **more)


@pytest.mark.parametrize("one", DISTRIBUTIONS, ids=name)
def test_both_clients_choose_the_same_keys_as_often(one, java, released_loadgen):
    given = asked(one)
    same = {OFFICIAL.get(n, n): v for n, v in given.to_json().items() if v is not None}
    lines = java("Choices", {**same, "operationcount": CHOICES}, CHOICES, 1000)
    theirs = {key: int(count) for key, count in map(str.split, lines) if key.startswith("user")}
    argv = [
        released_loadgen.parent / "ycsb_keys",
        json.dumps(given.native_json()),
        str(CHOICES),
        "7",
    ]
    ours = Counter(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split())
    for key in sorted(theirs, key=theirs.__getitem__, reverse=True)[:100]:
        assert abs(ours[key] - theirs[key]) <= FAR * math.sqrt(ours[key] + theirs[key]), key
