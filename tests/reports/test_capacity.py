"""Rates that are shares of what the arms do in a closed loop, with runs that are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from narrowed import present
from report_runs import Case, metric, write

from harness.cli.run import RunOptions, plan_of, run
from harness.errors import RunFailed, UsageError
from harness.experiment.profile import Plan
from harness.experiment.selection import SHARES, Capacity, capacity_of
from harness.store.result import ClosedLoop
from harness.store.runs import StoredRun
from harness.workloads.tpcc.params import TpccParams

OPTIONS = RunOptions(engine=["postgres"], placement=["ssd-both", "pmem-both"], name="made-up")


def plan(rates: Sequence[float] = ()) -> Plan:
    return plan_of(TpccParams, OPTIONS, {"rate": rates} if rates else None)


def probes(
    root: Path, per_minute: Mapping[str, float], status: str = "complete"
) -> list[StoredRun]:
    made = []
    for spec in plan().runs:
        changes: dict[str, Any] = {one.name: getattr(spec, one.name) for one in fields(spec)}
        rate = per_minute[present(spec.placement).name]
        values = [metric("transactions_per_minute", rate, "higher")]
        made.append(write(root, Case(status=status, metrics=values, spec_changes=changes)))
    return made


@pytest.fixture
def capacity(tmp_path: Path) -> Capacity:
    return capacity_of(probes(tmp_path, {"ssd-both": 60_000, "pmem-both": 120_000}))


def test_the_slowest_arm_decides_one_rate_for_all(capacity: Capacity) -> None:
    assert capacity.rates([0.7]) == [700]
    found = capacity.within(plan([700]), "rate", [0.7])
    assert [spec.params["rate"] for spec in found.runs] == [700, 700]
    recorded = found.experiment.capacity
    assert recorded == ClosedLoop(1000, capacity.run_ids)


def test_a_curve_goes_on_for_the_faster_arm(capacity: Capacity) -> None:
    rates = capacity.rates(SHARES)
    assert rates == [200, 400, 600, 800, 900, 950, 1200, 1600, 1800, 1900]
    found = capacity.within(plan(rates), "rate", SHARES)
    of_arms: dict[str, list[Any]] = {}
    for spec in found.runs:
        of_arms.setdefault(present(spec.placement).name, []).append(spec.params["rate"])
    assert sorted(of_arms["ssd-both"]) == rates[:6]
    assert sorted(of_arms["pmem-both"]) == rates


def test_an_arm_without_a_result_decides_no_rate(tmp_path: Path) -> None:
    failed = probes(tmp_path, {"ssd-both": 60_000, "pmem-both": 1}, "failed")
    with pytest.raises(RunFailed):
        capacity_of(failed)


@pytest.mark.parametrize(("rate", "curve"), [("0%", 0), ("101%", 0), ("x%", 0), ("70%", 1)])
def test_a_share_that_is_none_or_of_a_curve_is_refused_before_any_run(rate, curve):
    pairs = {"rate": rate}
    with pytest.raises(UsageError):
        run(TpccParams, RunOptions(engine=["postgres"], pairs=pairs, load_curve=bool(curve)))
