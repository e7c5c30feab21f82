"""Reports on TPC-C and YCSB: sweeps, rates, percentiles, counters."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from narrowed import of_kind, present
from report_runs import (
    PLACES,
    Case,
    csv_rows,
    driven,
    interleaved,
    lognormal,
    metric,
    report,
    tables,
    tier_document,
    write,
)

from harness import paths
from harness.store.runs import StoredRun
from reports.compare import compare
from reports.compare_output import to_json
from reports.published import PublishedPoint, PublishedSeries, published_points, read_published
from reports.report import Report
from reports.sections import Paragraph, Table, plain
from reports.series import compared_dimension, panels
from reports.sweeps import Sweep, side_by_side, sweeps
from reports.tables import PanelTables, window_titles
from reports.values import Quantity

PUBLISHED = paths.data_folder("profiles") / "papers/nvm-for-databases/published.csv"
USERS = (8, 32, 128)


def tpcc(
    root: Path, placement: str, users: int, per_minute: float, params: Any = None, **changes: Any
) -> StoredRun:
    """A finished run of so many users, whose connections and client threads are as many."""
    usual = {"warehouses": 10, "users": users, "connections": users, "client_threads": users // 8}
    spec = driven("tpcc", **usual | (params or {}))
    rate = metric("new_orders_per_minute", per_minute, "higher")
    case = Case(placement=placement, queries=(), metrics=[rate], spec_changes=spec, **changes)
    return write(root, case)


def over_users(runs: Sequence[StoredRun]) -> Sweep:
    made = sweeps(panels(runs, "placement", None))
    (sweep,) = (sweep for sweep in made if sweep.parameter == "params.users")
    return sweep


@pytest.fixture
def figure5(tmp_path: Path) -> list[StoredRun]:
    """Three numbers of users on two placements, twice each: PMem doubles, SSD saturates."""
    return [
        tpcc(tmp_path, place, users, rate * (1 + 0.02 * block), block=block, emulated=marks)
        for block in (0, 1)
        for users in USERS
        for place, rate, marks in (("ssd-both", 1000, False), ("pmem-both", 100 * users, True))
    ]


def test_a_line_goes_through_the_panels_of_every_number_of_users(figure5):
    """Facts that follow from the users (connections, client threads) make no line of their own."""
    sweep = over_users(figure5)
    assert sweep.values == USERS
    ssd, pmem = sweep.lines
    assert (ssd.name, ssd.marked_name) == ("ssd-both", "ssd-both")
    assert (pmem.name, pmem.marked_name) == ("pmem-both", "pmem-both (EMULATED)")
    assert {users: s.median for users, s in pmem.points.items()} == pytest.approx(
        {8: 808, 32: 3232, 128: 12928}
    )
    assert {s.n for s in ssd.points.values()} == {2}
    assert (ssd.points[8].low, ssd.points[8].high) == (1000, 1020)


def test_connections_that_are_varied_by_themselves_stay_apart(tmp_path: Path) -> None:
    runs = [
        tpcc(tmp_path, "ssd-both", 32, per_minute, params={"connections": connections})
        for connections, per_minute in ((32, 500.0), (16, 400.0))
    ]
    medians = {line.name: line.points[32].median for line in over_users(runs).lines}
    assert medians == {"ssd-both, connections 32": 500, "ssd-both, connections 16": 400}


def test_the_first_line_says_where_most_is_gained(tmp_path: Path) -> None:
    """PMem gains 2, 4 and 2.1 times at 1, 8 and 32 users: the largest gain is shown."""
    noise = [1, 1.01, 0.99, 1.02, 0.98, 1.03, 0.97, 1.04]
    runs = [
        tpcc(tmp_path, placement, users, 1000 * more * noise[block], block=block)
        for block in range(8)
        for users, gain in ((1, 2.0), (8, 4.0 + block / 100), (32, 2.1))
        for placement, more in (("ssd-both", 1.0), ("pmem-both", gain))
    ]
    first = str(next(Report(runs).answer_blocks()))
    assert first.index("pmem-both") < first.index("8 users") < first.index("32 users")
    assert "32 users (2.10×, by 1.9" in first and "1 user (2.00×, by 2.0" in first
    ssd, pmem = ([run for run in runs if run.spec.where == place] for place in PLACES)
    (gains,) = to_json(compare(ssd, pmem))["gains_most"]
    assert (gains["parameter"], gains["b"], gains["engine"]) == ("users", "pmem-both", "postgres")
    assert [gain["value"] for gain in gains["gains"]] == [8, 32, 1]
    most, *others = gains["gains"]
    assert most["interval"][0] > 3.9 and most["times_smaller"] is None
    assert all(1.8 < gain["times_smaller"]["ratio"] < 2.1 for gain in others)


def test_runs_on_another_block_size_are_no_repeats_of_one_another(tmp_path: Path) -> None:
    """Table 6. Whatever the tier is called, the kernel's word tells them apart."""
    runs = []
    for block, size in enumerate((1024, 1024, 4096, 4096)):
        tier = tier_document("pmem_nodax", emulated=False)
        tier["facts"]["block_size_bytes"] = size
        changes = {"tiers": [tier]}
        runs.append(tpcc(tmp_path, "pmem_nodax-both", 8, 1000.0 + size, block=block,
                         manifest_changes=changes))  # fmt: skip
    (panel,) = panels(runs, "placement", None)
    assert {
        (len(arm.runs), arm.points[Quantity("new_orders_per_minute")].summary.n)
        for arm in panel.arms
    } == {(2, 2)}
    assert all("block_size_bytes" in arm.name for arm in panel.arms), panel.arms
    markdown = Report(runs).write(tmp_path / "report").markdown.read_text()
    assert "blocks of 1 KiB" in markdown and "blocks of 4 KiB" in markdown


