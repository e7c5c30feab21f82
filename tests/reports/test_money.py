"""Price-performance, against numbers computed by hand."""

from pathlib import Path
from typing import Any

import pytest
from narrowed import present
from report_runs import Case, driven, interleaved, metric, report, write

from harness.errors import UsageError
from harness.store.documents import write_json_atomically
from harness.store.runs import StoredRun
from reports.money import Money, MoneyRow, capacity, money
from reports.price_list import PricedDevice, PriceList
from reports.report import Report
from reports.series import panels

GB = 10**9
#: 100 GB; the made-up tiers cost 0.4 (ssd) and 9.21 (pmem) USD for a GB.
SIZES = {"data": 90 * GB, "wal": 10 * GB, "temp": 0, "index": 0}
USERS = {"warehouses": 10, "users": 8, "think_time": False, "rate": None,
         "mix": "deck", "connections": 8, "duration": "3m"}  # fmt: skip


def tpcc(root: Path, placement: str, per_minute: float, repeats: int = 6,
         rate: float | None = None, **changes: Any) -> list[StoredRun]:  # fmt: skip
    (arm,) = interleaved(
        root,
        lambda _, k: [metric("new_orders_per_minute", per_minute * (1 + k / 100), "higher")],
        repeats,
        [placement],
        spec_changes=driven("tpcc", **USERS | {"rate": rate}),
        **({"run_changes": {"part_bytes": SIZES}} | changes),
    )
    return list(arm)


def money_of(runs: list[StoredRun], prices: PriceList | None = None) -> Money:
    return present(money(panels(runs, "placement", None), prices))


def rows(runs: list[StoredRun], prices: PriceList | None = None) -> list[MoneyRow]:
    (table,) = money_of(runs, prices).tables
    return list(table.rows)


def prices(**per_gb: float) -> PriceList:
    """Prices of a GB by tier, in modules of one GB."""
    listed = (PricedDevice("x", tier, 1, usd, 1) for tier, usd in per_gb.items())
    return PriceList("USD", "a shop", tuple(listed))


def test_price_performance_and_break_even_by_hand(tmp_path: Path) -> None:
    runs = [*tpcc(tmp_path, "ssd-both", 10_000), *tpcc(tmp_path, "pmem-both", 30_000)]
    ssd, pmem = rows(runs)
    assert (ssd.arm.name, pmem.arm.name) == ("ssd-both", "pmem-both")
    for row, per_minute, price in ((ssd, 10_000, 40), (pmem, 30_000, 921)):  # 0.4, 9.21 a GB
        assert present(row.price).median == pytest.approx(price)
        assert present(row.per_unit).low == pytest.approx(per_minute / price)
    assert ssd.ratio is None
    assert present(pmem.ratio).value == pytest.approx(3 * 40 / 921)
    # Three times the 0.40 that a GB of the slow tier costs.
    even = present(pmem.break_even)
    assert (even.tier, even.now) == ("pmem", 9.21)
    assert [even.low, even.value, even.high] == pytest.approx([1.2] * 3)


def test_at_its_break_even_price_an_arm_gives_what_the_baseline_gives(tmp_path: Path) -> None:
    runs = [*tpcc(tmp_path, "ssd-both", 9_000), *tpcc(tmp_path, "pmem-both", 31_000)]
    even = present(rows(runs)[1].break_even)
    priced = prices(pmem=even.value, ssd=0.4)
    ssd, pmem = rows(runs, priced)
    assert present(pmem.ratio).value == pytest.approx(1.0)
    assert present(ssd.per_unit).median == pytest.approx(present(pmem.per_unit).median)
    assert money_of(runs, priced).source == "a shop"


def test_of_a_fast_log_only_the_log_is_bought(tmp_path: Path) -> None:
    runs = [*tpcc(tmp_path, "ssd-both", 10_000), *tpcc(tmp_path, "ssd-data-pmem-wal", 11_000)]
    _, fast = rows(runs)
    assert present(fast.price).median == pytest.approx(90 * 0.4 + 10 * 9.21)
    assert present(fast.break_even).value == pytest.approx((1.1 * 40 - 36) / 10)
    slower = [*runs[:6], *tpcc(tmp_path / "b", "ssd-data-pmem-wal", 8_000)]
    never = present(rows(slower)[1].break_even)
    assert never.value == 0  # 0.8 · 40 is less than the data alone cost


