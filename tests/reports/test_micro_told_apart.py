"""Points of microbenchmarks are compared if they are of one experiment, configured alike."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from micro_runs import GB, KINDS, card_run, cells, duration, micro_run, rate, shown, with_suite
from narrowed import present
from report_runs import with_artifacts

from harness.errors import UsageError
from harness.micro.host_capacity import variables_here
from harness.micro.suite import known_suites, load_suite
from harness.store.result import Label
from harness.store.runs import StoredRun
from reports.micro.as_published import paper_rows
from reports.micro.best_practices import card_trials, practices
from reports.micro.devices import RATE, Device, devices
from reports.micro.knees import LoadedKnee, access_size_knees, curves
from reports.micro.measurements import card_drawing, measurements
from reports.micro.preferences import findings
from reports.micro.prices import COLUMNS
from reports.micro.report import write_cards
from reports.micro.sweeps import experiments, thread_counts
from reports.pair_sides import pairs
from reports.values import Point, measured


def _reads(gb_per_s: float, **labels: Any) -> dict[str, Any]:
    named = {**KINDS["load"], "pattern": "sequential", "access_size_bytes": 256, "threads": 1}
    return rate("threads", gb_per_s, 1, **(named | labels))


def _threads(root: Path, gb_per_s: float, duration: str = "1s", **requested: str) -> StoredRun:
    settings = {"duration": duration, "cpus": requested.get("cpus")}
    run = micro_run(root, [_reads(gb_per_s)], suite="fig4", requested=requested, settings=settings)
    return with_suite(run, "empirical-guide", ["fig4"])


def _rates(device: Device) -> list[list[float]]:
    return [[round(sample / GB) for sample in p.samples] for p in device.select(RATE)]


def _cell(device: Device) -> Any:
    rows = present(paper_rows([device]))
    (row,) = (row for row in rows.rows if "[operation=load" in str(row[1]))
    return shown(row[-1])


@pytest.mark.parametrize("requested", [{}, {"only": "threads"}])
def test_repeats_of_one_suite_in_two_runs_are_one_point(tmp_path, requested):
    """Also where ``-p`` set what a label says."""
    (device,) = devices([_threads(tmp_path, 4), _threads(tmp_path, 8, **requested)])
    assert _rates(device) == [[4, 8]]
    assert _cell(device) == 6  # the median, 6 GB/s


@pytest.mark.parametrize(
    ("fact", "name", "states", "shown"),
    [
        ("prefetchers", "prefetchers", ("enabled", "disabled", "unreadable"), None),
        ("memory_speed", "memory bus", ("2666 MT/s", "2133 MT/s", "unreadable"), None),
        ("uncore_frequency", "uncore", ("1200-2400 MHz", "2400-2400 MHz", "unreadable"), None),
        ("dimm_power_budget", "power budget", ("15000 mW", "18000 mW", "unreadable"), None),
        ("governor", "governor", ("powersave", "performance", None), None),
        ("turbo", "turbo", (True, False, None), ("on", "off", "unknown")),
        ("smt", "SMT", (True, False, None), ("on", "off", "unknown")),
        ("thp", "huge pages", ("madvise", "never", None), None),
        ("kernel.release", "Linux", ("6.1.0-25-amd64", "6.12.1-amd64", ""), None),
    ],
)
def test_a_tier_of_a_host_set_otherwise_is_another_device(tmp_path, fact, name, states, shown):
    """PVLDB 15(11), Sections 4.5.1 and 4.5.2; what could not be read is like neither."""
    runs = [
        micro_run(tmp_path, [rate("random", 4.0, 1)], manifest_changes={f"host.{fact}": state})
        for state in (*states, states[0])
    ]
    apart = devices(runs)
    names = shown or [state or "unknown" for state in states]
    assert [device.name for device in apart] == [f"pmem ({name} {state})" for state in names]
    assert [len(device.runs) for device in apart] == [2, 1, 1]


@pytest.mark.parametrize(
    ("changed", "suite"), [({"duration": "50ms"}, "fig4"), ({"cpus": "3"}, "fig4 -p cpus=3")]
)
def test_a_suite_that_was_set_otherwise_between_two_runs_makes_two(tmp_path, changed, suite):
    (device,) = devices([_threads(tmp_path, 4), _threads(tmp_path, 8, **changed)])
    assert _rates(device) == [[4], [8]]
    assert len(thread_counts(device)) == 1
    assert _cell(device).code == "ambiguous"
    titles = [measurement.title for measurement in measurements(device, "card")]
    assert titles == [f"threads: bandwidth, suite {name}" for name in ("fig4", suite)]


def test_each_pattern_has_the_thread_counts_of_its_own_suite(tmp_path: Path) -> None:
    """FAST'20's Figure 4 is sequential, DaMoN'19's Figure 2 at random places, set otherwise."""
    metrics = [_reads(2, pattern="random"), _reads(3, pattern="random", threads=2)]
    random = micro_run(tmp_path, metrics, settings="50ms")
    (device,) = devices([_threads(tmp_path, 4), random])
    counts = [(p["pattern"], p["threads"]) for p in thread_counts(device)]
    assert sorted(counts) == [("random", "1"), ("random", "2"), ("sequential", "1")]


def test_fios_files_of_other_sizes_are_other_files(tmp_path: Path) -> None:
    def reads(gb_per_s: float, size: str) -> StoredRun:
        metrics = [rate("read", gb_per_s, 1, queue_depth=1)]
        return micro_run(tmp_path, metrics, suite="block-io", settings=size)

    small, large, more = reads(4, "1GiB"), reads(8, "4GiB"), reads(6, "4GiB")
    (device,) = devices([small, large, more])
    assert _rates(device) == [[4], [8, 6]]


def test_a_latency_is_told_of_one_suite_where_two_measured_it(tmp_path: Path) -> None:
    def loads(ns: str, duration_of: str) -> StoredRun:
        labels = {**KINDS["load"], "access_size_bytes": 64, "pattern": "random"}
        return micro_run(tmp_path, [duration("latency", {ns: 9}, **labels)], settings=duration_of)

    (device,) = devices([loads("100", "1s"), loads("900", "50ms")])
    rows = {finding.question: finding.rows for finding in findings(device)}
    assert [(row.name, row.at(50)) for row in rows["Latency, load, 64 B"]] == [("random", 100)]


def test_latencies_of_several_instruction_sets_name_them(tmp_path: Path) -> None:
    def loads(isa: str, ns: str) -> StoredRun:
        labels = {**KINDS["load"], "access_size_bytes": 64, "range_bytes": 256 << 20, "isa": isa}
        metrics = [duration("latency", {ns: 100}, pattern=pattern, **labels)
                   for pattern in ("random", "sequential")]  # fmt: skip
        return micro_run(tmp_path, metrics, requested={"isa": isa})

    (device,) = devices([loads("avx512", "170"), loads("sse2", "180")])
    (finding,) = (
        finding for finding in findings(device) if finding.question == "Latency, load, 64 B"
    )
    assert {row.name: row.at(50) for row in finding.rows} == {
        f"{pattern} in 256 MiB ({isa})": ns
        for isa, ns in (("avx512", 170), ("sse2", 180))
        for pattern in ("random", "sequential")
    }


def test_two_measurements_that_did_the_same_are_two_experiments(tmp_path: Path) -> None:
    """256 B of two threads, in DaMoN'19's Figure 1 and in its Figure 2: a pair of tiers each."""
    metrics = [rate(name, 4, 6, **KINDS["load"]) for name in ("granularity", "threads")]
    ours, theirs = (devices([micro_run(tmp_path, metrics)])[0].select(RATE) for _ in range(2))
    assert len(experiments(ours)) == 2
    names = [(a["measurement"], b["measurement"]) for a, b in pairs(ours, theirs)]
    assert names == [("granularity", "granularity"), ("threads", "threads")]
    assert [b["measurement"] for _, b in pairs(ours[:1], theirs[1:])] == ["threads"]


def test_compare_pairs_what_two_tiers_did_whatever_they_are_made_of(tmp_path: Path) -> None:
    """Pages, DAX and a file system are the tier's: they are what is compared."""
    stores = {"configuration": "threads/flush=clwb", "flush": "clwb"}
    read = {"configuration": "read/bs=4k"}
    for labels, on_dram, on_pmem in (
        (stores, {"pages": "huge"}, {"pages": "dax", "persistent": "adr"}),
        (read, {"filesystem": "xfs", "dax": "no"}, {"filesystem": "ext4", "dax": "yes"}),
    ):
        dram, pmem = (
            micro_run(tmp_path, [_reads(4, **labels, **more)], tier=tier, suite="mine")
            for tier, more in (("dram", on_dram), ("pmem", on_pmem))
        )
        assert set(measured(dram)) == set(measured(pmem))


