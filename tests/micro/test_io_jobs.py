"""What a suite says to fio: each thing that is wrong in it, said with its measurement and line."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import UsageError
from harness.micro.io_jobs import FioParams
from harness.store.spec import Json

READ: dict[str, Json] = {"operation": "read", "pattern": "random", "access": "4KiB"}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"runtime": "2s"}, "did you mean 'duration'"),
        ({"measurements": {}}, "no measurements"),
        ({"measurements": [1]}, "[1] is no mapping"),
        ({"measurements": "hello"}, "'hello' is no mapping"),
        ({"measurements": {"r": {"operation": "read", "access": 64}}}, "no pattern"),
        ({"measurements": {"r": READ | {"operation": "raed"}}}, "r: operation 'raed'"),
        ({"measurements": {"r": READ | {"acces": 64}}}, "acces"),
        ({"measurements": {"r": READ | {"access": "large"}}}, "r: access 'large'"),
        ({"measurements": {"r": READ | {"access": 0}}}, "r: access 0"),
        ({"measurements": {"r": READ | {"threads": []}}}, "r: threads: a list of nothing"),
        ({"measurements": {"w": READ | {"operation": "write", "queue_depth": 8, "sync": "fsync"}}},
         "each call waits"),
        ({"measurements": {"r": READ | {"access": 3000, "queue_depth": 8}}},
         "calls go one after the other"),
        ({"measurements": {"r": READ | {"appends": True}}}, "only sequential writes"),
        ({"measurements": {"r": READ | {"cold": True}}}, "only reads through the page cache"),
        ({"measurements": {"r": READ | {"appends": 1}}}, "neither true nor false"),
        ({"measurements": {"r": READ}, "only": ["r"]}, "['r']: not a text"),
        ({"measurements": {"r": READ}, "size": "10MB"}, "must be a multiple"),
        ({"measurements": {"r": READ}, "size": "much"}, "size 'much'"),
        ({"measurements": {"r": READ | {"threads": 512}}, "size": "1MiB"}, "do not fit"),
        ({"duration": "0s", "measurements": {}}, "out of range"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_named(params: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as told:
        FioParams.from_mapping(params)
    assert said in str(told.value)


def test_past_the_page_cache_go_whole_blocks_only() -> None:
    with pytest.raises(UsageError, match="only whole blocks") as told:
        FioParams.from_mapping({"measurements": {"r": READ | {"access": 3000, "direct": True}}})
    assert told.value.problem == "measurement r: access 3000" and "512" in told.value.hint
    fitting: list[dict[str, Json]] = [
        {"access": 512, "direct": True},
        {"access": 3000, "direct": "auto"},
    ]
    for fits in fitting:
        (job,) = FioParams.from_mapping({"measurements": {"r": READ | fits}}).jobs
        assert job.access_bytes == fits["access"]
