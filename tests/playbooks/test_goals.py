"""Goals on a simulated host with Optane modules: there by a restart, and back by another."""

import pytest
from simulated import GIB, Goal_, OptaneHost, Space_, carried_out
from tierbench.commands import Done
from tierbench.run import Consent, Outcome


@pytest.fixture
def host(tmp_path):
    """One interleaved region, in it a devdax namespace without a name."""
    made = OptaneHost(tmp_path, goal=Goal_("AppDirect"))
    made.reshape()
    made.spaces["namespace0.0"] = Space_("namespace0.0", "region0", "sector", 8 * GIB, "theirs")
    made.restart()
    return made


def given(host: OptaneHost, *names: str, **desired) -> Outcome:
    return carried_out(host.provision(Consent(True, names or ("namespace0.0",)), **desired))


def dos(outcome: Outcome) -> list[tuple[str, bool]]:
    return [(step["do"], step["done"]) for step in outcome.steps]


SPLIT = {"mode": "sector", "goal": "AppDirectNotInterleaved"}


def split(host: OptaneHost) -> None:
    """Our goal of a region for each module, carried out, and our namespaces in them."""
    assert given(host, **SPLIT).reboot_needed
    host.restart()
    assert not given(host, **SPLIT).reboot_needed
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
    assert "(0 AppDirect 0)" in outcome.refusals[0].why
    assert set(host.spaces) == {"namespace0.0", "namespace1.0"}


def test_what_is_to_be_reserved_counts_where_the_type_is_right_already(host):
    """And comes back: before, all of it was AppDirect."""
    desired = {"mode": "sector", "goal": "AppDirect"}
    assert not given(host, **desired).reboot_needed
    assert given(host, mode="teardown").changed
    host.spaces.clear()
    host.write_tree()
    reserved = {**desired, "goal_reserved_percent": 20}
    assert given(host, **reserved).reboot_needed
    assert host.asked == Goal_("AppDirect", 0, 20)
    host.restart()
    assert not given(host, **reserved).reboot_needed
    assert given(host, **reserved).steps == []
    none_asked = given(host, **desired, goal_reserved_percent=0)
    (note,) = none_asked.notes
    assert none_asked.steps == [] and note.startswith("20 % of")
    assert given(host, mode="teardown").reboot_needed
    assert host.asked == Goal_("AppDirect")


# The host restarts only when everything before the restart is done: not refused, not failed ---

CONFIRMED = Consent(True, ("namespace0.0",))


def goal(host: OptaneHost, consent: Consent) -> Outcome:
    return host.provision(consent, mode="memory-mode")


def test_all_done_but_the_restart(host):
    for consent in (CONFIRMED, Consent()):  # the second: nothing is left to confirm
        outcome = carried_out(goal(host, consent))
        assert outcome.steps[-1]["do"] == "reboot"
        assert all(step["done"] for step in outcome.steps[:-1])
        assert outcome.reboot_needed
    assert host.spaces == {}


@pytest.mark.parametrize("consent", [Consent(), Consent(True), Consent(True, ("namespace0.1",))])
def test_what_is_not_confirmed_restarts_nothing(host, consent):
    outcome = goal(host, consent)
    assert outcome.refusals
    assert "namespace0.0" in host.spaces
    assert not outcome.reboot_needed


def test_what_is_refused_restarts_nothing(host):
    host.mounts = {"/srv": ("pmem0s", "ext4", "rw")}
    host.write_tree()
    outcome = goal(host, CONFIRMED)
    assert any("mounted at /srv" in each.why for each in outcome.refusals)
    assert not outcome.reboot_needed


def test_a_mount_that_comes_between_restarts_nothing(host):
    host.after_the_plan(lambda: host.mounts.update({"/srv": ("pmem0s", "ext4", "rw")}))
    outcome = goal(host, CONFIRMED)
    assert outcome.failures
    assert "namespace0.0" in host.spaces
    assert not outcome.reboot_needed


def test_a_goal_that_ipmctl_does_not_take_restarts_nothing(host):
    error = Done(1, "", "Create goal configuration Error")
    host.replies["ipmctl"] = lambda words: error if "create" in words else host._ipmctl(words)
    outcome = goal(host, CONFIRMED)
    assert error.err in outcome.failures[0].why
    assert not outcome.reboot_needed