@pytest.mark.draws
def test_the_report_has_chart_table_and_the_paper_s_points(figure5, tmp_path):
    published = read_published(PUBLISHED, ("fig5", "table5"))
    files = Report(figure5, published=published).write(tmp_path / "report")
    html, markdown = files.html.read_text(), files.markdown.read_text()
    title = "New-Orders per minute, TPC-C-derived over users: postgres 18.4"
    assert title in html and f"## {title}" in markdown
    assert "(figures/sweep-1.svg)" in markdown
    drawn = (tmp_path / "report/figures/sweep-1.svg").read_text()
    assert "table5: pmem-both as published" in drawn and "pmem-both (EMULATED)" in drawn
    assert "mysql" not in drawn and "sqlserver" not in drawn
    results = re.findall(r"(?m)^## Results: (.*)$", markdown)
    assert results == [f"postgres 18.4, warehouses 10, users {users}" for users in USERS]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in markdown.splitlines()
            if line.startswith("| table5")]  # fmt: skip
    by_point = {(row[1], row[2]): (row[4], row[5]) for row in rows}
    assert by_point["postgres/pmem-both", "128"] == (
        "1,088,400 1/min ± 50 1/min", "12,900 1/min (EMULATED)",
    )  # fmt: skip
    assert by_point["postgres/ssd-both", "16"][1] == "–"  # 16 users were not measured
    assert by_point["sqlserver/ssd-both", "8"] == ("385,200 1/min ± 50 1/min", "–")
    (ratio,) = [line for line in markdown.splitlines() if "pmem-both over ssd-both | 128" in line]
    assert ratio.split("|")[-2].strip() == "12.8 (EMULATED)"
    assert "taken as thousands" in markdown and "taken as thousands" in html


