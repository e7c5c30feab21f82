"""The page of a paper: published numbers next to measured ones."""

from pathlib import Path
from typing import Any

import pytest
from explained_runs import baseline_suite
from explained_runs import tpcc as traced_tpcc
from micro_runs import KINDS, micro_run, rate, shown, with_suite
from narrowed import of_kind
from report_runs import Case, driven, metric, with_artifacts, write

from engines._innodb import explain
from harness.query_plan import ExecutedPlan, Operator
from harness.store.documents import members
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from reports.explain.devices import TierSources
from reports.fidelity.page import COMPARED, FigureRuns, page_of, write_paper
from reports.plan_metrics import plan_metrics, plan_summaries
from reports.published import Numbers
from reports.statistics import Missing
from reports.values import Quantity

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
    assert {number.emulated for number in numbers} == {(), (mark,)}
    text = write_paper(page, tmp_path / "out")["markdown"].read_text()
    assert text.startswith("# The paper (MODELLED)") and "EMULATED" not in text
    assert f"100,000 1/min (MODELLED {mark})" in text
    outcomes = {checked.conclusion.number: checked.why for checked in page.conclusions}
    assert outcomes["7.1 (vii)"] == "modelled"


def test_the_page_has_what_the_microbenchmark_predicts_of_the_figures(tmp_path: Path) -> None:
    """A run that is in two figures is in one comparison."""
    runs = [traced_tpcc(tmp_path, placement) for placement in ("ssd-both", "pmem-both")]
    for tier, us in (("ssd", 100.0), ("pmem", 3.0)):
        baseline_suite(tmp_path, tier, dict.fromkeys(("read", "write", "sync"), us))
    figures = [table5(*runs), table5(*runs)]
    assert page_of(PAPER, "The paper", figures).to_json()["explained"]["correlation"]["rows"] == 0
    sources = TierSources.of(Store(tmp_path).runs(), ())
    page = page_of(PAPER, "The paper", figures, sources=sources)
    assert page.to_json()["explained"]["correlation"]["rows"] == 1
    write_paper(page, tmp_path / "out")
    assert (tmp_path / "out/figures/predicted.svg").exists()


# Costs of single operators of stored plans ----------------------------------------


RECORDINGS = Path(__file__).parents[1] / "engines" / "recordings"
#: A plan of TPC-H query 3 in which every time is easy to add up: customer, then its orders by a
#: secondary index, then their lines by the primary key.
QUERY_3 = """\
-> Sort: revenue DESC  (cost=9 rows=9) (actual time=200..200 rows=10 loops=1)
    -> Aggregate using temporary table  (cost=9 rows=9) (actual time=190..190 rows=10 loops=1)
        -> Nested loop inner join  (cost=9 rows=9) (actual time=1..150 rows=400 loops=1)
            -> Nested loop inner join  (cost=9 rows=9) (actual time=1..50 rows=100 loops=1)
                -> Filter: (c_mktsegment = 'X')  (cost=9 rows=9) (actual time=1..10 rows=30 loops=1)
                    -> Table scan on customer  (cost=9 rows=9) (actual time=1..8 rows=150 loops=1)
                -> Filter: (o_orderdate < 1)  (cost=9 rows=9) (actual time=1..1 rows=3 loops=30)
                    -> Index lookup on orders using o_c  (actual time=0.1..0.8 rows=10 loops=30)
            -> Index lookup on lineitem using PRIMARY  (actual time=0.1..0.5 rows=4 loops=100)
"""


def with_plans(run: StoredRun, **plans: ExecutedPlan) -> StoredRun:
    documents = {query.removeprefix("q"): members(plan) for query, plan in plans.items()}
    return with_artifacts(run, {"plans": documents})


def of(query: str, plan: ExecutedPlan) -> dict[tuple[str, str], float]:
    """Metric and relation → ms."""
    metrics = plan_metrics(query, plan.operators)
    return {(q.name, q.label("relation") or ""): value / 1e6 for q, value in metrics.items()}


def test_a_lookup_costs_its_operators_time_over_its_loops() -> None:
    plan = explain.translate_tree(QUERY_3, 210_000_000)
    assert of("3", plan) == pytest.approx({
        ("table_read_ns", "customer"): 8.0,  # the filter's 2 ms are not in it
        ("index_lookup_ns", "orders"): 0.8,
        ("index_lookup_ns", "lineitem"): 0.5,
        ("index_lookup_rows", "orders"): 10e-6,  # rows, divided as times are
        ("index_lookup_rows", "lineitem"): 4e-6,
        # sort 10, aggregate 40, joins 150 - 50 - 100 * 0.5 and 50 - 10 - 30 * 1
        ("plan_behind_scan_ns", ""): 10 + 40 + 50 + 10,
    })  # fmt: skip


