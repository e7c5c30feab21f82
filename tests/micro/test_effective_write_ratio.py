"""Each configuration of a suite has the effective write ratio of its own writes.

The counters are written for these tests in the form of ``ipmctl show -dimm -performance``: there
are no Optane modules here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from micro_suites import DRAM, overrides, suite

from harness.execution.environment import open_environment
from harness.micro.native import prepare
from harness.micro.protocol import MicroContext, ProgramOutcome, TrafficReader, traffic_metrics
from harness.monitors.dimm_media import MediaReader
from harness.progress import progress_on_stderr

WRITES = """
  writes:
    matrix: {kernel: [ntstore+sfence, store+sfence]}
    args: {pattern: random, access: 64, threads: 1}
"""
SMALL = "{range: 16MiB, duration: 5ms}"


@dataclass
class Modules:
    """Two modules; between readings, each moves what is next in line, then the last of it."""

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
    media = MediaReader(modules.printed, idle_write_bytes_per_s=64.0)
    program = prepare(suite(WRITES, SMALL), work.tier, work.env, overrides(), overwrite=False)
    return program.measure(replace(work, media=media))


@pytest.mark.system
def test_a_configuration_has_a_sample_a_repeat(work: MicroContext) -> None:
    # Before the first; then the two configurations, twice.
    modules = Modules([(7, 7), (100, 25), (100, 98), (100, 26), (100, 97)])
    found = measured(work, modules).metrics
    ratios = {m.labels["operation"]: m.samples for m in found if m.name == "effective_write_ratio"}
    assert ratios == {"ntstore": (0.25, 0.26), "store": (0.98, 0.97)}
    (drift,) = (m for m in found if m.name == "idle_media_write_bytes_per_second")
    assert drift.value == 64.0


@pytest.mark.system
def test_what_wrote_nothing_has_no_ratio(work: MicroContext) -> None:
    names = {metric.name for metric in measured(work, Modules([(0, 5)])).metrics}
    assert "effective_write_ratio" not in names and "bandwidth_bytes_per_second" in names


def test_a_reader_measures_what_idle_modules_write() -> None:
    reader = MediaReader.here(Modules([(3, 0)]).printed, idle_s=0)
    assert reader is not None and reader.idle_write_bytes_per_s > 0
    assert reader.moved()["media_write_bytes"] == 2 * 3 * 64


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
    found = program.measure(replace(work, traffic=TrafficReader([counter.totals]))).metrics
    moved = [one for one in found if one.name == "traffic_bytes_per_second"]
    assert counter.readings == 2 * 2 * work.repeats
    found_of = {one.labels["operation"]: one.labels["counter"] for one in moved}
    assert found_of == {"ntstore": "dram_read", "store": "dram_read"}
    assert all(rate > 0 for one in moved for rate in one.samples or (0,))


def test_nothing_counts_the_traffic_of_memory_without_monitors() -> None:
    assert TrafficReader.of([], DRAM) is None


def test_a_counter_that_a_repeat_lacks_is_left_out() -> None:
    rates = [{"dram_read_bytes": 1.0, "tier_read_bytes[tier=ssd]": 2.0}, {"dram_read_bytes": 3.0}]
    (only,) = traffic_metrics({"configuration": "c"}, rates)
    assert only.labels == {"configuration": "c", "counter": "dram_read"}
    assert only.samples == (1.0, 3.0)
