"""Whole runs against a simulated host: nothing unconfirmed, resumable anywhere, the way back."""

import errno
import fcntl
import json
import os
from pathlib import Path

import pytest
from mutating import mutations
from simulated import (
    GIB,
    NO_CONSENT,
    Region_,
    SimulatedHost,
    Space_,
    carried_out,
    everything,
    new_host,
)
from tierbench import host_settings as settings
from tierbench.apply import CommandRunner, carry_out
from tierbench.change_builder import Step
from tierbench.commands import Done, Refused, StepFailed
from tierbench.desired_state import DesiredState
from tierbench.record import Record, load_record
from tierbench.run import Consent, Outcome
from tierbench.state import State

CONFIRMED = Consent(True, ("namespace0.0",))
BOTH = Consent(True, ("namespace0.0", "namespace1.0"))


@pytest.fixture
def host(tmp_path):
    return new_host(tmp_path)


def provision(host: SimulatedHost, consent: Consent = CONFIRMED, **desired) -> Outcome:
    return host.provision(consent, **{"regions": ["region0"], **desired})


def theirs(host: SimulatedHost) -> Space_:
    return host.spaces["namespace1.0"]


def test_from_a_region_without_labels_to_a_mounted_tier(host):
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


def test_a_second_run_changes_nothing(host):
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


def test_somebodys_mounted_namespace_stays_whatever_is_confirmed(host):
    before = everything(host)
    outcome = provision(host, BOTH, regions="all")
    whys = [each.why for each in outcome.refusals if each.object == "namespace1.0"]
    assert f"mounted at {host.root}/srv" in "".join(whys)
    assert (everything(host), host.ran) == (before, [])


def test_a_mount_that_comes_between_plan_and_destruction_is_seen(host):
    """The state is read anew before every step."""
    provision(host)
    host.mounts.clear()
    host.write_tree()
    host.after_the_plan(lambda: host.mounts.update({"/elsewhere": ("pmem0", "ext4", "rw")}))
    outcome = provision(host, mode="sector")
    assert outcome.failures and host.spaces["namespace0.0"].mode == "fsdax"
    assert ["ndctl", "destroy-namespace", "-f", "namespace0.0"] not in host.ran


def test_another_namespace_under_a_confirmed_name_is_not_destroyed(host):
    provision(host)
    host.mounts.pop(f"{host.mount_root}/pmem0")
    host.write_tree()
    another = Space_("namespace0.0", "region0", "fsdax", GIB, "another")
    host.after_the_plan(lambda: host.spaces.update({"namespace0.0": another}))
    outcome = provision(host, mode="sector")
    assert host.spaces["namespace0.0"].uuid == "another"
    assert [each.object for each in outcome.failures] == ["namespace0.0"]


def test_a_step_that_shows_no_effect_fails(host):
    host.replies["ndctl init-labels"] = host._daxctl_list
    outcome = provision(host)
    assert "succeeded without effect" in outcome.failures[0].why


def test_a_kernel_that_shows_zeroed_labels_until_a_restart(host):
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


def test_a_host_file_of_the_owner_comes_back_byte_for_byte(host):
    mine = "# my host\nschema: 1\ntiers:\n  # the disk\n  ssd: {kind: block, path: /srv/ssd}\n"
    host.files.host_file.parent.mkdir()
    host.files.host_file.write_text(mine)
    provision(host)
    assert "  ssd: {kind: block, path: /srv/ssd}\n" in host.files.host_file.read_text()
    assert "pmem: {kind: fsdax" in host.files.host_file.read_text()
    host.teardown(CONFIRMED)
    assert host.files.host_file.read_text() == mine