def test_price_and_break_even_are_of_the_median_capacity_of_the_runs(tmp_path: Path) -> None:
    """The log of the fast arm grows from run to run; the middle one has the capacity shown."""
    runs = tpcc(tmp_path, "ssd-both", 10_000, 3)  # repeats, which cover 75 %
    for block, gb in enumerate((100, 10, 40)):
        used = {"part_bytes": SIZES | {"wal": gb * GB}}
        rate = metric("new_orders_per_minute", 30_000 * (1 + block / 100), "higher")
        case = Case(placement="pmem-both", block=block, metrics=[rate], run_changes=used)
        case.spec_changes = driven("tpcc", **USERS)
        runs.append(write(tmp_path, case))
    _, fast = rows(runs)
    assert fast.price and fast.ratio and fast.break_even and fast.break_even.now
    assert [share.gb for share in fast.shares] == [90 + 40]
    assert fast.price.median == pytest.approx(130 * 9.21)
    assert fast.break_even.value / fast.break_even.now == pytest.approx(fast.ratio.value)
    assert fast.break_even.confidence == fast.ratio.confidence == pytest.approx(0.75)


def test_a_tier_without_a_price_still_has_one_at_which_it_pays(tmp_path: Path) -> None:
    runs = [*tpcc(tmp_path, "ssd-both", 10_000), *tpcc(tmp_path, "pmem-both", 20_000)]
    _, fast = rows(runs, prices(ssd=0.4))
    assert fast.price is None and "pmem" in fast.note and fast.break_even is not None
    assert fast.break_even.value == pytest.approx(0.8) and fast.break_even.now is None


def test_queries_per_hour_are_those_that_ran(tmp_path: Path) -> None:
    metrics = [
        *(metric("query_duration_ns", s * 1e9, "lower", query=q) for q, s in (("1", 6), ("6", 3))),
        metric("query_duration_ns", 9e9, "lower", query="6", stream="1"),
        metric("queries_duration_ns", 9e9, "lower"),
    ]
    run = write(tmp_path, Case(metrics=metrics, run_changes={"part_bytes": SIZES}))
    (row,) = rows([run])
    assert present(row.performance).median == pytest.approx(2 / 9 * 3600)
    assert present(row.per_unit).median == pytest.approx(800 / 40)


def test_a_memory_part_counts_as_its_limit(tmp_path: Path) -> None:
    placement = "data=ssd,memory=pmem"
    limited = write(tmp_path, Case(placement=placement, run_changes={"part_bytes": SIZES}))
    (on_ssd, memory) = capacity(limited).shares
    assert (memory.tier, memory.parts, memory.gb) == ("pmem", ("memory",), (4 << 30) / GB)
    assert on_ssd.gb == 100
    free = write(tmp_path, Case(placement=placement, run_changes={"part_bytes": SIZES},
                                manifest_changes={"memory_cap.method": "none"}))  # fmt: skip
    assert capacity(free).problem and capacity(free).price is None


def test_where_an_arm_places_memory_the_others_pay_for_their_dram(tmp_path: Path) -> None:
    """CXL memory at which an arm is a tenth slower pays below nine tenths of the DRAM's price,
    and less for the storage that is bought for less work."""
    runs = [*tpcc(tmp_path, "ssd-both", 10_000), *tpcc(tmp_path, "data=ssd,memory=cxl", 9_000)]
    base, cxl = rows(runs, prices(ssd=0.4, dram=5.0))
    limit_gb = (4 << 30) / GB
    assert base.price and base.price.median == pytest.approx(40 + limit_gb * 5)
    assert cxl.break_even and cxl.break_even.tier == "cxl"
    assert cxl.break_even.value == pytest.approx((0.9 * base.price.median - 40) / limit_gb)

    base, cxl = rows(runs, prices(ssd=0.4, cxl=1.0))
    assert base.price is None and "dram" in base.note and cxl.break_even is None

    changes: dict[str, Any] = {"manifest_changes": {"prices_per_gb": {"dram": 5.0}}}
    recorded = [*tpcc(tmp_path / "b", "ssd-both", 10_000, **changes),
                *tpcc(tmp_path / "b", "data=ssd,memory=cxl", 9_000, **changes)]  # fmt: skip
    base, _ = rows(recorded, None)
    assert base.price and base.price.median == pytest.approx(40 + limit_gb * 5)


def of_memory(root: Path, label: str, memory: str, gib: int, per_minute: float) -> list[StoredRun]:
    """Runs of an arm with its memory and a limit of its own."""
    limit = {"memory_limit_bytes": gib << 30}
    (arm,) = interleaved(
        root,
        lambda _, k: [metric("new_orders_per_minute", per_minute * (1 + k / 100), "higher")],
        6,
        [f"data=ssd,memory={memory}"],
        label=label,
        memory_bytes=gib << 30,
        spec_changes=driven("tpcc", **USERS) | limit,
        run_changes={"part_bytes": SIZES},
        manifest_changes={
            "memory_cap": {"method": "cgroup-v2", "limit_bytes": gib << 30},
            "memory_nodes": {"dram": [0, 1], "cxl": [2]},
        },
    )
    return list(arm)


