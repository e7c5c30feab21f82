"""DRAM that stands in for persistent memory (``memmap=``): made usable, and never called PMem."""

from typing import Any

import pytest
from vm_guest import applied, harness, modes, play, state

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def refused(lab):
    """Without the kernel parameter, on a machine that has no boot loader to write it to."""
    return play(lab, "setup-emulated")


@pytest.fixture(scope="module")
def set_aside(lab, refused):
    """The machine with DRAM set aside, and nothing made of it."""
    lab.kernel_words = "memmap=512M!4G"
    lab.reboot()
    return state(lab)


@pytest.fixture(scope="module")
def emulated(lab, set_aside):
    return applied(lab, "setup-emulated")


def test_without_the_parameter_it_says_which_to_give(refused):
    assert refused.code != 0
    assert "memmap=" in refused.refusals


def test_it_is_said_loudly_what_it_is_not(emulated):
    assert any("EMULATED" in note for note in emulated.report["notes"])
    assert "EMULATED" in emulated.out


def test_the_tier_is_marked_as_emulated(lab, emulated):
    document: dict[str, Any] = harness(lab, "doctor", "--json").json
    assert document["tier_problems"] == []
    (tier,) = [tier for tier in document["tiers"] if tier["emulates"]]
    assert (tier["kind"], tier["emulates"]) == ("fsdax", "pmem")


def test_the_second_time_nothing_is_left_to_do(lab, emulated):
    assert sorted(modes(state(lab)).values()) == ["fsdax", "raw", "raw"]
    again = play(lab, "setup-emulated")
    assert (again.code, again.report["changed"]) == (0, False), again.out


def test_back(lab, set_aside, emulated):
    applied(lab, "teardown")
    after = state(lab)
    assert modes(after) == modes(set_aside)
    for what in ("mounts", "units", "/etc/fstab", "/etc/harness/host.yml", "dax_devices"):
        assert after[what] == set_aside[what], what
