"""What a run adds to the reason of its failure."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.engine import DataDirectories
from harness.errors import RunFailed
from harness.execution import runner
from harness.execution.runner import naming_full_tiers, naming_lost_data
from harness.units import MIB


def tier(name: str, path: str | None = "/mnt") -> Any:
    return SimpleNamespace(name=name, claim=SimpleNamespace(path=path))


@pytest.mark.parametrize(
    ("free_bytes", "named"),
    [({"ssd": 0}, True), ({"ssd": 8192, "pmem": MIB}, True), ({"ssd": MIB}, False), ({}, False)],
)
def test_a_failure_on_a_full_tier_names_it(monkeypatch, free_bytes, named):
    monkeypatch.setattr(runner, "free_now", lambda one: free_bytes.get(one.name))
    tiers = [tier("ssd"), tier("pmem"), tier("dram", path=None)]
    with pytest.raises(RunFailed) as raised, naming_full_tiers(tiers):
        raise RunFailed("connect to PostgreSQL", "FATAL: could not write init file")
    error = raised.value
    assert (os.strerror(errno.ENOSPC) in error.context) == named
    assert ("ssd" in error.context) == named
    assert "pmem" not in error.context
    assert error.context.startswith("FATAL")


def test_a_reason_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "free_now", lambda one: 0)
    reason = os.strerror(errno.ENOSPC)
    with pytest.raises(RunFailed) as raised, naming_full_tiers([tier("ssd")]):
        raise RunFailed("write", f"{reason}: /mnt/file")
    assert raised.value.context.count(reason) == 1
    assert raised.value.context.count("ssd") == 1


@pytest.mark.parametrize("left", ["all", "the directory"])
@pytest.mark.parametrize("also", ["", "the server ended"])
def test_removed_files_are_named(tmp_path: Path, left: str, also: str) -> None:
    data = tmp_path / "data"
    (data / "base").mkdir(parents=True)
    (data / "base" / "1").write_text("rows")
    places = DataDirectories({"data": data})

    def run() -> None:
        with naming_lost_data(lambda: places, None):
            if left == "the directory":
                (data / "base" / "1").unlink()
            if also:
                raise RunFailed("query", also)

    if left == "all" and not also:
        run()
        return
    with pytest.raises(RunFailed) as failure:
        run()
    assert also in failure.value.context
    assert (str(data) in failure.value.context) == (left == "the directory")


def test_what_was_not_restored_yet_is_not_missed() -> None:
    with naming_lost_data(lambda: None, None):
        pass
