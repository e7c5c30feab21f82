"""The program's observations while it measured: warnings, write ratios, resumable results."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from micro_suites import DRAM, RANDOM, capacity, overrides, suite
from recorded_kernel import write

from harness.errors import RunFailed
from harness.execution.environment import open_environment
from harness.micro.host_suite import suite_on
from harness.micro.metrics import SuiteResult, Target, pages_of
from harness.micro.model import Job, Measurement
from harness.micro.native import UnderWay, prepare
from harness.micro.protocol import MicroContext, ProgramOutcome, TrafficReader, traffic_metrics
from harness.micro.result_warnings import warnings_of
from harness.micro.spec import measurement_name
from harness.monitors.dimm_media import MediaReader, effective_write_ratio
from harness.progress import progress_on_stderr
from harness.structs import convert
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts

MIB = 1 << 20
MS = 1_000_000


def thread(cpu: int = 0, ran_ns: int = 100 * MS, share: float = 1, **faults: int) -> dict[str, Any]:
    """A thread that had its processor for a share of its time."""
    ran = {"cpu": cpu, "cpu_ns": int(share * ran_ns), "begin_ns": 0, "end_ns": ran_ns}
    return {**ran, "minor_faults": 0, "major_faults": 0, **faults}


def repeat(*jobs: dict[str, Any], duration_ns: int = 100 * MS, **more: Any) -> dict[str, Any]:
    every = [
        {"kind": "latency", "latency_hdr": None, "durable": None, "threads": [],
         "window": {"duration_ns": duration_ns}, **job}
        for job in jobs
    ]  # fmt: skip
    return {"stolen_ns": None, "core_hz": 0, "duration_ns": duration_ns, "jobs": every, **more}


def named(names: str) -> tuple[Measurement, ...]:
    return suite("".join(f"  {name}: {{{RANDOM}}}\n" for name in names.split())).measurements


def contexts(
    code: str,
    measurements: tuple[Measurement, ...] = (),
    repeats: dict[tuple[int, int], dict[str, Any]] | None = None,
    step_ns: float = 0.4,
    **targets: dict[str, Any],
) -> list[str]:
    """Return the contexts of warnings of this code; ``repeats``: by number and block."""
    result = {
        "cpu": {"stamp_step_ns": step_ns},
        "targets": targets,
        "notes": [],
        "measurements": [
            {"name": measurement_name(*key), "repeats": [result_of_repeat]}
            for key, result_of_repeat in (repeats or {}).items()
        ],
    }
    blocks = 1 + max((block for _, block in repeats or {}), default=-1)
    warnings = warnings_of(SuiteResult.read(measurements, blocks, result))
    return [warning.context for warning in warnings if warning.code == code]


# Time that other guests had ------------------------------------------------------


def stolen(*blocks: tuple[int, int | None], cpus: tuple[int, ...] = (0, 1)) -> str | None:
    """Return the warning for blocks of so many ms, of which so many (of all cpus) were stolen."""
    measured = Measurement(
        "random", (Job("random", "throughput", 2, 1 << 30),), (), 500 * MS, 500 * MS
    )
    repeats = {
        (0, block): repeat(
            {"threads": [thread(cpu, wall * MS) for cpu in cpus]},
            duration_ns=wall * MS,
            stolen_ns=None if ms is None else ms * MS,
        )
        for block, (wall, ms) in enumerate(blocks)
    }
    return next(iter(contexts("stolen-while-measuring", (measured,), repeats)), None)


@pytest.mark.parametrize("block", [(5, 40), (1500, 0), (1500, 30), (1500, None)])
def test_a_tick_or_a_hundredth_is_not_told(block: tuple[int, int | None]) -> None:
    """Four ticks of 10 ms in 5.5 ms were once reported as 730 %."""
    assert stolen(block) is None


@pytest.mark.parametrize(
    ("blocks", "cpus", "ending"),
    [
        ([(100, 90), (100, 30)], (0, 1), "5% in 2 shorter ones together"),
        # With the warm-up two processors had 2 s each.
        ([(1500, 400)], (0, 1), "in 1 of 1 measurements of 1 s or more, up to 10%"),
        ([(1500, 400)], (0, 0), "up to 20%"),
        ([(1500, 40_000), (1500, 0)], (0, 1), "in 1 of 2 measurements of 1 s or more, up to 100%"),
        ([(1500, 4_000), (1500, 0)], (0, 1), "up to 100%"),
    ],
)
def test_what_is_stolen_is_a_share_of_all_processors_time(blocks, cpus, ending):
    assert (stolen(*blocks, cpus=cpus) or "").endswith(ending)


def shared(ran: dict[tuple[int, int], float], names: str) -> list[str]:
    repeats = {key: repeat({"threads": [thread(share=share)]}) for key, share in ran.items()}
    return contexts("processors-shared", named(names), repeats)


def test_the_configurations_that_lost_most_are_named_with_their_worst_repeat() -> None:
    ran = {(0, 0): 1.0, (0, 1): 1.0, (1, 0): 0.9, (1, 1): 0.37, (2, 0): 0.99, (2, 1): 0.8}
    (context,) = shared(ran, "calm worst bad")
    assert "in 3 of 6 measurements" in context
    assert "worst (63%); bad (20%)" in context and "calm" not in context


def test_nothing_is_told_where_all_ran() -> None:
    assert shared({(0, 0): 1.0, (1, 0): 0.99}, "a b") == []


# Time that other processes had -----------------------------------------------------


# Pages that were taken, protected or moved -------------------------------------------


def faulting(*configurations: list[dict[str, Any]]) -> list[str]:
    repeats = {(n, 0): repeat({"threads": its}) for n, its in enumerate(configurations)}
    return contexts("page-faults", named("a b c"[: 2 * len(configurations)]), repeats)


def test_a_thread_that_faulted_for_a_part_of_its_time_is_told_by_its_configuration() -> None:
    # 40,000 times 250 ns, and 300 times 10 us, each of 100 ms; the worst thread counts.
    (context,) = faulting(
        [thread(), thread(minor_faults=40_000)], [thread(major_faults=300)], [thread()]
    )
    assert "in 2 of 3 " in context and "0.5%" in context
    assert " a (10%); b (3.0%)" in context


def test_a_few_faults_or_those_of_a_thread_that_hardly_ran_are_no_part_of_a_figure() -> None:
    assert faulting([thread(minor_faults=1_999)], [thread(major_faults=49)]) == []
    assert faulting([thread(ran_ns=MS // 2, minor_faults=1_000)]) == []


def test_more_than_all_of_its_time_is_all_of_it() -> None:
    (context,) = faulting([thread(minor_faults=10_000_000)])
    assert "a (100%)" in context


def short(*windows_ns: int, kind: str = "throughput") -> list[str]:
    """Return the warnings for configurations a, b … whose threads ran together for so long."""
    repeats = {(n, 0): repeat({"kind": kind}, duration_ns=ns) for n, ns in enumerate(windows_ns)}
    return contexts("short-measurements", named("a b c d e"), repeats)


def test_the_shortest_are_named() -> None:
    (context,) = short(900 * MS, 7_800, 9 * MS, 124_000, 3 * MS)
    assert context.startswith("4 configurations, the shortest ")
    assert "b (7.8 µs); d (124 µs); e (3 ms); …" in context


def test_latencies_and_measurements_of_10_ms_are_not() -> None:
    windows = (10 * MS, 2000 * MS, 10 * MS, 10 * MS, 10 * MS)
    assert short(*windows) == []
    assert short(7_800, *windows[1:], kind="latency") == []


# Rates over so little time that starting and ending are a part of them ---------------


@pytest.mark.parametrize(("clocks", "count"), [((3.0, 3.1), 0), ((3.0, 2.8), 1), ((0, 3.0), 0)])
def test_a_core_clock_that_moves_by_more_than_a_twentieth_is_told(clocks, count):
    """A clock of 0 is one that the program could not measure."""
    repeats = {(0, block): repeat({}, core_hz=ghz * 1e9) for block, ghz in enumerate(clocks)}
    assert len(contexts("core-clock-changed", named("a"), repeats)) == count


# The steps of the clock that stamps single operations --------------------------------


def stepped(step_ns: float, *jobs: tuple[str, str | None]) -> list[str]:
    """Return the warnings for a measurement of these kinds, each with its histogram or none."""
    measured = repeat(*({"kind": kind, "latency_hdr": hdr} for kind, hdr in jobs))
    return contexts("coarse-time-stamps", named("a"), {(0, 0): measured}, step_ns)


@pytest.mark.parametrize("kind", ["latency", "chain", "log", "page"])
def test_steps_are_told_where_operations_were_timed_one_by_one(kind: str) -> None:
    (context,) = stepped(10.015, ("throughput", None), (kind, "HISTFAAA"))
    assert "steps of 10.0 ns" in context


def test_rates_means_over_many_loads_and_fine_clocks_have_none_worth_telling() -> None:
    assert stepped(10.015, ("throughput", None), ("log", None), ("chase", "HISTFAAA")) == []
    assert stepped(0.385, ("latency", "HISTFAAA")) == []


# Pages that a target really lies on ----------------------------------------------------


def target(kind: str, huge_bytes: int | None, **more: Any) -> dict[str, Any]:
    asked = {"pages": "huge" if kind == "dram" else None, "map_sync": None}
    return {"kind": kind, "size_bytes": 8 * MIB, "huge_bytes": huge_bytes, **asked, **more}


@pytest.mark.parametrize(
    ("memory", "label", "warning"),
    [
        (target("dram", 8 * MIB), "huge", None),
        (target("dram", 0), "base", "0 B of 8 MiB lie on huge pages"),
        (target("dram", None, pages="base"), "dram", None),
        (target("file", 8 * MIB, map_sync=True), "huge", None),
        (target("file", 4 * MIB, map_sync=True), "mixed", "4 MiB of 8 MiB are mapped by pages of"),
        (target("file", 0, map_sync=True), "base", "0 B of 8 MiB are mapped by pages of 2 MiB"),
        (target("file", None, map_sync=True), "file", None),
        (target("file", 8 * MIB, map_sync=False), "file", None),  # the page cache's, of a tmpfs say
        (target("devdax", 8 * MIB), "huge", None),
        (target("devdax", 0), "base", "0 B of 8 MiB are mapped by pages of 2 MiB"),
        (target("devdax", None), "devdax", None),
    ],
)
def test_the_label_is_what_was_had_and_small_pages_are_told(memory, label, warning):
    assert pages_of(convert(memory, Target, "")) == label
    said = contexts("huge-pages-missing", t=memory)
    assert [text.startswith(warning or "") for text in said] == [True] * bool(warning)


# What an earlier attempt measured on the same memory ------------------------------


SPEC = {"targets": {"dram": {"kind": "dram", "node": 0}}}


@pytest.mark.parametrize(
    ("kind", "unit", "warned"),
    [
        ("devdax", None, False),
        ("file", 0, False),  # in one piece
        ("file", 48 << 10, False),
        ("file", 2 * MIB, True),  # pieces at any huge page: 2 MiB are 85 1/3 stripes of six DIMMs
        ("file", None, True),
    ],
)
def test_a_file_in_pieces_does_not_have_the_dimms_of_its_stripes(kind, unit, warned):
    dimms = "args: {kernel: load, access: 64, pattern: dimms}"
    measurements = suite(f"  reads: {{{dimms}}}\n").measurements
    where = target(kind, 0, extent_unit_bytes=unit)
    texts = contexts("dimms-mixed", measurements, {(0, 0): repeat({"target": "near"})}, near=where)
    assert bool(texts) is warned


def result(name: str, huge_bytes: int, node: str = "0") -> dict[str, Any]:
    target = {"kind": "dram", "pages": "huge", "size_bytes": 100, "huge_bytes": huge_bytes,
              "map_sync": None, "nodes": {node: 9}}  # fmt: skip
    return {"measurements": [{"name": name}], "targets": {"dram": target}}


class Work:
    """A workplace that notes finished steps."""

    repeats = 2
    media = None

    def __init__(self) -> None:
        self.steps: list[str] = []

    def finish(self, name: str, document: Any) -> None:
        self.steps.append(name)


def under_way(work: Work, **results: dict[str, Any]) -> UnderWay:
    host_suite = suite_on(suite(f"  m: {{{RANDOM}}}"), capacity(), overrides())
    nothing: Any = None
    workplace: Any = work
    return UnderWay(host_suite, SPEC, workplace, nothing, dict(results))


def test_results_of_the_same_memory_are_stored() -> None:
    work = Work()
    progress = under_way(work, first=result("first", 100))
    progress.receive("measured", result("second", 99))
    assert work.steps == ["second"] and list(progress.results) == ["first", "second"]


@pytest.mark.parametrize("other", [result("second", 0), result("second", 100, node="1")])
def test_other_pages_or_nodes_end_the_run(other: dict[str, Any]) -> None:
    work = Work()
    with pytest.raises(RunFailed, match="resume"):
        under_way(work, first=result("first", 100)).receive("measured", other)
    assert work.steps == []


# The effective write ratio of each configuration ----------------------------------


WRITES = """
  writes:
    matrix: {kernel: [ntstore+sfence, store+sfence]}
    args: {pattern: random, access: 64, threads: 1}