def test_two_runs_at_once_are_one_too_many(host):
    host.files.record.parent.mkdir()
    with Path(f"{host.files.record}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcome = provision(host)
    assert "another run holds" in outcome.refusals[0].why
    assert host.ran == []


# The way back of two regions ---------------------------------------------------


@pytest.fixture
def both(tmp_path):
    """Two regions with labels, each with a namespace and a mounted file system of ours."""
    made = SimulatedHost(tmp_path)
    made.regions = {name: Region_(name) for name in ("region0", "region1")}
    made.files.fstab.write_text("# mine\nUUID=x /srv ext4 defaults 0 2\n")
    made.write_tree()
    carried_out(made.provision())
    assert sorted(made.mounts) == [f"{made.mount_root}/pmem{n}" for n in (0, 1)]
    made.ran.clear()
    return made


def teardown_of_one(both: SimulatedHost) -> Outcome:
    return provision(both, mode="teardown")


@pytest.mark.parametrize("use", ["under device mapper", "not mounted by us", "mounted elsewhere"])
def test_somebodys_use_of_one_namespace_spares_all_of_them(both, use):
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


def test_one_regions_line_and_folder_go_with_it_and_the_others_stay(both):
    """A line that mounts nothing any more is a failed unit at every start."""
    lines = both.files.fstab.read_text().splitlines(keepends=True)
    gone = [line for line in lines if f"{both.mount_root}/pmem0 " in line]
    assert len(gone) == 1
    carried_out(teardown_of_one(both))
    assert both.files.fstab.read_text() == "".join(line for line in lines if line not in gone)
    assert [path.name for path in both.mount_root.iterdir()] == ["pmem1"]
    assert list(both.mounts) == [f"{both.mount_root}/pmem1"]


def test_cut_off_before_the_destruction_there_is_no_dead_line(both):
    """Behind the unmounting, the first command of it."""
    both.kill(lambda: teardown_of_one(both), cut_at=2)
    assert "namespace0.0" in both.spaces
    assert f"{both.mount_root}/pmem0 " not in both.files.fstab.read_text()


# What a run that failed or was cut off leaves on record, and what the next one makes of it ---

# The kernel parameter --------------------------------------------------------------

PARAMETER = "memmap=4G!12G"


class BootLoader(SimulatedHost):
    """grubby or update-grub, which fails while it is told to."""

    fails = False

    def _answer(self, words: list[str]) -> Done:
        return Done(1, "", "no room in /boot") if self.fails else Done(0, "", "")


def memmap(host: BootLoader, do: str, loader: str) -> Record:
    """Return the record after the step, done or failed."""
    state = State(boot_loader=loader, record=load_record(host.files.record))
    step = Step(do, "memmap", "", "", (), {"parameter": PARAMETER})
    try:
        carry_out(step, CommandRunner(state, DesiredState("emulated"), host, host.files))
    except StepFailed:
        assert host.fails
    return load_record(host.files.record)


@pytest.mark.parametrize("loader", ["grubby", "update-grub"])
def test_a_kernel_parameter_is_done_when_the_boot_loader_has_it(tmp_path, loader):
    host = BootLoader(tmp_path)
    for do, fails, expected in (
        ("set-memmap", True, (PARAMETER, False)),
        ("set-memmap", False, (PARAMETER, True)),
        ("remove-memmap", True, (PARAMETER, False)),
    ):
        host.fails = fails
        record = memmap(host, do, loader)
        assert (record.memmap, record.memmap_done) == expected
    host.fails = False
    assert memmap(host, "remove-memmap", loader) == Record()


# A namespace and its file system ---------------------------------------------------


@pytest.fixture
def labelled(tmp_path):
    """region0 with labels, and nothing in it."""
    made = SimulatedHost(tmp_path)
    made.regions = {"region0": Region_("region0")}
    made.write_tree()
    return made


def owners_own(labelled: SimulatedHost) -> None:
    """Nameless, without a signature that blkid knows, and with data on it."""
    labelled.spaces["namespace0.0"] = Space_(
        "namespace0.0", "region0", "fsdax", GIB, "theirs", data="data"
    )
    labelled.write_tree()


def test_what_the_owner_makes_where_creating_failed_is_the_owner_s(labelled):
    labelled.replies["ndctl create-namespace"] = lambda _: Done(234, "", "region0: misaligned")
    assert provision(labelled, NO_CONSENT).failures
    assert load_record(labelled.files.record).creating is None
    owners_own(labelled)
    ran = len(labelled.ran)
    outcome = provision(labelled, NO_CONSENT)
    assert [each.object for each in outcome.refusals] == ["namespace0.0"]
    assert outcome.destroy == ["namespace0.0"]
    assert len(labelled.ran) == ran


def test_a_namespace_that_came_of_a_command_that_failed_is_gone_on_with(labelled):
    create = labelled._ndctl_create_namespace

    def make_and_fail(words: list[str]) -> Done:
        create(words)
        return Done(1, "", "killed")

    labelled.replies["ndctl create-namespace"] = make_and_fail
    assert provision(labelled, NO_CONSENT).failures
    # By consent, since the xfs of before shows through; not refused as somebody's.
    carried_out(provision(labelled))
    assert (labelled.spaces["namespace0.0"].signature or ())[:2] == ("ext4", "tierbench")


def test_a_file_system_is_made_once_though_the_look_at_it_failed(labelled):
    """Content at the time of the next run may be data already."""
    made: list[str] = []
    look = labelled._blkid

    def fails_behind_mkfs(words):
        if labelled.ran[-1][0] == "mkfs.ext4" and not made:
            made.append(words[-1])
            return Done(4, "", "an ambivalent low-level probing result")
        return look(words)

    labelled.replies["blkid"] = fails_behind_mkfs
    assert "/dev/pmem0" in [each.object for each in provision(labelled, NO_CONSENT).failures]
    signature = labelled.spaces["namespace0.0"].signature
    outcome = carried_out(provision(labelled, NO_CONSENT))
    assert "make-filesystem" not in [step["do"] for step in outcome.steps]
    assert labelled.spaces["namespace0.0"].signature == signature
    assert signature is not None
    recorded = {"point": f"{labelled.mount_root}/pmem0", "block_size": 4096}
    assert load_record(labelled.files.record).filesystems == {signature[2]: recorded}
    assert provision(labelled, NO_CONSENT).steps == []


# Records that are damaged or gone: clear refusals, nothing changed, nothing forgotten ---


def unbalanced(root: Path) -> tuple[settings.Host, Path]:
    """A host whose automatic balancing is on, and its switch."""
    switch = root / "proc/sys/kernel/numa_balancing"
    switch.parent.mkdir(parents=True)
    switch.write_text("1\n")
    return settings.Host(str(root)), switch


def switch_off(host: settings.Host, record: str) -> None:
    chosen, _ = settings.find_settings({"numa_balancing": False}, host)
    settings.apply(settings.plan(chosen, host), settings.Record(record, host), host)


@pytest.fixture
def provisioned(tmp_path):
    """Two regions; of namespace0.0, ours by now, there was another before."""
    made = SimulatedHost(tmp_path)
    made.regions = {name: Region_(name) for name in ("region0", "region1")}
    made.spaces["namespace0.0"] = Space_("namespace0.0", "region0", "sector", GIB, "theirs")
    made.files.fstab.write_text("# mine\n")
    made.write_tree()
    carried_out(made.provision(CONFIRMED))
    made.ran.clear()
    return made


def losses(outcome: Outcome) -> list[str]:
    return [note for note in outcome.notes if note.startswith("record-lost")]


# Damaged ---------------------------------------------------------------------------


def test_no_damage_is_a_traceback_and_what_cannot_be_read_changes_nothing(provisioned):
    document = json.loads(provisioned.files.record.read_text())
    document |= {"making": "u", "memmap": "memmap=4G!8G", "goal_before": "0 AppDirect 10"}
    document |= {"dax": {"dax1.0": {"size_bytes": 1, "target_node": 2}}, "zeroed": {"region0": "b"}}
    refused = 0
    for damaged in mutations(json.dumps(document).encode(), 200):
        provisioned.files.record.write_bytes(damaged)
        for act in (SimulatedHost.provision, SimulatedHost.teardown):
            outcome = act(provisioned)
            json.dumps(outcome.to_json()).encode()
            if any("cannot be read" in each.why for each in outcome.refusals):
                refused += 1
                assert not outcome.changed
                assert provisioned.files.record.read_bytes() == damaged
    assert refused > 200
    assert all(space.signature for space in provisioned.spaces.values())


def test_no_damage_of_the_settings_record_is_a_traceback(tmp_path):
    (host, _), path = unbalanced(tmp_path), tmp_path / "settings.json"
    switch_off(host, str(path))
    refused = 0
    for damaged in mutations(path.read_bytes(), 200):
        path.write_bytes(damaged)
        try:
            settings.plan_restore(settings.Record(str(path), host), host)
        except Refused as error:
            refused += 1
            json.dumps(vars(error.refusal)).encode()
    assert refused > 100


# Not to be written -----------------------------------------------------------------


def test_a_full_disk_is_a_refusal_before_a_setting_is_changed(tmp_path, monkeypatch):
    host, switch = unbalanced(tmp_path)

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refused, match="No space left"):
        switch_off(host, str(tmp_path / "settings.json"))
    assert switch.read_text() == "1\n"