def test_two_configurations_that_nothing_tells_apart_give_no_ratio(tmp_path: Path) -> None:
    labels = {**KINDS["load"], "access_size_bytes": 64}
    metrics = [
        duration("latency_words", {str(ns): 9}, pattern=pattern, configuration=name, **labels)
        for pattern, ns, name in (
            ("random", 100, "one"), ("random", 300, "other"), ("sequential", 80, "third"),
        )
    ]  # fmt: skip
    run = with_suite(micro_run(tmp_path, metrics), "empirical-guide", ["sec3.2"])
    cell = cells(run)["pmem random over sequential, operation_duration_ratio", "load"]["pmem"]
    assert (cell.code, cell.context.split()[:3]) == ("ambiguous", ["one", "and", "other"])


def test_requests_to_a_small_and_to_a_large_file_are_two_points(tmp_path: Path) -> None:
    def requested(gb_per_s: float, working_set: str) -> StoredRun:
        metrics = [rate("ioping", gb_per_s, 3, operation="read")]
        return micro_run(tmp_path, metrics, settings=working_set)

    (device,) = devices([requested(9, "256MiB"), requested(1, "64GiB"), requested(1, "64GiB")])
    assert [len(point.samples) for point in device.points] == [3, 6]


# Numbers of labels -------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "number"),
    [(0, 0.0), (0.5, 0.5), (4096, 4096.0), (True, 1.0), ("none", 0.0), ("unlimited", math.inf),
     ("many", None), ("4096", None), (None, 0.0)],
)  # fmt: skip
def test_a_label_is_a_number_or_none(label: Label | None, number: float | None) -> None:
    point = Point(RATE, "B/s", "higher", {} if label is None else {"threads": label})
    assert point.number_or_none("threads") == number


