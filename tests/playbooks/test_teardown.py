"""The way back on a simulated host: all or nothing, and nothing left of what goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated import Region_, SimulatedHost
from tierbench.run import Consent, Outcome

CONFIRMED = Consent(True, ("namespace0.0", "namespace1.0"))


@pytest.fixture
def host(tmp_path: Path) -> SimulatedHost:
    """Two regions with labels, each with a namespace and a mounted file system of ours."""
    made = SimulatedHost(tmp_path)
    made.regions = {name: Region_(name) for name in ("region0", "region1")}
    made.files.fstab.write_text("# mine\nUUID=x /srv ext4 defaults 0 2\n")
    made.write_tree()
    outcome = made.provision(mode="appdirect", mount_root=str(made.mount_root))
    assert (outcome.refusals, outcome.failures) == ([], [])
    assert sorted(made.mounts) == [f"{made.mount_root}/pmem{n}" for n in (0, 1)]
    made.ran.clear()
    return made


def teardown_of_one(host: SimulatedHost) -> Outcome:
    consent = Consent(True, ("namespace0.0",))
    return host.provision(consent, mode="teardown", regions=["region0"])


def refused(outcome: Outcome) -> list[tuple[str, str]]:
    return [(each.object, each.why) for each in outcome.refusals]


@pytest.mark.parametrize("mounted", [True, False])
def test_somebodys_use_of_one_namespace_spares_all_of_them(
    host: SimulatedHost, mounted: bool
) -> None:
    """The other one's mount is ours, and is planned to go; this one is under device mapper."""
    if not mounted:
        del host.mounts[f"{host.mount_root}/pmem1"]
    (host.root / "sys/class/block/pmem1/holders/dm-0").mkdir(parents=True)
    host.write_tree()
    outcome = host.teardown(CONFIRMED)
    assert ("namespace1.0", "it is in use: dm-0 is built on it") in refused(outcome)
    assert host.ran == []
    assert set(host.spaces) == {"namespace0.0", "namespace1.0"}


def test_somebodys_mount_of_one_namespace_spares_all_of_them(host: SimulatedHost) -> None:
    host.mounts["/srv"] = host.mounts.pop(f"{host.mount_root}/pmem1")
    host.write_tree()
    outcome = host.teardown(CONFIRMED)
    assert ("namespace1.0", "it is mounted at /srv, not by us") in refused(outcome)
    assert host.ran == []


def test_our_own_mounts_keep_nothing(host: SimulatedHost) -> None:
    outcome = host.teardown(CONFIRMED)
    assert (outcome.refusals, outcome.failures) == ([], [])
    assert (host.mounts, host.spaces) == ({}, {})
    assert host.files.fstab.read_text() == "# mine\nUUID=x /srv ext4 defaults 0 2\n"


def test_one_regions_line_and_folder_go_with_it_and_the_others_stay(host: SimulatedHost) -> None:
    """A line that mounts nothing any more is a failed unit at every start."""
    lines = host.files.fstab.read_text().splitlines(keepends=True)
    gone = [line for line in lines if f"{host.mount_root}/pmem0 " in line]
    assert len(gone) == 1
    outcome = teardown_of_one(host)
    assert (outcome.refusals, outcome.failures) == ([], [])
    assert host.files.fstab.read_text() == "".join(line for line in lines if line not in gone)
    assert [path.name for path in host.mount_root.iterdir()] == ["pmem1"]
    assert list(host.mounts) == [f"{host.mount_root}/pmem1"]


def test_cut_off_before_the_destruction_there_is_no_dead_line(host: SimulatedHost) -> None:
    """Behind the unmounting, the first command of it."""
    host.kill(lambda: teardown_of_one(host), cut_at=2)
    assert "namespace0.0" in host.spaces
    assert f"{host.mount_root}/pmem0 " not in host.files.fstab.read_text()
