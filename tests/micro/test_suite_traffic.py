"""What memory and devices move while a configuration is measured. The counters are stand-ins."""

from __future__ import annotations

from dataclasses import replace

import pytest
from micro_suites import DRAM, overrides, suite
from test_effective_write_ratio import SMALL, WRITES, work  # noqa: F401

from harness.micro.native import prepare
from harness.micro.protocol import MicroContext
from harness.micro.traffic import TrafficReader, traffic_metrics


class Growing:
    """A counter that has grown by a MiB at each reading."""

    def __init__(self) -> None:
        self.readings = 0

    def totals(self) -> dict[str, float]:
        self.readings += 1
        return {"dram_read_bytes": self.readings * 2.0**20}


@pytest.mark.system
def test_counters_are_read_at_both_ends_of_each_measured_part(work: MicroContext) -> None:  # noqa: F811
    counter = Growing()
    program = prepare(suite(WRITES, SMALL), work.tier, work.env, overrides(), overwrite=False)
    found = program.measure(replace(work, traffic=TrafficReader([counter.totals]))).metrics
    moved = [one for one in found if one.name == "traffic_bytes_per_second"]
    assert counter.readings == 2 * 2 * work.repeats
    found_of = {one.labels["operation"]: (one.labels["counter"], one.samples) for one in moved}
    assert {name: counter for name, (counter, _) in found_of.items()} == {
        "ntstore": "dram_read", "store": "dram_read",
    }  # fmt: skip
    assert all(rate > 0 for _, samples in found_of.values() for rate in samples or (0,))


def test_nothing_counts_the_traffic_of_memory_without_monitors() -> None:
    assert TrafficReader.of([], DRAM) is None


def test_a_counter_that_a_repeat_lacks_is_left_out() -> None:
    rates = [{"dram_read_bytes": 1.0, "tier_read_bytes[tier=ssd]": 2.0}, {"dram_read_bytes": 3.0}]
    (only,) = traffic_metrics({"configuration": "c"}, rates)
    assert only.labels == {"configuration": "c", "counter": "dram_read"}
    assert only.samples == (1.0, 3.0)
