"""New orders a minute over the number of users, across panels, next to a paper's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from report_runs import EMULATED, Case, driven, lognormal, metric, tier_document, write

from harness import paths
from harness.store.runs import StoredRun
from reports.compare import compare
from reports.published import read_published
from reports.report import Report
from reports.series import panels
from reports.sweeps import Sweep, sweeps
from reports.values import Quantity

PUBLISHED = paths.data_folder("profiles") / "papers/nvm-for-databases/published.csv"
USERS = (8, 32, 128)


def tpcc(
    root: Path, placement: str, users: int, per_minute: float, params: Any = None, **changes: Any
) -> StoredRun:
    """A finished run of so many users, whose connections and client threads are as many."""
    own = {"warehouses": 10, "users": users, "connections": users, "client_threads": users // 8}
    spec = driven("tpcc", **own | (params or {}))
    rate = metric("new_orders_per_minute", per_minute, "higher")
    case = Case(placement=placement, queries=(), metrics=[rate], spec_changes=spec, **changes)
    return write(root, case)


def over_users(runs: Sequence[StoredRun]) -> Sweep:
    made = sweeps(panels(runs, "placement", None))
    (found,) = (one for one in made if one.parameter == "params.users")
    return found


@pytest.fixture
def figure5(tmp_path: Path) -> list[StoredRun]:
    """Three numbers of users on two placements, twice each: PMem doubles, SSD saturates."""
    return [
        tpcc(tmp_path, place, users, rate * (1 + 0.02 * block), block=block, emulated=marks)
        for block in (0, 1)
        for users in USERS
        for place, rate, marks in (("ssd-both", 1000, ()), ("pmem-both", 100 * users, EMULATED))
    ]


def test_a_line_goes_through_the_panels_of_every_number_of_users(figure5):
    """What follows from the users (connections, client threads) makes no line of its own."""
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
    found = {line.name: line.points[32].median for line in over_users(runs).lines}
    assert found == {"ssd-both, connections 32": 500, "ssd-both, connections 16": 400}


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
    assert "pmem-both gains most at 8 users" in first
    assert "more than at 32 users (2.10×, by 1.9" in first and "1 user (2.00×, by 2.0" in first


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
        (len(arm.runs), arm.summaries("new_orders_per_minute")[Quantity("new_orders_per_minute")].n)
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
    assert sweep.one.quantity == Quantity("transaction_duration_ns", labels)
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
    found = compare(runs[:2], runs[2:], ["arm"]).groups
    assert [group.context["params.users"] for group in found] == ["1", "8"]


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