@pytest.mark.parametrize("label", ["threads", "access_size_bytes"])
def test_an_unreadable_label_is_an_error_with_the_run(label: str, tmp_path: Path) -> None:
    labels: dict[str, Any] = {"pattern": "random", "access_size_bytes": 64, "threads": 2}
    run = micro_run(
        tmp_path, [rate("access_size", 5.0, **KINDS["load"], **labels | {label: "many"})]
    )
    (device,) = devices([run])
    with pytest.raises(UsageError) as refused:
        device.points[0].number(label)
    assert run.run_id in refused.value.problem and "many" in refused.value.context
    with pytest.raises(UsageError):
        write_cards([run], tmp_path / "card")


# Each question of the card is answered from one experiment ------------------------


def _mix(gb_per_s: float, **labels: Any) -> dict[str, Any]:
    named: dict[str, Any] = {"read_share": 0.5, "threads": 4, "access_size_bytes": 256}
    return rate("mix", gb_per_s, 11, operation="mixed", **named, **labels)


def test_near_and_far_are_compared_within_one_pattern(tmp_path: Path) -> None:
    fig17: dict[str, Any] = {"pattern": "sequential", "partitions": 0}
    runs = [
        micro_run(tmp_path, [_mix(9, **fig17), _mix(8, numa="far", **fig17)], suite="fig17"),
        micro_run(tmp_path, [_mix(4, pattern="random"), _mix(2, numa="far", pattern="random")]),
    ]
    trials = practices(devices(runs)[0])[3].trials
    assert {trial.what: round(present(trial.tested).value, 3) for trial in trials} == {
        "near against far, sequential, 4 threads, 50 % reads": 1.125,
        "near against far, random, 4 threads, 50 % reads": 2.0,
    }


