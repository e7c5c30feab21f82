"""``harness runs list`` and selectors: what tells one run from another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from report_runs import Case, metric, write
from typer.testing import CliRunner

from harness.cli.runs import app
from harness.errors import UsageError
from harness.store.runs import Store
from reports.select import select


@pytest.fixture
def results(tmp_path: Path) -> Path:
    tpcc = {"warehouses": 10, "users": 8, "duration": "3m", "rate": None}
    ycsb = {"workload": "b", "records": 1_000_000, "threads": 4, "duration": "60s"}
    for workload, params, driver, metrics in (
        ("tpcc", tpcc, "hammerdb", [metric("new_orders_per_minute", 8840, "higher")]),
        ("tpcc", tpcc | {"test": "durability"}, "loadgen", []),
        ("ycsb", ycsb, "loadgen", [metric("operations_per_second", 123_456, "higher")]),
    ):
        spec = {"workload": workload, "params": params, "driver": driver}
        write(tmp_path, Case(queries=(), metrics=metrics, spec_changes=spec))
    write(tmp_path, Case())
    return tmp_path


def test_a_list_of_runs_shows_what_was_run_and_its_rate(results: Path) -> None:
    done = CliRunner().invoke(app, ["list", "--results", str(results)])
    assert done.exit_code == 0, done.output
    for what, result in (
        ("tpcc, warehouses 10, users 8, duration 3m, hammerdb", "8,840 New-Orders/min"),
        ("tpcc, warehouses 10, users 8, duration 3m, durability, loadgen", ""),
        ("ycsb, core workload b, records 1,000,000, client threads 4, duration 60s, loadgen",
         "123,456 operations/s"),
        ("tpch, scale 1", ""),
    ):  # fmt: skip
        assert re.search(rf"{re.escape(what)}\s+{re.escape(result)}", done.output), what


def test_a_parameter_is_selected_by_its_name_unless_a_field_has_it(results: Path) -> None:
    assert len(select(Store(results), "users=8")) == 2
    assert len(select(Store(results), "params.users=8")) == 2
    with pytest.raises(UsageError, match=r"did you mean 'params\.workload=b'"):
        select(Store(results), "workload=b")
