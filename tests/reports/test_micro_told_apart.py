"""Points that are equal in all labels and were configured otherwise are never taken for one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from micro_runs import GB, KINDS, duration, micro_run, paper_cells, rate, shown, with_suite
from narrowed import present

from harness.errors import UsageError
from harness.store.runs import StoredRun
from reports.micro.figures import measurements
from reports.micro.findings import findings
from reports.micro.pairs import pairs
from reports.micro.papers import paper_rows
from reports.micro.points import RATE, Device, devices, number_in
from reports.micro.questions import experiments, thread_counts
from reports.micro.report import write_cards
from reports.statistics import Missing
from reports.values import measured


def _reads(gb_per_s: float, **labels: Any) -> dict[str, Any]:
    named = {**KINDS["load"], "pattern": "sequential", "access_size_bytes": 256, "threads": 1}
    return rate("threads", gb_per_s, 1, **(named | labels))


def _threads(root: Path, gb_per_s: float, duration: str = "1s", **requested: str) -> StoredRun:
    run = micro_run(root, [_reads(gb_per_s)], suite="fig4", requested=requested)
    measured = {"threads": {"args": {"duration": duration}, "matrix": {"threads": [1]}}}
    return with_suite(run, "empirical-guide", ["fig4"], schema=1, measurements=measured)


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
    found = devices(runs)
    names = shown or [state or "unknown" for state in states]
    assert [device.name for device in found] == [f"pmem ({name} {one})" for one in names]
    assert [len(device.runs) for device in found] == [2, 1, 1]


@pytest.mark.parametrize(
    ("changed", "suite"), [({"duration": "50ms"}, "fig4"), ({"cpus": "3"}, "fig4 -p cpus=3")]
)
def test_a_suite_that_was_set_otherwise_between_two_runs_makes_two(tmp_path, changed, suite):
    (device,) = devices([_threads(tmp_path, 4), _threads(tmp_path, 8, **changed)])
    assert _rates(device) == [[4], [8]]
    assert len(thread_counts(device)) == 1
    assert _cell(device).code == "ambiguous"
    titles = [one.title for one in measurements(device, "card")]
    assert titles == [f"threads: bandwidth, suite {name}" for name in ("fig4", suite)]


def test_each_pattern_has_the_thread_counts_of_its_own_suite(tmp_path: Path) -> None:
    """FAST'20's Figure 4 is sequential, DaMoN'19's Figure 2 at random places, set otherwise."""
    random = micro_run(
        tmp_path, [_reads(2, pattern="random"), _reads(3, pattern="random", threads=2)]
    )
    (device,) = devices([_threads(tmp_path, 4), with_suite(
        random, schema=1, measurements={"threads": {"duration": "50ms"}})])  # fmt: skip
    found = [(p["pattern"], p["threads"]) for p in thread_counts(device)]
    assert sorted(found) == [("random", "1"), ("random", "2"), ("sequential", "1")]


def test_fios_files_of_other_sizes_are_other_files(tmp_path: Path) -> None:
    def reads(gb_per_s: float, size: str, depths: list[int]) -> StoredRun:
        run = micro_run(tmp_path, [rate("read", gb_per_s, 1, queue_depth=1)], suite="block-io")
        measured = {"read": {"operation": "read", "queue_depth": depths}}
        return with_suite(run, schema=1, params={"size": size, "measurements": measured})

    small, large, more = reads(4, "1GiB", [1]), reads(8, "4GiB", [1]), reads(6, "4GiB", [1, 8])
    (device,) = devices([small, large, more])
    assert _rates(device) == [[4], [8, 6]]


def test_a_latency_is_told_of_one_suite_where_two_measured_it(tmp_path: Path) -> None:
    def loads(ns: str, duration_of: str) -> StoredRun:
        labels = {**KINDS["load"], "access_size_bytes": 64, "pattern": "random"}
        run = micro_run(tmp_path, [duration("latency", {ns: 9}, **labels)])
        return with_suite(run, schema=1, measurements={"latency": {"duration": duration_of}})

    (device,) = devices([loads("100", "1s"), loads("900", "50ms")])
    rows = {one.question: one.rows for one in findings(device)}
    assert [(row.name, row.at(50)) for row in rows["Latency, load, 64 B"]] == [("random", 100)]


def test_latencies_of_several_instruction_sets_name_them(tmp_path: Path) -> None:
    def loads(isa: str, ns: str) -> StoredRun:
        labels = {**KINDS["load"], "access_size_bytes": 64, "range_bytes": 256 << 20, "isa": isa}
        metrics = [duration("latency", {ns: 100}, pattern=pattern, **labels)
                   for pattern in ("random", "sequential")]  # fmt: skip
        return micro_run(tmp_path, metrics, requested={"isa": isa})

    (device,) = devices([loads("avx512", "170"), loads("sse2", "180")])
    (one,) = (one for one in findings(device) if one.question == "Latency, load, 64 B")
    assert {row.name: row.at(50) for row in one.rows} == {
        f"{pattern} in 256 MiB ({isa})": ns
        for isa, ns in (("avx512", 170), ("sse2", 180))
        for pattern in ("random", "sequential")
    }


def test_what_a_suite_sets_and_a_label_tells_is_no_other_setting(tmp_path: Path) -> None:
    """Random and sequential accesses of two measurements are of one experiment."""
    metrics = [
        rate(name, 4, 6, **KINDS["load"], pattern=pattern)
        for name, pattern in (("at_random", "random"), ("in_order", "sequential"))
    ]
    run = with_suite(
        micro_run(tmp_path, metrics), schema=1, defaults={"range": "1GiB", "duration": "1s"},
        measurements={"at_random": {"args": {"pattern": "random"}, "matrix": {"threads": [1]}},
                      "in_order": {"pattern": "sequential"}},
    )  # fmt: skip
    (device,) = devices([run])
    assert len(experiments(device.select(RATE), "measurement", "pattern")) == 1
    assert len(experiments(device.select(RATE), "measurement")) == 2


def test_two_measurements_that_did_the_same_are_two_experiments(tmp_path: Path) -> None:
    """256 B of two threads, in DaMoN'19's Figure 1 and in its Figure 2: a pair of tiers each."""
    metrics = [rate(name, 4, 6, **KINDS["load"]) for name in ("granularity", "threads")]
    ours, theirs = (devices([micro_run(tmp_path, metrics)])[0].select(RATE) for _ in range(2))
    assert len(experiments(ours)) == 2
    held = [(a["measurement"], b["measurement"]) for a, b in pairs(ours, theirs)]
    assert held == [("granularity", "granularity"), ("threads", "threads")]
    assert [b["measurement"] for _, b in pairs(ours[:1], theirs[1:])] == ["threads"]


def test_what_jobs_beside_do_is_in_no_label_and_sets_points_apart(tmp_path: Path) -> None:
    def waits(pattern: str) -> StoredRun:
        run = micro_run(tmp_path, [rate("loaded", 4, 6, **KINDS["load"], job="one")])
        jobs = {"one": {"kernel": "load"}, "other": {"kernel": "load", "pattern": pattern}}
        return with_suite(run, schema=1, measurements={"loaded": {"jobs": jobs}})

    (device,) = devices([waits("random"), waits("sequential")])
    assert _rates(device) == [[4] * 6, [4] * 6]


def test_a_swept_key_without_a_label_becomes_one(tmp_path: Path) -> None:
    metrics = [
        _reads(value, configuration=f"threads/kernel=load,lane={lane}")
        for lane, value in (("words", 3), ("vector", 9))
    ]
    (device,) = devices([micro_run(tmp_path, metrics)])
    assert {p["lane"]: round(p.samples[0] / GB) for p in device.select(RATE)} == {
        "words": 3, "vector": 9,
    }  # fmt: skip
    assert len(experiments(device.select(RATE))) == 2
    (table,) = measurements(device, "card")
    assert table.head[0] == "lane" and [row[0] for row in table.rows] == ["vector", "words"]


def test_compare_pairs_what_two_tiers_did_whatever_they_are_made_of(tmp_path: Path) -> None:
    """Pages, DAX and a file system are the tier's: they are what is compared."""
    stores = {"configuration": "threads/flush=clwb", "flush": "clwb"}
    read = {"configuration": "read/bs=4k"}
    for labels, one, other in (
        (stores, {"pages": "huge"}, {"pages": "dax", "persistent": "adr"}),
        (read, {"filesystem": "xfs", "dax": "no"}, {"filesystem": "ext4", "dax": "yes"}),
    ):
        dram, pmem = (
            micro_run(tmp_path, [_reads(4, **labels, **more)], tier=tier, suite="mine")
            for tier, more in (("dram", one), ("pmem", other))
        )
        assert set(measured(dram)) == set(measured(pmem))