@pytest.mark.draws
def test_a_load_curve_is_one_picture_of_the_main_operations_99th_percentile(tmp_path):
    """The faster arm goes on to higher rates, as ``--load-curve`` offers them."""
    runs = []
    for placement, rates in (("ssd-both", (200, 400)), ("pmem-both", (200, 400, 800))):
        for rate in rates:
            times = [
                metric(
                    "transaction_duration_ns", lognormal(ns * rate, rate), "lower", transaction=name
                )
                for name, ns in (("new_order", 1e4), ("payment", 1e3))
            ]
            spec = driven("tpcc", warehouses=10, users=8, rate=rate)
            case = Case(placement=placement, queries=(), metrics=times, spec_changes=spec)
            runs.append(write(tmp_path, case))
    (sweep,) = sweeps(panels(runs, "placement", None))
    assert sweep.offered and sweep.parameter == "params.rate"
    labels = (("transaction", "new_order"), ("percentile", "99"))
    assert sweep.measured.quantity == Quantity("transaction_duration_ns", labels)
    assert {line.name: [*line.points] for line in sweep.lines} == {
        "ssd-both": [200, 400], "pmem-both": [200, 400, 800],
    }  # fmt: skip
    for line in sweep.lines:
        medians = [point.median for point in line.points.values()]
        assert medians == sorted(medians)
    Report(runs).write(tmp_path / "report")
    drawn = (tmp_path / "report/figures/sweep-1.svg").read_text()
    assert "ssd-both" in drawn and "pmem-both" in drawn
    assert not (tmp_path / "report/figures/sweep-2.svg").exists()


# The paper's numbers --------------------------------------------------------------


def test_arms_are_compared_at_each_value_of_a_list_within_them(tmp_path: Path) -> None:
    runs = [
        tpcc(tmp_path, "ssd-both", users, per_minute, label=label)
        for label, per_minute in (("a", 1000.0), ("b", 2000.0))
        for users in (1, 8)
    ]
    made = panels(runs, None, None)
    assert [[(g.a.name, g.b.name) for g in panel.groups] for panel in made] == [[("a", "b")]] * 2
    groups = compare(runs[:2], runs[2:], ["arm"]).groups
    assert [group.context["params.users"] for group in groups] == ["1", "8"]


def test_arms_and_placements_of_other_runs_are_compared_in_one_report(tmp_path: Path) -> None:
    runs = [
        tpcc(tmp_path, "ssd-both", 8, 1000.0, label="a"),
        tpcc(tmp_path, "ssd-both", 8, 2000.0, label="b", params={"client_threads": 2}),
        tpcc(tmp_path, "ssd-both", 8, 1000.0),
        tpcc(tmp_path, "pmem-both", 8, 2000.0),
    ]
    made = panels(runs, None, None)
    assert [(panel.over, [(g.a.name, g.b.name) for g in panel.groups]) for panel in made] == [
        ("placement", [("ssd-both", "pmem-both")]),
        ("arm", [("a", "b")]),
    ]
    assert len({panel.title for panel in made}) == 2


# What a report says of runs of transactions ---------------------------------------


PARAMS = {"warehouses": 10, "users": 8, "think_time": False, "rate": None,
          "mix": "deck", "connections": 8, "duration": "3m"}  # fmt: skip


def tpcc_metrics(rate: float, seed: int) -> list[dict[str, Any]]:
    return [
        metric("new_orders_per_minute", rate, "higher"),
        metric("transactions_per_minute", rate * 2.3, "higher"),
        *(metric("transaction_duration_ns", lognormal(60e9 / rate * factor, seed, 0.5), "lower",
                 transaction=name) for name, factor in (("new_order", 8), ("payment", 4))),
        metric("server_cpu_per_transaction_ns", 5e5, "lower"),
        *(metric("transaction_count", count, transaction=name)
          for name, count in (("new_order", 450), ("payment", 500))),
        metric("transaction_rolled_back_count", 50, transaction="new_order"),
        metric("window_duration_ns", 60_000_000_000),
        metric("window_postgres_wal_bytes", 1024 * 1000),
        metric("window_dram_read_bytes_per_s", 1 << 30),
        metric("window_tier_read_bytes", 1 << 30, tier="ssd"),
    ]  # fmt: skip


