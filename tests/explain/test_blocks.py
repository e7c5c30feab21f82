"""Delays that change at random within a window: which, when, and the latency under each."""

from __future__ import annotations

from itertools import islice

import pytest
from made_up import CALL_NS, LATE_NS, Window

from harness.errors import RunFailed, UsageError
from harness.explain.blocks import check_varied, orders
from harness.explain.whatif import Calls, WhatIf, floor_ns
from harness.iotrace.plant import parse_plant, varied
from harness.store.result import Metric
from harness.workloads.tpcc.params import TpccParams
from harness.workloads.tpch.params import TpchParams
from harness.workloads.ycsb.params import YcsbParams

OPERATIONS = [
    {
        "part": "wal",
        "operation": "sync",
        "role": role,
        "calls": calls,
        "timed": calls,
        "ns": ns,
        "delay_ns": 0,
    }
    for role, calls, ns in (("foreground", 4000, 1_200_000_000), ("background", 10, 90_000_000))
]


def test_each_round_has_each_level_once_in_an_order_of_its_own():
    drawn = list(islice(orders([1, 2, 3, 4], seed=5), 40))
    rounds = [[level for number, level in drawn if number == n] for n in range(10)]
    assert all(sorted(one) == [1, 2, 3, 4] for one in rounds)
    assert len({tuple(one) for one in rounds}) > 3
    assert drawn == list(islice(orders([1, 2, 3, 4], seed=5), 40))
    assert drawn != list(islice(orders([1, 2, 3, 4], seed=6), 40))


def test_a_block_has_its_achieved_delay_and_its_mean_latency():
    """Intervals of the series that contain a change of the delay do not count."""
    window = Window(rounds=8)
    blocks = window.run().blocks()
    assert len(blocks) == 32
    assert {block.delay_ns - block.planted_ns for block in blocks} == {LATE_NS}
    for block in blocks:
        expected_ns = window.base_ns + window.slope * block.delay_ns
        assert block.latency_ns == pytest.approx(expected_ns, rel=0.02)


def test_the_last_incomplete_block_is_dropped():
    delays = Window(rounds=2).run()
    assert [one.round for one in delays.stretches] == [0] * 4 + [1] * 4


def test_a_calls_own_processor_time_is_no_floor():
    waits = {"processor": 100_000, "log sync": 100_000, "lock": 10_000}
    metrics = [Metric("wait_ns", "ns", "none", {"resource": r}, value=v) for r, v in waits.items()]
    computed = Metric("server_cpu_per_transaction_ns", "ns", "lower", value=100_000)
    sync = Calls(10, 180_000, sum_ns=1_800_000)
    assert floor_ns(parse_plant("wal.sync=+1us"), [*metrics, computed], sync, done=10) == 20_000


def test_the_slope_is_that_of_the_engine():
    waits = [
        Metric("wait_ns", "ns", "none", {"resource": resource}, value=value)
        for resource, value in (
            ("processor", 300_000), ("log sync", 600_000), ("lock", 50_000), ("other", 90_000),
            ("data read", 20_000), ("client", 40_000),
        )
    ]  # fmt: skip
    cpu = [
        Metric(f"{side}_cpu_per_transaction_ns", "ns", "lower", value=value)
        for side, value in (("server", 280_000), ("client", 30_000))
    ]
    (found,) = Window().run().concluded([*waits, *cpu], OPERATIONS)
    assert found.fit.linear
    assert found.fit.slope.value == pytest.approx(1.5, rel=0.02)
    assert found.calls.mean_ns == 300_000  # of the foreground
    spun_ns = 50_000 * found.per_operation
    assert found.floor_ns == pytest.approx(280_000 - spun_ns + 20_000 + 30_000)
    assert found.now.value == pytest.approx(1_000_000, rel=0.02)
    faster = found.at_latency(100_000)
    assert faster.value == pytest.approx(1_000_000 - 1.5 * 200_000, rel=0.03)
    again = WhatIf.from_json(found.to_json())
    assert again.at_latency(100_000) == faster
    values = {metric.name: metric.value for metric in found.metrics()}
    assert values["whatif_linear"] == 1
    assert values["whatif_slope_low"] <= values["whatif_slope"] <= values["whatif_slope_high"]


def test_without_enough_blocks_the_run_fails():
    with pytest.raises(RunFailed):
        Window(rounds=3).run().concluded([], OPERATIONS)


def test_an_operation_that_is_not_called_has_no_fit():
    window = Window()
    window.count = lambda calls, achieved_ns: None
    with pytest.raises(RunFailed):
        window.run().concluded([], [])


