"""Parameters are the ones that qgen draws."""

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.workloads.tpch.qgen import SEEDS, parameters

RECORDING = Path(__file__).parent / "recordings" / "qgen-2.17.3.tsv"
RECORDED = [
    line.split("\t") for line in RECORDING.read_text().splitlines() if not line.startswith("#")
]


def flat(values):
    return [item for v in values.values() for item in (v if isinstance(v, list) else [v])]


@pytest.mark.parametrize("line", RECORDED, ids=lambda line: f"seed{line[0]}-q{line[2]}")
def test_parameters_of_a_seed_are_those_of_qgen(line):
    seed, scale, query, *expected = line
    assert flat(parameters(int(query), int(seed), float(scale))) == expected


def test_the_fraction_of_query_11_follows_the_scale():
    assert parameters(11, None, 1)["fraction"] == "0.0001000000"
    assert parameters(11, None, 100)["fraction"] == "0.0000010000"


@pytest.mark.parametrize("seed", [0, 2**31 - 1, -1])
def test_a_fixed_point_of_the_generator_is_refused(seed):
    assert seed not in SEEDS
    with pytest.raises(UsageError, match="not a seed"):
        parameters(7, seed, 1)
