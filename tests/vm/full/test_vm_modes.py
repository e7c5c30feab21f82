"""Every mode of the playbooks: what the kernel says of it, again without change, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from vm_harness import Done, harness
from vm_machine import Vm
from vm_playbooks import Played, applied, play
from vm_probe import modes, probe, state

pytestmark = pytest.mark.vm

State = dict[str, Any]
RUN = ("--warehouses", 1, "--users", 2, "--ramp-up", "2s", "--duration", "10s", "--json")


@dataclass(frozen=True)
class Mode:
    """A playbook with its variables, and what is to be seen of it.

    ``namespaces``: the modes of all namespaces. ``kinds``: tier names of the host file with
    their kinds, as ``harness doctor`` verifies them.
    """

    playbook: str
    variables: dict[str, Any]
    namespaces: set[str]
    kinds: dict[str, str]


MODES = {
    "xfs": Mode(
        "setup-appdirect",
        {"pmem_filesystem": "xfs"},
        {"fsdax"},
        {"pmem": "fsdax", "pmem1": "fsdax"},
    ),
    "no-dax": Mode(
        "setup-appdirect",
        {"pmem_dax": False},
        {"fsdax"},
        {"pmem_nodax": "fs-nodax", "pmem_nodax1": "fs-nodax"},
    ),
    "part-of-a-region": Mode(
        "setup-appdirect",
        {"pmem_regions": ["region1"], "pmem_namespace_size": 512 << 20},
        {"fsdax", "raw"},
        {"pmem": "fsdax"},
    ),
    "devdax": Mode(
        "setup-devdax",
        {},
        {"devdax"},
        {"pmem_raw": "devdax", "pmem_raw1": "devdax"},
    ),
    "system-ram": Mode(
        "setup-system-ram",
        {},
        {"devdax"},
        {"pmem_ram": "numa", "pmem_ram1": "numa"},
    ),
}


@dataclass(frozen=True)
class Cycle:
    """What was seen on the way through one mode and back."""

    before: State
    up: State
    tiers: dict[str, str]
    problems: list[Any]
    again: Played
    verified: Played
    used: Done | None
    down: State


@pytest.fixture(scope="module")
def cycle(lab: Vm) -> Callable[[str], Cycle]:
    """Each mode once, for all tests that look at it."""
    done: dict[str, Cycle] = {}

    def of(name: str) -> Cycle:
        if name not in done:
            done[name] = _through(lab, MODES[name], USES.get(name))
        return done[name]

    return of


#: What a run shows of a mode that other runs do not.
USES: dict[str, tuple[object, ...]] = {
    "xfs": ("run", "tpcc", "--engine", "postgres", "--placement", "ssd-data-pmem-wal", *RUN),
    "system-ram": (
        *("run", "tpcc", "--engine", "postgres", "--placement", "data=ssd,memory=pmem_ram"),
        *RUN,
    ),
}


def _through(lab: Vm, mode: Mode, use: tuple[object, ...] | None) -> Cycle:
    before = state(lab)
    applied(lab, mode.playbook, mode.variables)
    up = state(lab)
    again = play(lab, mode.playbook, mode.variables)
    verified = play(lab, mode.playbook, {**mode.variables, "provisioning_verify_only": True})
    found = harness(lab, "doctor", "--json").json
    used = harness(lab, *use) if use else None
    applied(lab, "teardown")
    tiers = {tier["name"]: tier["kind"] for tier in found["tiers"]}
    return Cycle(before, up, tiers, found["tier_problems"], again, verified, used, state(lab))


@pytest.mark.parametrize("name", MODES)
def test_the_kernel_confirms_the_mode(cycle: Callable[[str], Cycle], name: str) -> None:
    seen, mode = cycle(name), MODES[name]
    assert set(modes(seen.up).values()) == mode.namespaces
    assert seen.problems == []
    assert {tier: seen.tiers.get(tier) for tier in mode.kinds} == mode.kinds


@pytest.mark.parametrize("name", MODES)
def test_the_second_time_nothing_is_left_to_do(cycle: Callable[[str], Cycle], name: str) -> None:
    seen = cycle(name)
    assert (seen.again.code, seen.again.steps) == (0, []), seen.again.out
    assert seen.again.report["changed"] is False
    assert seen.verified.code == 0, seen.verified.out


@pytest.mark.parametrize("name", MODES)
def test_teardown_goes_back_to_what_was_there(cycle: Callable[[str], Cycle], name: str) -> None:
    seen = cycle(name)
    assert modes(seen.down) == modes(seen.before)
    for what in ("mounts", "units", "dax_devices", "nodes", "/etc/fstab", "/etc/harness/host.yml"):
        assert seen.down[what] == seen.before[what], what


def _run(done: Done | None) -> dict[str, Any]:
    assert done is not None
    assert done.code == 0, done.err + done.out
    (run,) = done.json["runs"]
    assert (run["status"], run["emulated"]) == ("complete", [])
    return dict(run)


def test_the_log_alone_on_persistent_memory(cycle: Callable[[str], Cycle]) -> None:
    run = _run(cycle("xfs").used)
    written = {
        metric["labels"].get("tier"): metric["value"]
        for metric in run["metrics"]
        if metric["name"] == "tier_written_bytes"
    }
    assert written.get("pmem", 1) > 0
    assert {check["status"] for check in run["checks"]} == {"passed"}


def test_memory_of_the_engine_is_on_the_node_made_of_persistent_memory(
    cycle: Callable[[str], Cycle],
) -> None:
    run = _run(cycle("system-ram").used)
    (policy,) = [check for check in run["checks"] if check["name"] == "memory-policy"]
    assert policy["status"] == "passed", policy
    assert "bind to node" in policy["detail"]


# What only a machine with other modules could do ----------------------------------------


@pytest.mark.parametrize(
    ("playbook", "variables"),
    [
        ("setup-appdirect", {"pmem_goal": "AppDirect"}),
        ("setup-appdirect", {"pmem_goal": "AppDirectNotInterleaved"}),
        ("setup-memory-mode", {}),
    ],
)
def test_a_goal_without_modules_is_refused_in_ipmctls_words(
    lab: Vm, playbook: str, variables: dict[str, Any]
) -> None:
    before = state(lab)
    refused = play(lab, playbook, variables)
    assert refused.code != 0
    assert "No PMem modules in the system" in refused.refusals, refused.out
    assert state(lab) == before


def test_probe_of_the_blank_machine_is_what_it_was(lab: Vm) -> None:
    """After all the modes above."""
    assert probe(lab)["namespaces"] == {"namespace0.0": "raw", "namespace1.0": "raw"}