def tpcc_runs(root: Path, blocks: int, gain: float, **changes: Any) -> list[StoredRun]:
    arms = interleaved(
        root,
        lambda p, k: tpcc_metrics(10_000 * (gain if p == PLACES[1] else 1) * (1 + 0.01 * k), k),
        blocks,
        spec_changes=driven("tpcc", **PARAMS),
        **changes,
    )
    return [run for pair in zip(*arms, strict=True) for run in pair]


def test_the_verdict_is_read_from_the_new_orders_and_the_bars_show_them(tmp_path: Path) -> None:
    made = tpcc_runs(tmp_path, 7, 1.5)
    files, html = report(made, tmp_path)
    ((_, group),) = Report(made).answers
    row = present(group.deciding)
    assert (row.quantity.name, group.verdict) == ("new_orders_per_minute", "faster")
    assert f"{row.ratio:.2f}" == "1.50"
    names = {path.stem for path in files.figures}
    assert "1-postgres-18-4-warehouses-10-users-8-rate" in names
    assert "1-postgres-18-4-warehouses-10-users-8-transaction-duration-ns" in names
    assert "tpmC" not in html
    times = [row for row in csv_rows(files.csv) if row["metric"] == "transaction_duration_ns"]
    assert {row["labels"] for row in times} == {
        f"transaction={name};percentile={percent}"
        for name in ("new_order", "payment")
        for percent in ("50", "95", "99", "99.9")
    }


def test_what_the_window_counted_is_one_table_with_a_column_for_each_transaction(tmp_path):
    made = tpcc_runs(tmp_path, 2, 1.5)
    (panel,) = Report(made).panels
    window = of_kind(Table, next(PanelTables(panel).counters))
    at = window.head.index("each transaction, ssd-both")
    each = {row[0]: row[at] for row in window.rows}
    # 1,000 transactions were done: 450 and 500 were committed, 50 rolled back as they should.
    assert each["postgres wal"] == "1 KiB"
    assert each["bytes read from the tier's device, tier ssd"] == "1.02 MiB"
    assert each["length of the window"] == each["DRAM read bandwidth"] == "–"


def with_hammerdb(root: Path, *more: dict[str, Any]) -> dict[str, Any]:
    """The 95th percentile of new orders by HammerDB, which has no histograms."""
    remaining = [m for m in tpcc_metrics(9000, 0) if m["name"] != "transaction_duration_ns"]
    other = driven("tpcc", **PARAMS) | {"driver": "hammerdb"}
    made = [
        *tpcc_runs(root, 1, 1.5)[:1],
        write(root, Case(metrics=[*remaining, *more], spec_changes=other)),
    ]
    view = Report(made, over="driver")
    assert any(s.ready_made for s in view.agreements[0].spreads) == bool(more)
    (table,) = (
        table
        for table in tables(PanelTables(view.panels[0]).results).values()
        if any(row[0] == "new order, percentile 95" for row in table.rows)
    )
    (row,) = (row for row in table.rows if row[0] == "new order, percentile 95")
    return dict(zip(table.head, map(plain, row), strict=True))


def test_a_driver_without_percentiles_has_an_empty_row(tmp_path: Path) -> None:
    row = with_hammerdb(tmp_path)
    assert (row["hammerdb"], row["n"]) == ("–", "1, 0")


def test_ready_made_percentiles_are_marked_and_compared(tmp_path: Path) -> None:
    labels = {"transaction": "new_order", "percentile": "95"}
    row = with_hammerdb(tmp_path, metric("transaction_percentile_ns", 9e7, "lower", **labels))
    assert row["hammerdb"] == "90 ms ‡" and row["times better"].endswith("×")