def test_up_to_which_price_more_slower_memory_pays(tmp_path: Path) -> None:
    """DRAM alone at its own size against as much DRAM and a third more of CXL memory."""
    runs = [
        *of_memory(tmp_path, "dram", "dram", 12, 10_000),
        # A weight is that of each node, of which DRAM has two.
        *of_memory(tmp_path, "both", "weighted:dram=3,cxl=2", 16, 13_000),
    ]
    (table,) = present(money(panels(runs, "arm", "dram"), prices(ssd=0.4, dram=5.0))).tables
    base, both = table.rows
    dram_gb, cxl_gb = (12 << 30) / GB, (4 << 30) / GB
    assert [(share.tier, share.gb) for share in both.shares] == [
        ("ssd", 100), ("dram", dram_gb), ("cxl", cxl_gb)]  # fmt: skip
    assert present(base.price).median == pytest.approx(40 + 5 * dram_gb)
    # A price of 40 + 5 · 12.88 = 104.42 buys 10,000; 13,000 may cost 135.75, of which 104.42 are
    # for what is as before: 31.33 remain for 4.29 GB.
    even = present(both.break_even)
    assert even.tier == "cxl"
    assert even.value == pytest.approx(0.3 * (40 + 5 * dram_gb) / cxl_gb)


def test_without_weights_memory_is_bought_where_its_pages_were(tmp_path: Path) -> None:
    run, *_ = of_memory(tmp_path, "tiered", "tiered:dram,cxl", 16, 13_000)
    assert capacity(run).problem  # nothing says where they were
    pages = {"anonymous_bytes": {"0": 2, "1": 4, "2": 1}, "shared_bytes": {"2": 1}}
    (run.directory / "artifacts").mkdir()
    first = {"anonymous_bytes": {"2": 8}, "shared_bytes": {}}
    document = {"samples": [], "engine_memory": [first, pages]}
    write_json_atomically(run.directory / "artifacts" / "monitor-vm.json", document)
    shares = capacity(StoredRun(run.directory)).shares
    assert [share.tier for share in shares[1:]] == ["dram", "cxl"]
    gb = (16 << 30) / GB
    assert [share.gb for share in shares[1:]] == pytest.approx([0.75 * gb, 0.25 * gb])
    listed = prices(ssd=0.4, dram=5.0, cxl=2.0)
    assert present(
        money(panels([StoredRun(run.directory)], "arm", "tiered"), listed)
    ).without_page_cache
    # With the page cache, each page once: by that.
    pages["group_bytes"] = {"0": 100, "1": 100, "2": 600, "3": 1}
    write_json_atomically(run.directory / "artifacts" / "monitor-vm.json", document)
    shares = capacity(StoredRun(run.directory)).shares
    assert [share.gb for share in shares[1:]] == pytest.approx([0.25 * gb, 0.75 * gb])
    cached = present(money(panels([StoredRun(run.directory)], "arm", "tiered"), listed))
    assert not cached.without_page_cache
    del pages["group_bytes"]
    pages["shared_bytes"] = {"3": 1}  # a node that is no tier
    write_json_atomically(run.directory / "artifacts" / "monitor-vm.json", document)
    assert capacity(StoredRun(run.directory)).problem


def test_in_memory_mode_unplaced_memory_has_no_price(tmp_path: Path) -> None:
    changes = {"part_bytes": SIZES, "host_mode": "Memory"}
    (run,) = tpcc(tmp_path, "ssd-both", 10_000, 1, run_changes=changes)
    assert capacity(run).price and capacity(run, None, {"price_per_gb": 5.0}).problem


def test_without_prices_capacity_or_throughput_nothing_is_claimed(tmp_path: Path) -> None:
    bare = tpcc(tmp_path, "ssd-both", 10_000, 1, run_changes={})
    assert money(panels(bare, "placement", None)) is None
    files, _ = report(bare, tmp_path)
    assert "Price-performance" not in files.markdown.read_text(encoding="utf-8")
    with pytest.raises(UsageError, match="ssd"):
        list(Report(bare, prices=PriceList("USD", "x", ())).blocks())
    (paced,) = rows(tpcc(tmp_path, "ssd-both", 600, 1, rate=10.0))
    assert paced.price is not None and paced.performance is None and paced.per_unit is None