def test_where_no_record_can_be_kept_nothing_is_begun(provisioned):
    provisioned.files.record.unlink()
    (provisioned.root / "var/provisioning.json.lock").unlink()
    (provisioned.root / "var").rename(provisioned.root / "away")
    (provisioned.root / "var").write_text("no folder")
    outcome = provisioned.provision(BOTH)
    assert outcome.refusals[0].object == "host"
    assert "provisioning.json.lock" in outcome.refusals[0].why
    assert provisioned.ran == []


# Lost ------------------------------------------------------------------------------


def test_a_set_up_notices_the_loss_and_keeps_what_is_ours(provisioned):
    told = provisioned.files.host_file.read_text()
    provisioned.files.record.unlink()
    check = provisioned.provision(Consent(change=False))
    assert [step["do"] for step in check.steps] == ["write-record"]
    assert provisioned.provision(Consent(verify_only=True)).steps  # which fails: it deviates
    outcome = provisioned.provision()
    assert (outcome.refusals, outcome.failures, outcome.changed) == ([], [], True)
    (note,) = losses(outcome)
    assert "namespace0.0" in note and "provisioning.json" in note
    assert provisioned.ran == []
    assert provisioned.files.host_file.read_text() == told
    again = provisioned.provision()
    assert (again.steps, again.changed, losses(again)) == ([], False, [])