"""
SMALL = "{range: 16MiB, count: 10000}"


@dataclass
class Modules:
    """Two modules; before each reading, each moves what is next in line, then the last of it."""

    moved: list[tuple[int, int]]
    at: dict[str, int] = field(default_factory=lambda: {"media": 1000, "requests": 1000})

    def printed(self) -> str:
        media, requests = self.moved.pop(0) if len(self.moved) > 1 else self.moved[0]
        self.at["media"] += media
        self.at["requests"] += requests
        counters = {"MediaReads": 5, "MediaWrites": self.at["media"],
                    "ReadRequests": 5, "WriteRequests": self.at["requests"]}  # fmt: skip
        lines = "".join(f"   {name}=0x{value:032x}\n" for name, value in counters.items())
        return "".join(f"---DimmID={module}---\n{lines}" for module in ("0x0001", "0x0011"))


@pytest.fixture
def work() -> Iterator[MicroContext]:
    with (
        progress_on_stderr(quiet=True) as progress,
        open_environment(None, [], progress) as env,
        env.scratch() as scratch,
    ):
        yield MicroContext(env.tiers["dram"], env, None, scratch, seed=1, repeats=2)


def measured(work: MicroContext, modules: Modules) -> ProgramOutcome:
    media = MediaReader(modules.printed, idle_bytes_per_s={"media_write_bytes": 64.0})
    program = prepare(suite(WRITES, SMALL), work.tier, work.env, overrides(), overwrite=False)
    return program.measure(replace(work, media=media))


@pytest.mark.system
def test_a_configuration_has_a_sample_a_repeat(work: MicroContext) -> None:
    # Two configurations, twice; what is prepared before each is not in its window.
    windows = [(10_000, 2500), (10_000, 9800), (10_000, 2600), (10_000, 9700)]
    modules = Modules([moved for window in windows for moved in ((900, 900), window)])
    metrics = measured(work, modules).metrics
    ratios = {
        m.labels["operation"]: m.samples for m in metrics if m.name == "effective_write_ratio"
    }
    expected = {"ntstore": (0.25, 0.26), "store": (0.98, 0.97)}
    assert ratios == {name: pytest.approx(both, rel=1e-3) for name, both in expected.items()}
    (drift,) = (m for m in metrics if m.name == "idle_media_write_bytes_per_second")
    assert drift.value == 64.0


@pytest.mark.system
def test_what_wrote_nothing_has_no_ratio(work: MicroContext) -> None:
    names = {metric.name for metric in measured(work, Modules([(0, 5)])).metrics}
    assert "effective_write_ratio" not in names and "bandwidth_bytes_per_second" in names


#: A namespace on one of a host's two modules, as sysfs would show it: made up.
REGION = {
    "region0/mappings": "1\n",
    "region0/mapping0": "nmem1,0,135291469824,0\n",
    "nmem1/nfit/handle": "0x11\n",
    "nmem1/nfit/id": "8089-a2-1839-00000F42\n",
}


def on_region(tmp_path: Path, region: str | None) -> tuple[Tier, Kernel]:
    for name, text in REGION.items():
        write(tmp_path, f"/sys/bus/nd/devices/{name}", text)
    tier = Tier(TierClaim("pmem", "fsdax", path="/x"), TierFacts("fsdax", region=region))
    return tier, Kernel(tmp_path)


@pytest.mark.parametrize(
    ("region", "module", "modules"),
    [("region0", "0x0011", 1), ("region0", "8089-a2-1839-00000f42", 1), (None, "0x0011", 2)],
)
def test_a_reader_counts_the_tier_s_modules_and_measures_them_idle(
    tmp_path, region, module, modules
):
    tier, kernel = on_region(tmp_path, region)
    host = Modules([(3, 0)])
    printed = lambda: host.printed().replace("0x0011", module)  # noqa: E731
    reader = MediaReader.of(tier, printed, idle_s=0, kernel=kernel)
    assert reader is not None and reader.idle_bytes_per_s["media_write_bytes"] > 0
    reader.begin()
    assert reader.moved()["media_write_bytes"] == modules * 3 * 64


def test_a_tier_whose_modules_are_not_listed_has_no_reader(tmp_path):
    tier, kernel = on_region(tmp_path, "region0")
    listed = Modules([(3, 0)]).printed().replace("0x0011", "0x1011")
    assert MediaReader.of(tier, lambda: listed, idle_s=0, kernel=kernel) is None


@pytest.mark.parametrize(
    ("idle_writes", "ratio"),
    [(0, 0.5), (50, 0.5 / 0.95), (101, None)],  # more than a tenth is too much to subtract
)
def test_what_idle_modules_write_is_subtracted_or_leaves_no_ratio(idle_writes, ratio):
    moved = {"media_write_bytes": 1000, "request_write_bytes": 500}
    moved |= {"idle_media_write_bytes": idle_writes, "idle_request_write_bytes": 0}
    assert effective_write_ratio(moved) == (ratio and pytest.approx(ratio))


# What memory and devices move --------------------------------------------------


class Growing:
    """A counter that has grown by a MiB at each reading."""

    def __init__(self) -> None:
        self.readings = 0

    def totals(self) -> dict[str, float]:
        self.readings += 1
        return {"dram_read_bytes": self.readings * 2.0**20}


@pytest.mark.system
def test_counters_are_read_at_both_ends_of_each_measured_part(work: MicroContext) -> None:
    counter = Growing()
    program = prepare(suite(WRITES, SMALL), work.tier, work.env, overrides(), overwrite=False)
    metrics = program.measure(replace(work, traffic=TrafficReader([counter.totals]))).metrics
    moved = [metric for metric in metrics if metric.name == "traffic_bytes_per_second"]
    assert counter.readings == 2 * 2 * work.repeats
    found_of = {metric.labels["operation"]: metric.labels["counter"] for metric in moved}
    assert found_of == {"ntstore": "dram_read", "store": "dram_read"}
    assert all(rate > 0 for metric in moved for rate in metric.samples or (0,))


def test_nothing_counts_the_traffic_of_memory_without_monitors() -> None:
    assert TrafficReader.of([], DRAM) is None


def test_a_counter_that_a_repeat_lacks_is_left_out() -> None:
    rates = [{"dram_read_bytes": 1.0, "tier_read_bytes[tier=ssd]": 2.0}, {"dram_read_bytes": 3.0}]
    (only,) = traffic_metrics({"configuration": "c"}, rates)
    assert only.labels == {"configuration": "c", "counter": "dram_read"}
    assert only.samples == (1.0, 3.0)
