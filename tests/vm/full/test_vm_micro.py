"""The microbenchmark on persistent memory: through a file system with DAX, through one without,
and on a DAX device.

The processor is emulated: that the program runs there, maps what it says and counts what it
does is looked at, and no figure.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from vm_guest import applied, harness
from vm_machine import Vm

from harness import hdr

pytestmark = pytest.mark.vm

MIB = 1 << 20
#: Stores that persist in the two ways there are and those that do not, loads, a chase, single
#: operations, logs and pages (each recovered behind its repeat): small, for a slow processor.
SUITE = """
schema: 1
name: tiny
description: that it works
defaults: {range: 8MiB, duration: 200ms}
measurements:
  access:
    matrix: {kernel: [load, ntstore+sfence, store+clwb+sfence, store]}
    args: {pattern: random, access: 256}
  single: {args: {kind: latency, kernel: ntstore+sfence, access: 64, pattern: random}}
  chase: {args: {kind: chase}}
  log:
    matrix: {writer: [classic, header, dancing, zero]}
    args: {kind: log, entry: 100}
  page:
    matrix: {method: [cow, cow_dirty, cow_invalidate, mulog, hybrid]}
    args: {kind: page, page: 16KiB, dirty_lines: 16}
"""
CONFIGURATIONS = 4 + 1 + 1 + 4 + 5
#: What was written there is said to survive a loss of power, or not.
SURVIVES = {"pmem": True, "pmem_raw": True, "pmem_nodax": False}
#: A file system without DAX beside the one of the playbook, in the same region.
WITHOUT_DAX = """
set -eu
device=$(ndctl create-namespace -r region0 -m fsdax -s 512M |
    sed -n 's#.*"blockdev":"\\([^"]*\\)".*#/dev/\\1#p')
mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 "$device"
mkdir /mnt/nodax
mount "$device" /mnt/nodax
echo '{schema: 1, tiers: {pmem_nodax: {kind: fs-nodax, path: /mnt/nodax}}}' >/var/tmp/nodax.yml
"""


@dataclass(frozen=True)
class Measured:
    """A stored run, and what the native program said of its target."""

    run: dict[str, Any]
    target: dict[str, Any]

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of configurations, without those of the whole run."""
        return [each for each in self.run["metrics"] if "configuration" in each["labels"]]

    def of(self, kind: str) -> Iterator[dict[str, Any]]:
        """The metrics of a kind of job."""
        return (metric for metric in self.metrics if metric["labels"]["kind"] == kind)


@pytest.fixture(scope="module")
def tiers(lab):
    """fsdax on a part of one region, without DAX behind it; devdax on the other."""
    region0 = {"pmem_regions": ["region0"], "pmem_namespace_size": 1 << 30}
    applied(lab, "setup-appdirect", region0)
    applied(lab, "setup-devdax", {"pmem_regions": ["region1"]})
    lab.run(WITHOUT_DAX)
    lab.run("cat > /var/tmp/tiny.yml", given=SUITE)
    return lab


@pytest.fixture(scope="module")
def measured(tiers):
    """The suite on each tier in turn."""
    return {
        "pmem": _measure(tiers, "pmem"),
        "pmem_raw": _measure(tiers, "pmem_raw", "--overwrite"),
        "pmem_nodax": _measure(tiers, "pmem_nodax", "--host", "/var/tmp/nodax.yml"),
    }


def _measure(vm: Vm, tier: str, *more: str) -> Measured:
    results = f"/var/tmp/{tier}"
    argv = ("run", "micro", "--suite", "/var/tmp/tiny.yml", "--json", "--results", results)
    done = harness(vm, *argv, "--tier", tier, *more)
    assert done.code == 0, done.err + done.out
    (run,) = done.json["runs"]
    stored = f"{results}/runs/{run['run_id']}/artifacts/microbench.json"
    (target,) = json.loads(vm.run(f"cat {stored}"))["result"]["targets"].values()
    return Measured(run, target)


@pytest.mark.parametrize("tier", SURVIVES)
def test_every_configuration_is_measured(measured, tier):
    run = measured[tier].run
    assert (run["status"], run["emulated"]) == ("complete", [])
    figures: dict[str, list[float]] = {}
    for metric in run["metrics"]:
        if metric["better"] != "none":
            times = hdr.decode(metric["hdr"]).percentiles([50.0]) if "hdr" in metric else []
            seen = [*metric.get("samples", []), *times]
            figures.setdefault(metric["labels"]["configuration"], []).extend(seen)
    assert len(figures) == CONFIGURATIONS, figures.keys()
    assert all(each and min(each) > 0 for each in figures.values()), figures


@pytest.mark.parametrize("tier", SURVIVES)
def test_what_the_target_is_stands_in_the_result(measured, tier):
    told = measured[tier].target
    expected = {
        "pmem": ("file", True, "ext4", "adr"),
        "pmem_raw": ("devdax", False, None, "adr"),
        "pmem_nodax": ("file", False, "ext4", "none"),
    }
    told_words = ("kind", "map_sync", "filesystem", "persistence_domain")
    assert tuple(told[word] for word in told_words) == expected[tier]


@pytest.mark.parametrize("tier", ["pmem", "pmem_raw"])
def test_dax_is_mapped_by_pages_of_2_mib(measured, tier):
    """By the page faults that the kernel counted while the target was touched."""
    told = measured[tier]
    assert told.target["size_bytes"] == 8 * MIB
    assert told.target["huge_bytes"] == 8 * MIB
    assert {metric["labels"]["pages"] for metric in told.metrics} == {"huge"}


@pytest.mark.parametrize("tier", SURVIVES)
def test_what_persists_is_what_was_flushed_to_memory(measured, tier):
    """Stores without a flush do nowhere, and through the page cache nothing does."""
    run = measured[tier].run
    survives = {
        metric["labels"]["configuration"]: metric["labels"]["persistent"]
        for metric in run["metrics"]
        if "persistent" in metric["labels"]
    }
    assert len(survives) == CONFIGURATIONS - 2  # neither loads nor the chase write anything
    assert survives.pop("access/kernel=store") == "no"
    assert set(survives.values()) == {"yes" if SURVIVES[tier] else "no"}
    told = {finding["code"] for finding in run["uncontrolled"]}
    assert ("not-persistent" in told, "page-cache" in told) == (not SURVIVES[tier],) * 2


def test_logs_and_pages_are_there_after_a_restart(measured):
    """The program itself recovers them behind each repeat, and fails where one is missing."""
    written = {
        kind: {metric["labels"]["configuration"] for metric in measured["pmem"].of(kind)}
        for kind in ("log", "page")
    }
    assert {kind: len(those) for kind, those in written.items()} == {"log": 4, "page": 5}
    assert [check["name"] for check in measured["pmem"].run["checks"]] == ["plausible"]


def test_a_raw_device_is_not_written_to_unasked(tiers):
    refused = harness(tiers, *("run", "micro", "--suite", "quick", "--tier", "pmem_raw"))
    assert refused.code == 2
    assert "--overwrite" in refused.err
