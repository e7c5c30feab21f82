"""Device ratio, prediction and realised fraction of comparisons, by hand."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from explained_runs import CALLS, suite, suites, tpcc, what_if
from explained_runs import calls as calls_of
from report_runs import Case, metric, write

from harness.explain.fit import Refusal
from harness.explain.question import Device, answers
from harness.store.runs import Store
from reports.explain.comparisons import Evidence, Explained, explained
from reports.explain.known import Missing, Value, realised_fraction
from reports.explain.output import ExplainedView, to_json
from reports.explain.score import score
from reports.select import unplanted
from reports.series import panels


def rows(root: Path, baseline: str | None = None) -> list[Explained]:
    every = Store(root).runs()
    chosen = [run for run in unplanted(every) if run.spec.workload != "micro"]
    return explained(panels(chosen, "placement", baseline), Evidence.of(every))


def moved(
    root: Path, to: str = "pmem-both", gain: float = 1.5, blocks: int = 6, **options: Any
) -> None:
    """Paired runs of which those on ``to`` are ``gain`` times as fast."""
    for block in range(blocks):
        for placement, rate in (("ssd-both", 60_000), (to, 60_000 * gain)):
            tpcc(root, placement, block, rate * (1 + 0.01 * block), **options)


def first(root: Path, placement: str = "ssd-both") -> Any:
    return next(
        run for run in Store(root).runs() if run.head["spec"]["placement"]["name"] == placement
    )


def known(value: object) -> Value:
    assert isinstance(value, Value), value
    return value


def why(value: object) -> str:
    assert isinstance(value, Missing), value
    return value.why


@pytest.mark.parametrize(
    ("baseline", "ratio", "speed_up"),
    [("ssd-both", 419_000 / 5_500, 1.5), ("pmem-both", 5_500 / 419_000, 1 / 1.5)],
)
def test_the_device_ratio_is_the_time_of_the_run_s_calls_on_a_over_that_on_b(
    tmp_path: Path, baseline: str, ratio: float, speed_up: float
) -> None:
    """1000 × 400 + 1000 × 10 + 100 × 90 µs on A; 1000 × 1 + 1000 × 4 + 100 × 5 on B.

    From the fast tier to the slow one, the calls are those of the fast run.
    """
    moved(tmp_path)
    suites(tmp_path, first(tmp_path, baseline))
    (row,) = rows(tmp_path, baseline)
    assert known(row.device_ratio).value == pytest.approx(ratio, rel=2e-3)
    assert known(row.measured).value == pytest.approx(speed_up)
    assert known(row.realised).value == pytest.approx(math.log(1.5) / math.log(76.2), rel=2e-3)
    assert row.moved == ("data", "wal", "temp", "index")


@pytest.mark.parametrize(
    ("times", "unlike"), [(1.0, False), (1.4, False), (8.0, True), (0.5, True)]
)
def test_a_suite_whose_calls_took_longer_than_the_run_s_is_marked(
    tmp_path: Path, times: float, unlike: bool
) -> None:
    """On A's own tier: the device ratio of another state of the device is another."""
    moved(tmp_path)
    slower = {cell: (count, ssd * times, pmem) for cell, (count, ssd, pmem) in CALLS.items()}
    suites(tmp_path, first(tmp_path), slower)
    found = rows(tmp_path)
    (row,) = found
    assert row.suite_over_run == pytest.approx(times, rel=5e-3)
    assert row.suite_unlike_run == unlike
    view = ExplainedView(tuple(found), score(found))
    assert bool(view.suite_over_run) == unlike
    (document,) = to_json(view)["comparisons"]
    assert document["suite_over_run"] == row.suite_over_run


def test_the_device_ratio_s_interval_is_that_of_the_suite_s_repeats(tmp_path: Path) -> None:
    """Four against four: the whole range of their quotients covers 1 − 2/70."""
    moved(tmp_path)
    suites(tmp_path, first(tmp_path))
    (row,) = rows(tmp_path)
    found, fraction = known(row.device_ratio), known(row.realised)
    assert found.low == pytest.approx(found.value * 0.99 / 1.01)
    assert found.high == pytest.approx(found.value * 1.01 / 0.99)
    assert found.confidence == pytest.approx(1 - 2 / 70)
    assert fraction.low < fraction.value < fraction.high and fraction.covered


def test_one_repeat_of_a_suite_has_no_interval(tmp_path: Path) -> None:
    moved(tmp_path)
    for tier, index in (("ssd", 1), ("pmem", 2)):
        suite(tmp_path, first(tmp_path), tier, {c: f[index] for c, f in CALLS.items()}, (1.0,))
    (row,) = rows(tmp_path)
    for cell in (known(row.device_ratio), known(row.realised)):
        assert (cell.low, cell.high) == (None, None)


