"""The microbenchmark on persistent memory: through a file system with DAX, and on a DAX device.

The processor is emulated: that the program runs there, maps what it says and counts what it
does is looked at, and no figure.
"""

from __future__ import annotations

from typing import Any

import pytest
from vm_harness import Done, harness
from vm_machine import Vm
from vm_playbooks import applied

pytestmark = pytest.mark.vm

#: Stores that persist in the two ways there are, loads, and a chase: small, for a slow processor.
SUITE = """
schema: 1
name: tiny
description: that it works
defaults: {range: 8MiB, duration: 200ms}
measurements:
  access:
    matrix: {kernel: [load, ntstore+sfence, store+clwb+sfence]}
    args: {pattern: random, access: 256, threads: 2}
  chase: {args: {kind: chase}}
"""
CONFIGURATIONS = 4


@pytest.fixture(scope="module")
def measured(lab: Vm) -> dict[str, Done]:
    """fsdax on one region and devdax on the other, measured in turn."""
    applied(lab, "setup-appdirect", {"pmem_regions": ["region0"]})
    applied(lab, "setup-devdax", {"pmem_regions": ["region1"]})
    lab.run("cat > /var/tmp/tiny.yml", given=SUITE)
    command = ("run", "micro", "--suite", "/var/tmp/tiny.yml", "--json", "--tier")
    return {tier: harness(lab, *command, tier) for tier in ("pmem", "pmem_raw")}


@pytest.mark.parametrize("tier", ["pmem", "pmem_raw"])
def test_every_configuration_is_measured(measured: dict[str, Done], tier: str) -> None:
    done = measured[tier]
    assert done.code == 0, done.err + done.out
    (run,) = done.json["runs"]
    assert (run["status"], run["emulated"]) == ("complete", [])
    values: dict[str, list[Any]] = {}
    for metric in run["metrics"]:
        if metric["name"] == "bandwidth_bytes_per_second":
            seen = metric.get("samples") or [metric["value"]]
            values.setdefault(metric["labels"]["configuration"], []).extend(seen)
    assert len(values) == CONFIGURATIONS
    assert all(value > 0 for each in values.values() for value in each)


@pytest.mark.parametrize("tier", ["pmem", "pmem_raw"])
def test_stores_that_reach_the_memory_are_said_to_persist(
    measured: dict[str, Done], tier: str
) -> None:
    (run,) = measured[tier].json["runs"]
    persistent = {
        metric["labels"]["persistent"]
        for metric in run["metrics"]
        if metric["labels"].get("operation") in ("store", "ntstore")
    }
    assert persistent == {"yes"}