def test_durability_is_separate_from_speed(tmp_path: Path) -> None:
    asked = [{"name": "durability", "status": "passed", "detail": "", "labels": {"of": name}}
             for name in ("new_order", "payment")]  # fmt: skip
    metrics = [
        metric("recovery_duration_ns", 2e9, "lower"),
        metric("journal_committed_count", 1234, transaction="new_order"),
    ]
    spec = driven("tpcc", **PARAMS | {"test": "durability"})
    lost = [asked[0], asked[1] | {"status": "failed", "detail": "3 are not there"}]
    made = [
        write(tmp_path, Case(metrics=metrics, spec_changes=spec, run_changes={"checks": asked})),
        write(tmp_path, Case(status="failed", block=1, spec_changes=spec,
                             run_changes={"checks": lost})),
    ]  # fmt: skip
    (row,) = tables(Report(made).blocks())["Commits after a kill"].rows
    assert row[1:] == ("ssd-both", "1 of 2", "1234 new order", "2 s", "–")


# What a report says of YCSB -------------------------------------------------------


MIXES = {"a": ("read", "update"), "c": ("read",)}


def ycsb_metrics(core: str, per_second: float, inside: bool) -> list[dict[str, Any]]:
    kinds = MIXES[core]
    spent = ("process",) if inside else ("client", "server")
    return [
        metric("operations_per_second", per_second, "higher"),
        *(metric("operation_duration_ns", lognormal(1e9 / per_second * place, 7, count=2000),
                 "lower", operation=kind) for place, kind in enumerate(kinds, 1)),
        *(metric("operation_count", 500, operation=kind) for kind in kinds),
        *(metric(f"{side}_cpu_per_operation_ns", 900, "lower") for side in spent),
        metric("window_rocksdb_block_cache_hit_count", 700 * len(kinds)),
        metric("window_rocksdb_stall_ns", 0),
        metric("window_cpu_ns", 0),
    ]  # fmt: skip


def ycsb(
    root: Path, core: str = "a", threads: int = 8, placement: str = "ssd-both", gain: float = 1.0,
    driver: str = "loadgen", block: int = 0, inside: bool = True, mode: str = "Default",
    **params: Any,
) -> StoredRun:  # fmt: skip
    """A finished run of one core workload; so many threads have so many times the rate."""
    given = {"workload": core, "records": 1_000_000, "threads": threads, "rate": None,
             "requestdistribution": "zipfian", "update": "blind",
             "client_threads": threads}  # fmt: skip
    return write(root, Case(
        "rocksdb" if inside else "postgres", placement, block, queries=(),
        emulated=placement.startswith("pmem"),
        metrics=ycsb_metrics(core, 10_000 * threads * gain, inside),
        run_changes={"host_mode": mode},
        spec_changes=driven("ycsb", **given | params) | {"driver": driver},
    ))  # fmt: skip