def test_a_recorded_plan_of_mysql() -> None:
    text = (RECORDINGS / "mysql-9.7.4-tpch-q20.json").read_text()
    times_ms = of("20", explain.translate_json(text, 189_896_742))
    assert times_ms["table_read_ns", "part"] == pytest.approx(14.704753, rel=1e-6)
    assert times_ms["index_lookup_ns", "lineitem"] == pytest.approx(0.20346495, rel=1e-4)  # of 760
    assert times_ms["index_lookup_ns", "partsupp"] == pytest.approx(0.00589101, rel=1e-4)  # of 190
    assert ("index_lookup_ns", "part") not in times_ms


def test_a_loop_of_a_multi_range_lookup_is_many_lookups() -> None:
    line = "-> {}ndex lookup on lineitem using PRIMARY  (actual time=1..2 rows=9 loops={})\n"
    batch = explain.translate_tree(line.format("Multi-range i", 2), 10**7)
    single = explain.translate_tree(line.format("Single-row covering i", 4), 10**7)
    assert (batch.operators.lookups, single.operators.lookups) == (0, 4)


def test_a_lookup_has_the_kind_of_its_index() -> None:
    """InnoDB's rows are in the primary key's tree (VLDB 2023, §4.3)."""
    text = (RECORDINGS / "mysql-9.7.4-tpch-q20.json").read_text()
    metrics = plan_metrics("20", explain.translate_json(text, 189_896_742).operators)
    kinds = {q.label("relation"): q.label("index") for q in metrics if "lookup" in q.name}
    assert kinds == {"partsupp": "clustered", "lineitem": "secondary", "supplier": "secondary"}
    line = "-> {} lookup on lineitem using {}  (actual time=1..2 rows=9 loops=4)\n"
    for head, name, kind in (
        ("Single-row index", "PRIMARY", "clustered"),
        ("Covering index", "lineitem_fk", "covering"),
    ):
        plan = explain.translate_tree(line.format(head, name), 10**7)
        assert plan.operators.index == kind


@pytest.mark.parametrize(
    ("metric_of", "expected"),
    [("query_pmem_read_bytes /", 12.0), ("query_pmem_read_bytes_per_s /", 6.0)],
)
def test_what_pmem_and_the_ssd_moved_is_one_quotient(tmp_path, metric_of, expected):
    """§4.5.1: of PMem the controllers count it, of the SSD its block device."""
    on_ssd = [metric("query_tier_read_bytes", 1e9, tier="ssd", query="13"),
              metric("query_duration_ns", 10**10, "lower", query="13")]  # fmt: skip
    on_pmem = [metric("query_pmem_read_bytes", 12e9, query="13"),
               metric("query_pmem_read_bytes_per_s", 6e8, query="13")]  # fmt: skip
    runs = [write(tmp_path, Case(placement=place, queries=(13,), metrics=metrics))
            for place, metrics in (("ssd-both", on_ssd), ("pmem-both", on_pmem))]  # fmt: skip
    assert _cell(runs, metric_of) == expected


def test_a_mean_request_is_bytes_over_calls(tmp_path: Path) -> None:
    labels = {"part": "data", "operation": "read", "query": "1"}
    counted = [metric("query_io_bytes", 3e9, **labels),
               metric("query_io_calls_count", 3e4, **labels),
               metric("query_io_calls_count", 5e4, **{**labels, "part": "temp"})]  # fmt: skip
    runs = [write(tmp_path, Case("mysql", queries=(1,), metrics=counted))]
    assert _cell(runs, "query_io_bytes[") == 1e5


def _cell(runs: list[StoredRun], metric_of: str) -> float | None:
    """The first number of this host in the row of this metric."""
    figure = FigureRuns("Section 4.5", "", ("sec4.5.1", "sec4.5.2"), tuple(runs), len(runs))
    (view,) = page_of(PAPER, "The paper", [figure]).figures
    row = next(row for row in view.rows if str(row[3]).startswith(metric_of))
    return of_kind(Numbers, row[-1]).numbers[0].value


def duckdb(scan_ms: int, above_ms: int) -> ExecutedPlan:
    """As DuckDB executes query 1, with planning, which is no operator."""
    scan = Operator("scan", "TABLE_SCAN", 590_000, scan_ms * 10**6, "lineitem")
    projection = Operator("other", "PROJECTION", 590_000, 10**6, None, (scan,))
    groups = Operator("aggregate", "PERFECT_HASH_GROUP_BY", 4, (above_ms - 1) * 10**6)
    groups = Operator(groups.kind, groups.name, 4, groups.time_ns, None, (projection,))
    return ExecutedPlan(groups, 10**9, "{}", clock="scaled", outside_ns={"planning": 25 * 10**6})


def test_the_rest_of_a_plan_is_all_operators_but_scans(tmp_path: Path) -> None:
    assert of("1", duckdb(28, 20))["plan_behind_scan_ns", ""] == 20
    runs = [
        with_plans(write(tmp_path, Case("duckdb", block=k, queries=(1,))), q1=duckdb(30, above))
        for k, above in enumerate((20, 40, 24))
    ]
    (quantity, summary), *rest = plan_summaries(runs, "plan_behind_scan_ns").items()
    assert quantity == Quantity("plan_behind_scan_ns", (("query", "1"),)) and not rest
    assert (summary.n, summary.median, summary.low) == (3, 24e6, 20e6)