def test_a_realised_fraction_is_as_uncertain_as_both_of_its_ratios() -> None:
    """Wider than with an exact device ratio, and narrower than from corner to corner."""
    measured, ratio = Value(1.5, 1.4, 1.6), Value(10.0, 9.0, 11.0)
    found = known(realised_fraction(measured, ratio))
    assert found.value == pytest.approx(math.log(1.5) / math.log(10))
    assert math.log(1.4) / math.log(11) < found.low < math.log(1.4) / math.log(10)
    assert math.log(1.6) / math.log(10) < found.high < math.log(1.6) / math.log(9)
    slower = known(realised_fraction(measured, Value(1 / 10, 1 / 11, 1 / 9)))
    ends = (slower.low, slower.value, slower.high)
    assert ends == pytest.approx((-found.high, -found.value, -found.low))
    assert why(realised_fraction(measured, Value(2.0, 0.9, 3.0))) == "not resolvable"


def test_a_suite_like_another_run_of_the_same_counts_and_of_other_users_does_not(
    tmp_path: Path,
) -> None:
    moved(tmp_path, blocks=1)
    suites(tmp_path, tpcc(tmp_path, users=16))
    chosen = [run for run in Store(tmp_path).runs() if run.spec.params.get("users") == 2]
    evidence = Evidence.of(Store(tmp_path).runs())
    (row,) = explained(panels(chosen, "placement", None), evidence)
    assert why(row.device_ratio) == "no suite"
    suites(tmp_path, tpcc(tmp_path, duration="1m"))
    evidence = Evidence.of(Store(tmp_path).runs())
    (row,) = explained(panels(chosen, "placement", None), evidence)
    assert known(row.device_ratio).value == pytest.approx(419_000 / 5_500, rel=2e-3)


def test_parts_that_stay_count_with_the_tier_on_which_they_are(tmp_path: Path) -> None:
    moved(tmp_path, "ssd-data-pmem-wal")
    suites(tmp_path, first(tmp_path))
    (row,) = rows(tmp_path)
    assert row.moved == ("wal",)
    assert known(row.device_ratio).value == pytest.approx(419_000 / 14_000, rel=2e-3)
    assert known(row.ceiling).value == pytest.approx(1000 / 590, rel=1e-2)
    assert not row.above_ceiling


def test_the_prediction_is_that_of_the_what_if_s_line(tmp_path: Path) -> None:
    """The latency falls by slope × (400 − 1) µs; the log's sync is nearly all of what moves."""
    moved(tmp_path, "ssd-data-pmem-wal")
    suites(tmp_path, first(tmp_path))
    made = what_if(tmp_path, "wal", "sync", 1.0, base_us=1100)
    (row,) = rows(tmp_path)
    (answer,) = answers(made, Device("pmem", 1_000))
    line = answer.whatif.at_latency(1_000)
    found, base = known(row.predicted), row.base
    assert found.value == pytest.approx(answer.whatif.now.value / line.value, rel=2e-3)
    assert found.value == pytest.approx(1100 / (1100 - 399), rel=2e-3)
    assert found.low < found.value < found.high
    assert base is not None and base.latency == answer.whatif.now
    assert base.measured_ns == pytest.approx(1_000_000)
    (slope,) = row.sensitivity if not isinstance(row.sensitivity, Missing) else ()
    assert (slope.part, slope.operation, slope.linear) == ("wal", "sync", True)


def test_what_a_what_if_refuses_is_not_predicted(tmp_path: Path) -> None:
    moved(tmp_path, "ssd-data-pmem-wal", blocks=1)
    suites(tmp_path, first(tmp_path))
    for reason, options in (
        ("too uncertain", {"noise_us": 300.0}),
        ("below floor", {"floor_us": 800.0}),
        ("not linear", {"bend": 1.0}),
    ):
        made = what_if(tmp_path, "wal", "sync", 1.0, **options)
        (answer,) = answers(made, Device("pmem", 1_000))
        line = answer.whatif.at_latency(1_000)
        assert isinstance(line, Refusal) and line.code.replace("-", " ") == reason
        (row,) = rows(tmp_path)
        assert (row.predicted.why, row.predicted.detail) == (reason, line.context)