def test_far_is_compared_with_no_other_experiments_near(tmp_path: Path) -> None:
    metrics = [_mix(9, pattern="random", partitions=0), _mix(2, pattern="random", numa="far")]
    (device,) = devices([micro_run(tmp_path, metrics)])
    fourth = practices(device)[3]
    assert (fourth.trials, fourth.missing) == ((), "no-experiment")


def _persisting(kind: str, gb_per_s: float, **labels: Any) -> list[dict[str, Any]]:
    named = {"pattern": "sequential", **KINDS[kind], **labels}
    return [rate("persist_size", gb_per_s, 11, access_size_bytes=size, **named)
            for size in (256, 4096)]  # fmt: skip


def test_persist_instructions_of_one_thread_are_not_those_of_six(tmp_path: Path) -> None:
    """FAST'20's Figure 12 has six threads on its left side."""
    six = {"threads": 6, "partitions": 0, "flush_when": "line"}
    metrics = [*_persisting("ntstore", 2, threads=1), *_persisting("clwb", 2, threads=1),
               *_persisting("ntstore", 12, **six)]  # fmt: skip
    (device,) = devices([micro_run(tmp_path, metrics)])
    (tried,) = practices(device)[1].trials
    assert present(tried.tested).value == 1
    drawn = present(card_drawing(device, "card"))
    assert "11.5 GiB/s" not in drawn.alt and "1.91 GiB/s" in drawn.alt


def test_a_knee_is_of_one_experiment(tmp_path: Path) -> None:
    labels = {"pattern": "random", **KINDS["load"], "threads": 4}
    metrics = [rate("access_size", value, 11, **labels, range_bytes=1 << 30, access_size_bytes=size)
           for size, value in ((64, 1), (256, 4), (4096, 4.1))]  # fmt: skip
    other = [rate("access_size", 9, 3, **labels, range_bytes=4 << 30, access_size_bytes=256)]
    (device,) = devices([micro_run(tmp_path, metrics), micro_run(tmp_path, other, suite="fig5")])
    (knee,) = access_size_knees(device)
    assert [round(p.samples[0] / GB, 1) for p in knee.curve] == [1, 4, 4.1]


def test_configurations_of_two_runs_that_differ_in_their_names_alone_are_one(
    tmp_path: Path,
) -> None:
    def accesses(gb_per_s: float, name: str) -> StoredRun:
        labels = {"pattern": "random", **KINDS["load"], "threads": 4, "access_size_bytes": 64}
        configuration = f"access_size/{name}=64"
        return micro_run(
            tmp_path, [rate("access_size", gb_per_s, 1, **labels, configuration=configuration)]
        )

    (device,) = devices([accesses(4, "access"), accesses(8, "access_size")])
    assert _rates(device) == [[4, 8]]


def _loaded(range_bytes: int, idle: float, loaded: Mapping[float, float]) -> list[dict[str, Any]]:
    metrics = []
    for gb_per_s, latency in {0.0: idle, **loaded}.items():
        named: dict[str, Any] = {"range_bytes": range_bytes,
                                 "configuration": f"pace={gb_per_s}/{range_bytes}"}  # fmt: skip
        beside: dict[str, Any] = {"load_operation": "none", "load_threads": 0}
        if gb_per_s:
            beside = {"load_operation": "load", "load_threads": 3, "job": "chase"}
            metrics.append(
                rate("loaded_latency", gb_per_s, 11, job="load", **KINDS["load"], **named)
            )
        waits = rate("loaded_latency", latency, 11, 1.0, operation="chase", **named, **beside)
        metrics.append(waits | {"name": "latency_ns", "unit": "ns", "better": "lower"})
    return metrics


