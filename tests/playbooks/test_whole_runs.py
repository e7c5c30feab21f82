"""Whole runs against a simulated host: nothing unconfirmed, resumable anywhere, the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulated import GIB, Region_, SimulatedHost, Space_, carried_out, everything, new_host
from tierbench.run import Consent, Outcome

CONFIRMED = Consent(True, ("namespace0.0",))


@pytest.fixture
def host(tmp_path: Path) -> SimulatedHost:
    return new_host(tmp_path)


def provision(host: SimulatedHost, consent: Consent = CONFIRMED, **desired: Any) -> Outcome:
    given = {"mode": "appdirect", "regions": ["region0"], "mount_root": str(host.mount_root)}
    return host.provision(consent, **{**given, **desired})


def theirs(host: SimulatedHost) -> Space_:
    return host.spaces["namespace1.0"]


def test_from_a_region_without_labels_to_a_mounted_tier(host: SimulatedHost) -> None:
    outcome = carried_out(provision(host))
    assert outcome.changed
    assert [step["do"] for step in outcome.steps] == [
        "write-labels", "create-namespace", "make-filesystem", "mount", "write-fstab",
        "write-host-file",
    ]  # fmt: skip
    assert all(step["done"] for step in outcome.steps)
    point = f"{host.mount_root}/pmem0"
    assert host.mounts[point][0] == "pmem0"
    kind, label, uuid = host.spaces["namespace0.0"].signature or ("", "", "")
    assert (kind, label) == ("ext4", "tierbench")
    assert host.files.fstab.read_text() == (
        "# mine\nUUID=x /srv ext4 dax 0 2\n"
        f"UUID={uuid} {point} ext4 noatime,dax,nofail,x-tierbench 0 2\n"
    )
    assert f"pmem: {{kind: fsdax, path: {point}}}" in host.files.host_file.read_text()
    assert theirs(host).data == "data"


def test_a_second_run_changes_nothing(host: SimulatedHost) -> None:
    provision(host)
    before = everything(host), list(host.ran)
    again = provision(host)
    assert (again.steps, again.changed, again.refusals, again.failures) == ([], False, [], [])
    assert (everything(host), host.ran) == before
    assert provision(host, Consent(verify_only=True)).failures == []


@pytest.mark.parametrize(
    "consent",
    [
        Consent(change=False),
        Consent(True, ("namespace0.0",), change=False),
        Consent(True, ("namespace0.0",), verify_only=True),
        Consent(),
        Consent(True),
        Consent(False, ("namespace0.0",)),
        Consent(True, ("namespace0.0", "namespace1.0")),
        Consent(True, ("namespace1.0",)),
        Consent(True, ("namespace0.0",), several_hosts=True),
    ],
)
def test_without_leave_nothing_changes_and_the_plan_is_told(host, consent):
    before = everything(host)
    outcome = provision(host, consent)
    assert (everything(host), host.ran, outcome.changed) == (before, [], False)
    assert outcome.destroy == ["namespace0.0"]
    assert outcome.steps[0]["do"] == "write-labels"
    assert not any(step["done"] for step in outcome.steps)


def test_somebodys_mounted_namespace_stays_whatever_is_confirmed(host: SimulatedHost) -> None:
    before = everything(host)
    outcome = provision(host, Consent(True, ("namespace0.0", "namespace1.0")), regions="all")
    whys = [each.why for each in outcome.refusals if each.object == "namespace1.0"]
    assert f"mounted at {host.root}/srv" in "".join(whys)
    assert (everything(host), host.ran) == (before, [])


def test_a_mount_that_comes_between_plan_and_destruction_is_seen(host: SimulatedHost) -> None:
    """The state is read anew before every step."""
    provision(host)
    host.mounts.clear()
    host.write_tree()
    host.after_the_plan(lambda: host.mounts.update({"/elsewhere": ("pmem0", "ext4", "rw")}))
    outcome = provision(host, mode="sector")
    assert outcome.failures and host.spaces["namespace0.0"].mode == "fsdax"
    assert ["ndctl", "destroy-namespace", "-f", "namespace0.0"] not in host.ran


def test_another_namespace_under_a_confirmed_name_is_not_destroyed(host: SimulatedHost) -> None:
    provision(host)
    host.mounts.pop(f"{host.mount_root}/pmem0")
    host.write_tree()
    another = Space_("namespace0.0", "region0", "fsdax", GIB, "another")
    host.after_the_plan(lambda: host.spaces.update({"namespace0.0": another}))
    outcome = provision(host, mode="sector")
    assert host.spaces["namespace0.0"].uuid == "another"
    assert "no longer the namespace that was confirmed" in outcome.failures[0].why


def test_a_step_that_shows_no_effect_fails(host: SimulatedHost) -> None:
    host.replies["ndctl init-labels"] = host._daxctl_list
    outcome = provision(host)
    assert "succeeded without effect" in outcome.failures[0].why


def test_a_kernel_that_shows_zeroed_labels_until_a_restart(host: SimulatedHost) -> None:
    """Teardown ends and says so; a set-up before the restart writes labels anew, and goes back."""
    host.regions["region0"].sticky = True
    provision(host)
    for again in (True, False):
        outcome = carried_out(host.teardown(CONFIRMED))
        assert any("after a restart" in note for note in outcome.notes)
        assert "namespace0.0" not in host.spaces
        assert host.teardown().steps == []
        if again:
            assert provision(host, Consent()).failures == []
            assert host.spaces["namespace0.0"].mode == "fsdax"
    host.restart()
    assert host.spaces["namespace0.0"].mode == "raw"
    assert host.teardown().steps == []


def test_a_host_file_of_the_owner_comes_back_byte_for_byte(host: SimulatedHost) -> None:
    mine = "# my host\nschema: 1\ntiers:\n  # the disk\n  ssd: {kind: block, path: /srv/ssd}\n"
    host.files.host_file.parent.mkdir()
    host.files.host_file.write_text(mine)
    provision(host)
    assert "  ssd: {kind: block, path: /srv/ssd}\n" in host.files.host_file.read_text()
    assert "pmem: {kind: fsdax" in host.files.host_file.read_text()
    host.teardown(CONFIRMED)
    assert host.files.host_file.read_text() == mine


def test_two_runs_at_once_are_one_too_many(host: SimulatedHost) -> None:
    import fcntl

    host.files.record.parent.mkdir()
    with Path(f"{host.files.record}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        outcome = provision(host)
    assert "another run holds" in outcome.refusals[0].why
    assert host.ran == []


# The way back of two regions ---------------------------------------------------

BOTH = Consent(True, ("namespace0.0", "namespace1.0"))


@pytest.fixture
def both(tmp_path: Path) -> SimulatedHost:
    """Two regions with labels, each with a namespace and a mounted file system of ours."""
    made = SimulatedHost(tmp_path)
    made.regions = {name: Region_(name) for name in ("region0", "region1")}
    made.files.fstab.write_text("# mine\nUUID=x /srv ext4 defaults 0 2\n")
    made.write_tree()
    carried_out(made.provision(mode="appdirect", mount_root=str(made.mount_root)))
    assert sorted(made.mounts) == [f"{made.mount_root}/pmem{n}" for n in (0, 1)]
    made.ran.clear()
    return made


def teardown_of_one(both: SimulatedHost) -> Outcome:
    consent = Consent(True, ("namespace0.0",))
    return both.provision(consent, mode="teardown", regions=["region0"])


@pytest.mark.parametrize("use", ["under device mapper", "not mounted by us", "mounted elsewhere"])
def test_somebodys_use_of_one_namespace_spares_all_of_them(both: SimulatedHost, use: str) -> None:
    """The other one's mount is ours, and is planned to go."""
    why = "it is in use: dm-0 is built on it"
    if use == "mounted elsewhere":
        both.mounts["/srv"] = both.mounts.pop(f"{both.mount_root}/pmem1")
        why = "it is mounted at /srv, not by us"
    else:
        (both.root / "sys/class/block/pmem1/holders/dm-0").mkdir(parents=True)
    if use == "not mounted by us":
        del both.mounts[f"{both.mount_root}/pmem1"]
    both.write_tree()
    outcome = both.teardown(BOTH)
    assert ("namespace1.0", why) in [(each.object, each.why) for each in outcome.refusals]
    assert both.ran == [] and set(both.spaces) == {"namespace0.0", "namespace1.0"}


def test_one_regions_line_and_folder_go_with_it_and_the_others_stay(both: SimulatedHost) -> None:
    """A line that mounts nothing any more is a failed unit at every start."""
    lines = both.files.fstab.read_text().splitlines(keepends=True)
    gone = [line for line in lines if f"{both.mount_root}/pmem0 " in line]
    assert len(gone) == 1
    carried_out(teardown_of_one(both))
    assert both.files.fstab.read_text() == "".join(line for line in lines if line not in gone)
    assert [path.name for path in both.mount_root.iterdir()] == ["pmem1"]
    assert list(both.mounts) == [f"{both.mount_root}/pmem1"]


def test_cut_off_before_the_destruction_there_is_no_dead_line(both: SimulatedHost) -> None:
    """Behind the unmounting, the first command of it."""
    both.kill(lambda: teardown_of_one(both), cut_at=2)
    assert "namespace0.0" in both.spaces
    assert f"{both.mount_root}/pmem0 " not in both.files.fstab.read_text()