def test_a_what_if_of_other_settings_is_not_used_and_named(tmp_path: Path) -> None:
    method = {"wal_sync_method": "open_datasync"}
    for placement in ("ssd-both", "ssd-data-pmem-wal"):
        tpcc(tmp_path, placement, given={"settings": method})
    suites(tmp_path, first(tmp_path))
    for changes, fact in (
        ({"settings": {"wal_sync_method": "fdatasync"}}, "settings.wal_sync_method fdatasync"),
        ({"settings": method, "tuning": "paper"}, "tuning paper"),
        ({"settings": method, "threads": 7}, "threads 7"),
        ({"settings": method, "cpus": "0"}, "cpus 0"),
        ({"settings": method, "driver": "hammerdb"}, "driver hammerdb"),
        ({"settings": method, "engine_options": {"a": "1"}}, "engine_options.a 1"),
    ):
        made = what_if(tmp_path, "wal", "sync", 1.0, **changes)
        (row,) = rows(tmp_path)
        assert isinstance(row.sensitivity, Missing) and row.sensitivity.why == "no what-if"
        assert row.sensitivity.detail.startswith(f"{made.run_id} has {fact} instead of")
        assert "--set wal_sync_method=open_datasync" in row.sensitivity.commands[0]
        shutil.rmtree(made.directory)
    what_if(tmp_path, "wal", "sync", 1.0, settings=method)
    assert isinstance(rows(tmp_path)[0].predicted, Value)


def test_a_what_if_unlike_a_s_runs_predicts_nothing(tmp_path: Path) -> None:
    """A transaction takes 1,000 µs in A's runs."""
    moved(tmp_path, "ssd-data-pmem-wal", blocks=1)
    suites(tmp_path, first(tmp_path))
    for base_us, alike in ((700, False), (800, True), (1200, True), (1300, False)):
        what_if(tmp_path, "wal", "sync", 0.5, base_us=base_us)
        (row,) = rows(tmp_path)
        assert row.base.latency.value == pytest.approx(base_us * 1e3, rel=1e-2)
        assert row.base.measured_ns == pytest.approx(1e6)
        assert isinstance(row.predicted, Value) == alike
        if isinstance(row.predicted, Missing):
            assert (row.predicted.why, row.predicted.detail) == ("what-if unlike A", str(row.base))
            assert row.predicted.commands[0].endswith(" --again")
            assert score([row]).models[-1].errors == ()


def test_a_log_written_in_the_background_needs_a_what_if_of_its_own(tmp_path: Path) -> None:
    """As MySQL's: of the time on the parts that move, 98 % are in its calls."""
    made = {(*c, "background") if c[0] == "wal" else c: found for c, found in CALLS.items()}
    moved(tmp_path, blocks=1, made=made)
    suites(tmp_path, first(tmp_path), made)
    what_if(tmp_path, "data", "read", 1.0)
    (row,) = rows(tmp_path)
    assert isinstance(row.sensitivity, Missing) and why(row.predicted) == "no what-if"
    (command,) = row.sensitivity.commands
    assert "--part wal --operation sync" in command
    what_if(tmp_path, "wal", "sync", 1.0)
    assert known(rows(tmp_path)[0].predicted).value == pytest.approx(1000 / 601, rel=2e-3)


def test_every_missing_what_if_is_named_at_once(tmp_path: Path) -> None:
    """Up to 95 % of the time: 400 ms of syncs, 180 of reads; not the 10 of log writes."""
    moved(tmp_path, blocks=1, made=CALLS | {("data", "read"): (2000, 90.0, 5.0)})
    (row,) = rows(tmp_path)
    named = [text.partition("--part ")[2].split(" -p")[0] for text in row.sensitivity.commands]
    assert named == ["wal --operation sync", "data --operation read"]
    what_if(tmp_path, "wal", "sync", 1.0)
    (row,) = rows(tmp_path)
    assert ["--part data" in text for text in row.sensitivity.commands] == [True]


def test_the_suites_must_have_measured_the_time_in_calls_not_their_number(tmp_path: Path) -> None:
    """The writes are 90 % of the calls and 4 % of the time."""
    made = {("wal", "write"): (900, 5.0, 2.0), ("wal", "sync"): (100, 1000.0, 1.0)}
    moved(tmp_path, blocks=1, made=made)
    suites(tmp_path, first(tmp_path), {("wal", "write"): (900, 5.0, 2.0)})
    assert why(rows(tmp_path)[0].device_ratio) == "suite incomplete"
    suites(tmp_path, first(tmp_path), {("wal", "sync"): (100, 1000.0, 1.0)})
    assert isinstance(rows(tmp_path)[0].device_ratio, Value)