def test_readers_beside_other_writers_are_other_readers(tmp_path: Path) -> None:
    """FAST'20, Figure 6: the readers' own labels do not say how many write beside them."""
    metrics = [
        _reads(value, job="readers", configuration=f"both/readers.threads=1,writers.threads={n}")
        for n, value in ((1, 9), (4, 2))
    ]
    (device,) = devices([micro_run(tmp_path, metrics)])
    rates = {p["writers.threads"]: round(p.samples[0] / GB) for p in device.select(RATE)}
    assert rates == {"1": 9, "4": 2}


def test_two_configurations_that_nothing_tells_apart_give_no_ratio(tmp_path: Path) -> None:
    labels = {**KINDS["load"], "access_size_bytes": 64}
    metrics = [
        duration("latency", {str(ns): 9}, pattern=pattern, configuration=name, **labels)
        for pattern, ns, name in (
            ("random", 100, "one"), ("random", 300, "other"), ("sequential", 80, "third"),
        )
    ]  # fmt: skip
    run = with_suite(micro_run(tmp_path, metrics), "empirical-guide", ["sec3.2"])
    cell = paper_cells(run)["pmem random over sequential, operation_duration_ratio", "load"]["pmem"]
    assert cell == Missing("ambiguous", "one and other are distinguished by no label")


def test_requests_to_a_small_and_to_a_large_file_are_two_points(tmp_path: Path) -> None:
    def requested(gb_per_s: float, working_set: str) -> StoredRun:
        run = micro_run(tmp_path, [rate("ioping", gb_per_s, 3, operation="read")])
        params = {"requests": 2000, "working_set": working_set}
        return with_suite(run, schema=1, program="ioping", params=params)

    (device,) = devices([requested(9, "256MiB"), requested(1, "64GiB"), requested(1, "64GiB")])
    assert [len(point.samples) for point in device.points] == [3, 6]


# Numbers of labels -------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0.0), ("none", 0.0), ("0.5", 0.5), ("4096", 4096.0), ("4KiB", 4096.0), ("1GB/s", 1e9),
     ("200us", 200e3), ("unlimited", math.inf), ("many", None), ("4 KB?", None), ("0,5 GiB", None),
     ("nan", None), ("inf", None), ("1e999", None)],
)  # fmt: skip
def test_a_label_is_a_number_or_none(text: str, number: float | None) -> None:
    assert number_in(text) == number


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