def test_each_query_has_a_fit_of_its_executions():
    """Two sessions share the calls of query 6: half of them are on its critical path."""
    window = Window()
    calls = {"6": 200, "1": 300}
    on_path = {"6": 100, "1": 300}
    for number, level_ns in window.delays.order(8):
        for query, count in calls.items():

            def execute(count: int = count, waited_for: int = on_path[query]) -> int:
                achieved_ns = window.planted_ns() + LATE_NS if window.planted_ns() else 0
                window.count(count, achieved_ns)
                return 50_000_000 + waited_for * (CALL_NS + achieved_ns)

            window.delays.execute({"query": query}, number, level_ns, execute)
    window.delays.execute({"query": "1"}, 8, 100_000, lambda: None)  # reached its limit
    found = {one.labels["query"]: one for one in window.delays.concluded([], [])}
    for query, one in found.items():
        assert one.fit.slope.value == pytest.approx(on_path[query])
        assert (one.per_operation, one.calls.mean_ns) == (calls[query], CALL_NS)
        assert one.now.value == pytest.approx(50_000_000 + on_path[query] * CALL_NS)
        assert one.fit.gap.value == pytest.approx(0, abs=1000)
        assert sum(block.planted_ns == 0 for block in one.blocks) == 8
    assert found["1"].floor_ns == 50_000_000
    assert found["6"].floor_ns < 50_000_000
    window.page.close()


def test_levels_suit_the_calls_of_the_first_block():
    for call_ns, shortest_ns in ((30_000, 100_000), (4_200_000, 1_000_000)):
        window = Window(rounds=8, levels="wal.sync=+auto", call_ns=call_ns, base_ns=6_000_000)
        delays = window.run()
        levels = {one.planted_ns // shortest_ns for one in delays.stretches}
        assert (levels, delays.stretches[0].round) == ({1, 2, 4, 8}, 0)
        (found,) = delays.concluded([], OPERATIONS)
        assert found.suited_ns == call_ns
        assert WhatIf.from_json(found.to_json()).suited_ns == call_ns


def test_levels_of_queries_suit_their_calls_until_then():
    window = Window(levels="wal.sync=+auto", call_ns=2_000_000)
    window.count(100, 0)
    order = window.delays.order(1)
    assert {level for _, level in order} == {500_000 * n for n in (0, 1, 2, 4, 8)}
    window.page.close()


def test_a_block_has_the_duration_of_its_own_calls():
    assert {block.call_ns for block in Window(rounds=2).run().blocks()} == {CALL_NS}


def test_levels_are_written_as_they_are_read():
    text = "wal.sync=+100us/200us/1000us"
    plant = parse_plant("wal.sync=+100us/0.2ms/1ms")
    assert (str(plant), plant.levels_ns) == (text, (100_000, 200_000, 1_000_000))
    assert varied(["data.read=+1us", text]) == parse_plant(text)
    assert str(parse_plant("wal.sync=+auto")) == "wal.sync=+auto"
    assert varied(["data.read=+1us"]) is None
    assert str(parse_plant("wal.write=+1.234567s")) == "wal.write=+1234567us"


@pytest.mark.parametrize(
    "levels", ["100us/200us", "200us/100us/400us", "50us/100us/200us", "100us/200us/11s",
               "100us/200us/400us~1us", "100us//200us/400us", "auto/200us/400us"],
)  # fmt: skip
def test_levels_that_cannot_be_fitted_are_refused(levels):
    with pytest.raises(UsageError):
        parse_plant(f"wal.sync=+{levels}")


def test_two_operations_do_not_vary_at_once():
    with pytest.raises(UsageError):
        varied([f"{place}=+100us/200us/300us" for place in ("wal.sync", "data.read")])


@pytest.mark.parametrize(
    ("params", "driver"),
    [
        (TpccParams.from_mapping({}), "hammerdb"),
        (TpccParams.from_mapping({"duration": "10s"}), "loadgen"),
        (TpccParams.from_mapping({"client_hosts": ["elsewhere"]}), "loadgen"),
        (TpchParams.from_mapping({"test": "power"}), "native"),
        (YcsbParams.from_mapping({"workload": "a", "operationcount": 1000}), "loadgen"),
    ],
)  # fmt: skip
def test_runs_in_which_a_delay_cannot_vary_are_refused(params, driver):
    plant = parse_plant("wal.sync=+100us/200us/400us/800us")
    with pytest.raises(UsageError):
        check_varied(parse_plant("wal.sync=+1ms/2ms/200ms"), "loadgen", TpccParams.from_mapping({}))
    with pytest.raises(UsageError):  # it needs a block more
        check_varied(
            parse_plant("wal.sync=+auto"), "loadgen", TpccParams.from_mapping({"duration": "12s"})
        )
    check_varied(plant, "loadgen", TpccParams.from_mapping({"duration": "12s"}))
    with pytest.raises(UsageError):
        check_varied(plant, driver, params)