@pytest.mark.parametrize(
    ("background", "ratio"),
    [
        ({}, 419_000 / 5_500),
        ({("data", "sync", "background"): (10, 20_000.0, 1.0)}, 619_000 / 5_510),
    ],
)
def test_amdahl_shrinks_the_waits_for_log_and_data_by_their_own_device_ratios(
    tmp_path: Path, background: Any, ratio: float
) -> None:
    """410 µs for the log, 82 times as fast; 9 µs for data by the trace, 18 times as fast.

    No session waits for the checkpointer's syncs, which get 20,000 times as fast.
    """
    made = CALLS | background
    moved(tmp_path, blocks=1, made=made)
    suites(tmp_path, first(tmp_path), made)
    (row,) = rows(tmp_path)
    assert known(row.device_ratio).value == pytest.approx(ratio, rel=2e-3)
    saved = 410 * (1 - 1 / 82) + 9 * (1 - 1 / 18)
    assert known(row.by_waits).value == pytest.approx(1000 / (1000 - saved), rel=1e-4)


def test_what_is_missing_names_the_command_that_measures_it(tmp_path: Path) -> None:
    moved(tmp_path, blocks=1)
    (row,) = rows(tmp_path)
    like = f"--like {first(tmp_path).run_id}"
    (command,) = row.device_ratio.commands
    assert row.device_ratio.why == "no suite" and like in command
    assert {"--tier ssd", "--tier pmem"} == {
        f"--tier {word}" for word in command.split() if word in ("ssd", "pmem")
    }
    assert row.predicted.why == "no what-if"
    (command,) = row.predicted.commands
    assert "--part wal --operation sync" in command
    assert "-p warehouses=10 -p users=2" in command
    # Else its result would not be of that run.
    assert f"--memory-limit {first(tmp_path).spec.memory_limit_bytes}" in command


def test_no_line_no_prediction_and_none_that_cannot_be(tmp_path: Path) -> None:
    moved(tmp_path, "ssd-data-pmem-wal", blocks=1)
    suites(tmp_path, first(tmp_path))
    for slope, reason in ((3.0, "below zero"), (1.5, "above the ceiling")):
        what_if(tmp_path, "wal", "sync", slope)
        assert why(rows(tmp_path)[0].predicted) == reason


def test_a_against_a_explains_nothing(tmp_path: Path) -> None:
    """Two tiers that are alike: neither a measured speed-up near one nor such devices resolve."""
    for block in range(6):
        for placement in ("ssd-both", "ssd2-both"):
            sign = 1 if (block + len(placement)) % 2 else -1
            tpcc(tmp_path, placement, block, 60_000 * (1 + 0.01 * sign))
    same = {cell: found[1] for cell, found in CALLS.items()}
    for tier in ("ssd", "ssd2"):
        suite(tmp_path, first(tmp_path), tier, same)
    (row,) = rows(tmp_path)
    assert why(row.realised) == "not resolvable"
    found = score([row])
    assert {(one.by, one.summary, one.unresolved) for one in found.realised} == {
        ("engine", None, 1),
        ("moved", None, 1),
    }


def test_few_repeats_resolve_nothing(tmp_path: Path) -> None:
    """Five pairs have an interval that covers 94 %."""
    moved(tmp_path, blocks=5)
    suites(tmp_path, first(tmp_path))
    (row,) = rows(tmp_path)
    assert known(row.measured).confidence == pytest.approx(0.9375)
    assert why(row.realised) == "not resolvable"


def test_alike_devices_resolve_nothing_whatever_was_measured(tmp_path: Path) -> None:
    moved(tmp_path, "ssd2-both", gain=1.2)
    for tier in ("ssd", "ssd2"):
        suite(tmp_path, first(tmp_path), tier, {cell: found[1] for cell, found in CALLS.items()})
    (row,) = rows(tmp_path)
    assert known(row.device_ratio).value == pytest.approx(1)
    assert known(row.measured).low == pytest.approx(1.2)
    assert why(row.realised) == "not resolvable"


@pytest.mark.parametrize(("blocks", "marked"), [(6, True), (2, False)])
def test_what_was_measured_above_its_ceiling_is_marked(
    tmp_path: Path, blocks: int, marked: bool
) -> None:
    """The interval of two repeats, which covers 50 %, shows nothing."""
    moved(tmp_path, "ssd-data-pmem-wal", gain=5.0, blocks=blocks)
    (row,) = rows(tmp_path)
    low = known(row.measured).low
    assert low is not None and low > known(row.ceiling).value
    assert row.above_ceiling == marked