@pytest.fixture(scope="module")
def sweep_runs(undrawn: None, tmp_path_factory: pytest.TempPathFactory) -> list[StoredRun]:
    """Runs of a sweep over threads, of which a report can be written."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [
        ycsb(folder, core, threads, placement, gain)
        for core in MIXES
        for threads in (8, 48)
        for placement, gain in zip(PLACES, (1.0, 2.0), strict=True)
    ]
    assert Report(runs).write(folder / "report").figures
    return runs


def test_rates_and_times_over_threads_have_a_place_for_each_core_workload(sweep_runs):
    """VLDB 2023, Fig. 11 and 12: rate, time of a read, time of an update; one line a placement."""
    groups = side_by_side(sweeps(panels(sweep_runs, "placement", None)))
    shown = {group[0].measure: [sweep.place_name for sweep in group] for group in groups}
    both, alone = ["core workload a", "core workload c"], ["core workload a"]
    assert shown == {"operations per second": both} | {
        f"time of an operation: {kind}, {what}": places
        for kind, places in (("read", both), ("update", alone))
        for what in ("percentile 50", "percentile 99", "mean")
    }
    for sweep in groups[0]:
        assert [line.marked_name for line in sweep.lines] == ["ssd-both", "pmem-both (EMULATED)"]
        assert sweep.values == (8, 48)
        assert sweep.lines[1].points[48].median == 960_000
        assert (sweep.at(1), sweep.at(48)) == ("1 client thread", "48 client threads")


def test_what_the_window_counted_is_shown_for_each_operation(tmp_path: Path) -> None:
    made = [ycsb(tmp_path, placement=place) for place in PLACES]
    window, still, *_ = PanelTables(Report(made).panels[0]).counters
    window = of_kind(Table, window)
    at = window.head.index("each operation, ssd-both")
    each = {row[0]: row[at] for row in window.rows}
    assert each["rocksdb block cache hit"] == "1.40"  # of 500 reads and 500 updates
    assert "rocksdb stall" not in each and "1 counter" in plain(of_kind(Paragraph, still).text)
    # Nothing was counted in ticks of 10 ms: that is no processor time of 0.
    medians = {row[0]: row[1] for row in window.rows}
    assert (medians["processor time"], each["processor time"]) == ("< 10 ms", "–")
    names = ("window_rocksdb_read_bytes", "window_rocksdb_read_count", "window_cpu_ns")
    assert window_titles([Quantity(name) for name in names]) == [
        "rocksdb read (bytes)", "rocksdb read (count)", "processor time",
    ]  # fmt: skip


def test_drivers_of_the_same_load_are_compared_without_a_verdict_on_tiers(tmp_path):
    made = [
        ycsb(tmp_path, placement=place, driver=driver, gain=gain, block=block)
        for block in (0, 1)
        for place in PLACES
        for driver, gain in (("loadgen", 2.0), ("ycsb", 1.0))
    ]
    view = Report(made)
    assert sorted("pmem-both" in agreement.where for agreement in view.agreements) == [False, True]
    assert [agreement.ratio for agreement in view.agreements] == pytest.approx([0.5, 0.5])
    for agreement in view.agreements:
        names = (agreement.group.a.name, agreement.group.b.name, agreement.row.quantity.name)
        assert names == ("loadgen", "ycsb", "operations_per_second")
        assert [spread.rows for spread in agreement.spreads] == [8]
    over = Report(made, over="driver")
    assert len(over.agreements) == 2 and over.answers == []


def test_a_papers_points_find_the_place_that_they_name(sweep_runs: list[StoredRun]) -> None:
    (by_place,) = [group for group in side_by_side(sweeps(panels(sweep_runs, "placement", None)))
                if group[0].metric == "operations_per_second"]  # fmt: skip
    series = [
        PublishedSeries("fig11", "rocksdb", arm, "1/s", (PublishedPoint("48", 2e5, 1e4),),
                        "operations_per_second")
        for arm in ("pmem-both,workload=a", "pmem-both")
    ]  # fmt: skip
    assert [line.name for line, _ in published_points(by_place[0], series)] == ["pmem-both"]
    assert list(published_points(by_place[1], series)) == []  # workload c; no workload is no place


def test_what_varies_between_workloads_alone_is_not_compared(tmp_path: Path) -> None:
    queries = write(tmp_path, Case(engine="rocksdb"))
    assert compared_dimension([ycsb(tmp_path), queries]) == "placement"
    cached = ycsb(tmp_path, cache="warm"), ycsb(tmp_path, cache="cold-per-run")
    assert compared_dimension([*cached, queries]) == "cache"


def test_lines_of_one_placement_in_two_host_modes_are_distinguished(tmp_path: Path) -> None:
    """VLDB 2023, Fig. 11: Default and Memory mode are both on the SSD."""
    made = [ycsb(tmp_path, threads=n, mode=mode) for mode in ("Default", "Memory") for n in (8, 48)]
    (first, *_) = sweeps(panels(made, "placement", None))
    names = {f"ssd-both, host mode {mode}" for mode in ("Default", "Memory")}
    assert {line.name for line in first.lines} == names
