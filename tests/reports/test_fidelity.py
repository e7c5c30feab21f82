"""The page of a paper, of made-up runs: published next to measured, with what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from micro_runs import KINDS, micro_run, rate, shown, with_suite
from narrowed import of_kind
from report_runs import Case, driven, metric, write

from harness.store.runs import StoredRun
from reports.fidelity.page import COMPARED, FigureRuns, page_of, write_paper
from reports.published import Numbers
from reports.statistics import Missing

PAPER = "nvm-for-databases"


def tpcc(root: Path, placement: str, per_minute: float, **changes: Any) -> StoredRun:
    spec = driven("tpcc", warehouses=10, users=8)
    metrics = [metric("new_orders_per_minute", per_minute, "higher")]
    case = Case(placement=placement, queries=(), metrics=metrics, spec_changes=spec, **changes)
    return write(root, case)


def table5(*runs: StoredRun, **more: Any) -> FigureRuns:
    return FigureRuns("Table 5", "harness experiment run x", ("table5",), runs, 40, **more)


def test_published_numbers_stand_next_to_those_of_this_host(tmp_path: Path) -> None:
    runs = [tpcc(tmp_path, "ssd-both", 100e3), tpcc(tmp_path, "pmem-both", 200e3)]
    left_out = (("postgres, users 16, ssd-both", "over the budget"),)
    (view,) = page_of(PAPER, "The paper", [table5(*runs, left_out=left_out)]).figures
    rows = {(row[1], row[2]): tuple(map(shown, row[4:])) for row in view.rows}
    assert rows["postgres/ssd-both", "8"] == ("170,800 1/min ± 50 1/min", 100e3)
    assert rows["postgres/pmem-both", "8"][1] == 200e3
    assert rows["sqlserver/ssd-both", "8"][1] == Missing("no-counterpart")
    assert (view.done, view.of.planned, view.measured) == (2, 40, 2)
    (row,) = (dict(zip(COMPARED, row, strict=True)) for row in view.compared)
    assert row["measured on"] == "pmem-both against ssd-both"
    assert (row["published"], row["speed-up"]) == ("2.05×", "2.00×")  # 350.6 over 170.8
    assert row["verdict"] == "not resolvable"
    page = view.to_json()
    assert page["left_out"] == [{"what": left_out[0][0], "why": "over the budget"}]
    number = {"value": 100e3, "unit": "1/min", "emulated": [], "name": "", "high": None}
    assert page["published"][0]["measured here"] == {"numbers": [number], "conditions": []}


def test_a_failed_run_has_no_number(tmp_path: Path) -> None:
    failed = tpcc(tmp_path, "ssd-both", 100e3, status="failed")
    (view,) = page_of(PAPER, "The paper", [table5(failed)]).figures
    assert view.done == view.measured == 0


def test_a_cell_that_says_what_it_needs_is_no_number(tmp_path: Path) -> None:
    labels: dict[str, Any] = {"pattern": "random", "access_size_bytes": 64, "threads": 1}
    chase = micro_run(tmp_path, [rate("bandwidth", 1.0, **KINDS["load"], **labels)], tier="pmem")
    run = with_suite(chase, "pmem-io-primitives", ["fig3"])
    figure = FigureRuns("Fig 3", "", ("fig3",), (run,), 1)
    (view,) = page_of("pmem-io-primitives", "DaMoN", [figure]).figures
    assert "needs" in [of_kind(Missing, row[-1]).code for row in view.rows]
    assert view.measured == 0


def test_numbers_of_a_modelled_tier_name_the_model_and_its_score(tmp_path: Path) -> None:
    runs = [tpcc(tmp_path, placement, 1e5, run_changes={"modelled": ["pmem: a-disk"]})
            for placement in ("ssd-both", "ssd-data-pmem-wal")]  # fmt: skip
    page = page_of(PAPER, "The paper", [table5(*runs)])
    mark = "pmem by the model a-disk (not scored on this host)"
    numbers = [cell.numbers[0] for view in page.figures for row in view.rows
               if isinstance(cell := row[-1], Numbers)]  # fmt: skip
    assert {one.emulated for one in numbers} == {(), (mark,)}
    text = write_paper(page, tmp_path / "out")["markdown"].read_text()
    assert text.startswith("# The paper (MODELLED)") and "EMULATED" not in text
    assert f"100,000 1/min (MODELLED {mark})" in text
    outcomes = {one.conclusion.number: one.why for one in page.conclusions}
    assert outcomes["7.1 (vii)"] == "modelled"
