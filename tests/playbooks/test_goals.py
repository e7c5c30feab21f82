"""Goals on a simulated host with Optane modules: there by a restart, and back by another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulated import GIB, Space_, carried_out
from simulated_optane import Goal_, OptaneHost
from tierbench.run import Consent, Outcome


@pytest.fixture
def host(tmp_path: Path) -> OptaneHost:
    """One interleaved region, in it a devdax namespace without a name."""
    made = OptaneHost(tmp_path, goal=Goal_("AppDirect"))
    made.reshape()
    made.spaces["namespace0.0"] = Space_("namespace0.0", "region0", "sector", 8 * GIB, "theirs")
    made.restart()
    return made


def given(host: OptaneHost, *names: str, **desired: Any) -> Outcome:
    outcome = carried_out(host.provision(Consent(True, names or ("namespace0.0",)), **desired))
    return outcome


def dos(outcome: Outcome) -> list[tuple[str, bool]]:
    return [(step["do"], step["done"]) for step in outcome.steps]


SPLIT = {"mode": "sector", "goal": "AppDirectNotInterleaved"}


def split(host: OptaneHost) -> None:
    """Our goal of a region for each module, carried out, and our namespaces in them."""
    desired = {**SPLIT, "mount_root": str(host.mount_root)}
    assert given(host, **desired).reboot_needed
    host.restart()
    assert not given(host, **desired).reboot_needed
    made = [(s.region, s.label) for s in host.spaces.values()]
    assert made == [("region0", "tierbench"), ("region1", "tierbench")]


def test_teardown_makes_the_goal_of_before_and_then_what_was_in_its_regions(host):
    split(host)
    outcome = given(host, "namespace0.0", "namespace1.0", mode="teardown")
    assert outcome.reboot_needed
    assert dos(outcome)[-2:] == [("create-goal", True), ("reboot", False)]
    assert "create-namespace" not in [do for do, _ in dos(outcome)]
    assert host.files.fstab.read_text() == ""
    assert host.asked == Goal_("AppDirect")
    assert dos(given(host, mode="teardown")) == [("reboot", False)]
    host.restart()
    outcome = given(host, mode="teardown")
    assert ("create-namespace", True) in dos(outcome)
    assert not outcome.reboot_needed
    (space,) = host.spaces.values()
    assert (space.region, space.mode, space.raw) == ("region0", "sector", 8 * GIB)
    assert not host.files.record.exists()
    assert host.teardown().steps == []


def test_one_region_alone_does_not_go_back_and_its_past_is_not_forgotten(host):
    split(host)
    consent = Consent(True, ("namespace0.0",))
    outcome = host.provision(consent, mode="teardown", regions=["region0"])
    assert "to another goal (0 AppDirect 0)" in outcome.refusals[0].why
    assert set(host.spaces) == {"namespace0.0", "namespace1.0"}


def test_what_is_to_be_reserved_counts_where_the_type_is_right_already(host: OptaneHost) -> None:
    """And comes back: before, all of it was AppDirect."""
    desired: dict[str, Any] = {**SPLIT, "goal": "AppDirect", "mount_root": str(host.mount_root)}
    assert not given(host, **desired).reboot_needed
    assert given(host, mode="teardown").changed
    host.spaces.clear()
    host.write_tree()
    desired["goal_reserved_percent"] = 20
    assert given(host, **desired).reboot_needed
    assert host.asked == Goal_("AppDirect", 0, 20)
    host.restart()
    assert not given(host, **desired).reboot_needed
    assert given(host, **desired).steps == []
    none_asked = given(host, **{**desired, "goal_reserved_percent": 0})
    (note,) = none_asked.notes
    assert none_asked.steps == [] and note.startswith("20 % of the modules' capacity")
    assert given(host, mode="teardown").reboot_needed
    assert host.asked == Goal_("AppDirect")


# The ratio to the DRAM ---------------------------------------------------------------
