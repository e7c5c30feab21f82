"""What a suite says to fio: each thing that is wrong in it, said with its measurement and line."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.micro.io_jobs import FioParams
from harness.store.spec import Json

READ: dict[str, Json] = {"operation": "read", "pattern": "random", "access": "4KiB"}


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