def test_loaded_latency_of_two_suites_is_no_curve(tmp_path: Path) -> None:
    card_loads = _loaded(1 << 30, 100, {2.0: 110, 4.0: 190, 8.0: 400})
    fig6 = _loaded(2 << 30, 80, {3.0: 170, 6.0: 500})
    (device,) = devices([micro_run(tmp_path, card_loads), micro_run(tmp_path, fig6, suite="fig6")])
    (curve,) = curves(device)
    assert present(curve.idle).samples[0] == 100
    assert [p.wait.samples[0] for p in curve.points] == [110, 190, 400]


@pytest.mark.parametrize("later", [{}, {9.0: 500.0}, {9.0: 150.0}])
def test_a_knee_of_loaded_latency_claims_every_point_and_needs_no_correction(
    tmp_path: Path, later: Mapping[float, float]
) -> None:
    loads = _loaded(1 << 30, 100, {2.0: 110, 4.0: 190, 8.0: 400, **later})
    (device,) = devices([micro_run(tmp_path, loads)])
    (knee,) = card_trials(device).knees
    assert isinstance(knee, LoadedKnee)
    assert present(knee.curve.knee).wait.samples[0] == 190
    assert present(knee.tested).p == 2 / 2**11
    assert knee.shown is (150 not in later.values())


# What the caches hold -----------------------------------------------------------


def _with_llc(run: StoredRun, mib: int) -> StoredRun:
    """Add the program's report of the processor, as the runner stores it."""
    return with_artifacts(run, {"microbench": {"result": {"cpu": {"llc_bytes": mib << 20}}}})


def _reads_in(gb_per_s: float, mib: int) -> list[dict[str, Any]]:
    labels = {"pattern": "sequential", "access_size_bytes": 4096, **KINDS["load"]}
    return [rate("sequential", gb_per_s, threads=threads, range_bytes=mib << 20, **labels)
            for threads in (1, 2)]  # fmt: skip


def _price(device: Device) -> float | None:
    return COLUMNS[0].value(device, 1.0)


def test_a_range_that_the_cache_holds_is_no_figure_of_the_tier(tmp_path: Path) -> None:
    quick = micro_run(tmp_path, _reads_in(90, 16), suite="quick")
    whole = _with_llc(micro_run(tmp_path, _reads_in(9, 256)), 32)
    (device,) = devices([quick, whole])
    (only,) = devices([whole])
    assert _price(device) == _price(only) is not None
    (left_out,) = (
        finding for finding in findings(device) if finding.question == "Left out of this card"
    )
    assert left_out.rows == ("sequential in 16 MiB",)
    assert "last-level cache of 32 MiB" in left_out.figures


def test_a_card_of_nothing_but_the_cache_shows_no_bandwidth(tmp_path: Path) -> None:
    run = card_run(tmp_path)
    for metric in run.document["metrics"]:
        metric["labels"]["range_bytes"] = 64 << 20
    del vars(run)["result"]  # it is made of the document again
    (device,) = devices([_with_llc(run, 32)])
    assert card_drawing(device, "card") is None
    assert [finding.question for finding in findings(device)] == ["Left out of this card"]
    assert {practice.outcome for practice in practices(device)} == {"not testable here"}
    assert practices(device)[0].missing == "no-experiment"


# Overwrites ---------------------------------------------------------------------


def test_the_cards_tail_is_measured_as_fast20s_figure_3() -> None:
    def jobs(name: str) -> set[tuple[str, str, str, int]]:
        suite = load_suite(known_suites()[name], variables_here())
        tail_jobs = (
            job
            for measurement in suite.measurements
            if measurement.name == "overwrite_tail"
            for job in measurement.jobs
        )
        return {(job.kind, str(job.keys["pattern"]), str(job.keys["before"]), job.range_bytes)
                for job in tail_jobs}  # fmt: skip

    card, fig3 = jobs("device-card"), jobs("empirical-guide/fig3")
    assert len(card) == 5 and card <= fig3