def test_a_teardown_notices_the_loss_and_says_what_is_gone(provisioned):
    provisioned.files.record.unlink()
    refused = provisioned.teardown()
    assert refused.destroy == ["namespace0.0", "namespace1.0"]
    assert losses(refused)
    outcome = carried_out(provisioned.teardown(BOTH))
    assert losses(outcome)
    assert any(note.startswith("region0: ") for note in outcome.notes)
    assert provisioned.spaces == {}
    assert provisioned.files.fstab.read_text() == "# mine\n"


def test_with_its_record_a_host_lost_nothing(provisioned):
    assert losses(provisioned.provision()) == []
    assert losses(provisioned.teardown()) == []


def test_a_kernel_parameter_of_our_file_goes_without_a_record(provisioned):
    provisioned.teardown(BOTH)
    provisioned.files.grub.write_text('GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX memmap=4G!8G"\n')
    provisioned.replies["update-grub"] = provisioned._systemctl
    outcome = provisioned.teardown()
    assert [step["do"] for step in outcome.steps] == ["remove-memmap"]
    assert losses(outcome)
    assert not provisioned.files.grub.exists()


def test_one_region_of_which_the_record_knows_nothing_leaves_the_others_alone(provisioned):
    document = json.loads(provisioned.files.record.read_text())
    gone = provisioned.spaces["namespace1.0"].uuid
    del document["namespaces"][gone], document["before"]["region1"]
    provisioned.files.record.write_text(json.dumps(document))
    (note,) = losses(provisioned.provision(Consent(change=False)))
    assert "namespace1.0" in note
    assert "namespace0.0" not in note
