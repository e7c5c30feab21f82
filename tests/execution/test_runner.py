"""What a run adds to the reason of its failure."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import RunFailed
from harness.execution import runner
from harness.execution.runner import naming_full_tiers
from harness.units import MIB


def tier(name: str, path: str | None = "/mnt") -> Any:
    return SimpleNamespace(name=name, claim=SimpleNamespace(path=path))


@pytest.mark.parametrize(
    ("free_bytes", "named"),
    [({"ssd": 0}, True), ({"ssd": 8192, "pmem": MIB}, True), ({"ssd": MIB}, False), ({}, False)],
)
def test_a_failure_on_a_full_tier_names_it(
    monkeypatch: pytest.MonkeyPatch, free_bytes: dict[str, int], named: bool
) -> None:
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