def test_the_ceiling_of_planted_delays_is_that_of_their_part(tmp_path: Path) -> None:
    runs = [tpcc(tmp_path), tpcc(tmp_path, rate=30_000, plant=("wal.sync=+400us",))]
    (row,) = explained(panels(runs, "placement", "ssd-both PLANTED wal.sync=+400us"), Evidence())
    assert (row.moved, row.devices) == (("wal",), "log")
    assert known(row.measured).value == pytest.approx(2.0)
    assert known(row.ceiling).value == pytest.approx(1000 / 590, rel=1e-2)
    assert why(row.device_ratio) == why(row.predicted) == "delays planted"


def test_a_set_rate_has_neither_ceiling_nor_prediction(tmp_path: Path) -> None:
    for placement in ("ssd-both", "pmem-both"):
        tpcc(tmp_path, placement, rate_per_s=100.0)
    (row,) = rows(tmp_path)
    assert why(row.ceiling) == "a rate was set"


def query_run(root: Path, placement: str, block: int, factor: float) -> None:
    """Q1 computes and reads 10 pages; Q9 joins and reads 1,000."""
    metrics: list[dict[str, Any]] = []
    total = 0.0
    for query, seconds, calls, scans in (("1", 4.0, 10, 0.9), ("9", 2.0, 1000, 0.2)):
        took = seconds * 1e9 * factor
        total += took
        metrics += [
            metric("query_duration_ns", took, "lower", query=query),
            metric("query_io_calls_count", calls, query=query, part="data", operation="read"),
            metric("plan_operator_ns", took * scans, query=query, operator="scan"),
            metric("plan_operator_ns", took * (1 - scans), query=query, operator="join"),
        ]
        waits = {"data read": calls * 90e3, "processor": took - calls * 90e3}
        metrics += [metric("query_wait_ns", ns, query=query, resource=r) for r, ns in waits.items()]
        metrics.append(metric("query_wait_moments_count", 1e5, query=query))
        metrics.append(metric("query_pressure_cpu_some_ns", 0, of="host", query=query))
    metrics.append(metric("queries_duration_ns", total, "lower"))
    metrics.append(metric("queries_geomean_ns", total / 2, "lower"))
    labels = {"part": "data", "operation": "read", "role": "foreground"}
    metrics.append(metric("io_calls_count", 1010, **labels))
    metrics.append(metric("io_duration_ns", calls_of(90, 1010), **labels))
    write(root, Case(placement=placement, block=block, metrics=metrics, queries=(1, 9)))


def test_queries_have_device_ratios_and_classes_of_their_own(tmp_path: Path) -> None:
    for block in range(6):
        for placement, factor in (("ssd-both", 1.0), ("pmem-both", 0.5)):
            query_run(tmp_path, placement, block, factor)
    suites(tmp_path, first(tmp_path))
    whole, one, nine = rows(tmp_path)
    assert [row.query for row in (whole, one, nine)] == ["", "1", "9"]
    assert [row.query_class for row in (one, nine)] == ["scan-heavy", "join-heavy"]
    assert "-p queries=1,9" in one.predicted.commands[0]
    for row in (whole, one, nine):
        assert known(row.device_ratio).value == pytest.approx(90 / 5, rel=2e-3)
        assert known(row.measured).value == pytest.approx(2.0)


def test_the_queries_sum_is_predicted_from_each_query_s_line(tmp_path: Path) -> None:
    """Q1's 10 calls of 90 µs take 5; Q9's 1,000 as well, until that is refused."""
    for placement, factor in (("ssd-both", 1.0), ("pmem-both", 0.9)):
        query_run(tmp_path, placement, 0, factor)
    spec = first(tmp_path).spec
    own: dict[str, Any] = {"workload": "tpch", "params": spec.params, "driver": spec.driver}
    suites(tmp_path, first(tmp_path))
    for query, calls, base_us in (("1", 10, 4e6), ("9", 1000, 2e6)):
        labels = {"query": query}
        what_if(tmp_path, "data", "read", calls, base_us=base_us, labels=labels, **own)
    whole, one, nine = rows(tmp_path)
    assert known(one.predicted).value == pytest.approx(4000 / (4000 - 0.85), rel=1e-4)
    assert known(nine.predicted).value == pytest.approx(2000 / (2000 - 85), rel=1e-4)
    assert known(whole.predicted).value == pytest.approx(6000 / (6000 - 85.85), rel=1e-4)
    assert whole.base.latency.value == pytest.approx(6e9, rel=1e-4)
    assert whole.base.measured_ns == pytest.approx(6e9)
    what_if(tmp_path, "data", "read", 1000, base_us=2e6, floor_us=1.99e6, labels=labels, **own)
    whole, _, nine = rows(tmp_path)
    assert why(whole.predicted) == why(nine.predicted) == "below floor"
