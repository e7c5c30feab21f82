"""DRAM that stands in for persistent memory (``memmap=``): made usable, and never called PMem."""

from __future__ import annotations

from typing import Any

import pytest
from vm_harness import harness
from vm_machine import Vm
from vm_playbooks import Played, applied, play
from vm_probe import modes, state

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def refused(lab: Vm) -> Played:
    """Without the kernel parameter, on a machine that has no boot loader to write it to."""
    return play(lab, "setup-emulated")


@pytest.fixture(scope="module")
def set_aside(lab: Vm, refused: Played) -> dict[str, Any]:
    """The machine with DRAM set aside, and nothing made of it."""
    lab.kernel_words = "memmap=512M!4G"
    lab.reboot()
    return state(lab)


@pytest.fixture(scope="module")
def emulated(lab: Vm, set_aside: dict[str, Any]) -> Played:
    return applied(lab, "setup-emulated")


def test_without_the_parameter_it_says_which_to_give(refused: Played) -> None:
    assert refused.code != 0
    assert "memmap=" in refused.refusals


def test_it_is_said_loudly_what_it_is_not(emulated: Played) -> None:
    assert any("EMULATED" in note for note in emulated.report["notes"])
    assert "EMULATED" in emulated.out


def test_the_tier_is_marked_as_emulated(lab: Vm, emulated: Played) -> None:
    found: dict[str, Any] = harness(lab, "doctor", "--json").json
    assert found["tier_problems"] == []
    (tier,) = [one for one in found["tiers"] if one["emulates"]]
    assert (tier["kind"], tier["emulates"]) == ("fsdax", "pmem")


def test_the_second_time_nothing_is_left_to_do(lab: Vm, emulated: Played) -> None:
    assert sorted(modes(state(lab)).values()) == ["fsdax", "raw", "raw"]
    again = play(lab, "setup-emulated")
    assert (again.code, again.report["changed"]) == (0, False), again.out


def test_back(lab: Vm, set_aside: dict[str, Any], emulated: Played) -> None:
    applied(lab, "teardown")
    after = state(lab)
    assert modes(after) == modes(set_aside)
    for what in ("mounts", "units", "/etc/fstab", "/etc/harness/host.yml", "dax_devices"):
        assert after[what] == set_aside[what], what
