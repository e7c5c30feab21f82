"""The records of playbooks, damaged or gone: clear refusals, nothing changed, nothing forgotten."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from mutating import mutations
from simulated import GIB, Region_, SimulatedHost, Space_, carried_out
from tierbench import host_settings as settings
from tierbench.commands import Refused
from tierbench.run import Consent, Outcome

NAMES = ("namespace0.0", "namespace1.0")


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
def host(tmp_path: Path) -> SimulatedHost:
    """Two regions; of namespace0.0, ours by now, there was another before."""
    made = SimulatedHost(tmp_path)
    made.regions = {name: Region_(name) for name in ("region0", "region1")}
    made.spaces["namespace0.0"] = Space_("namespace0.0", "region0", "sector", GIB, "theirs")
    made.files.fstab.write_text("# mine\n")
    made.write_tree()
    carried_out(provision(made, Consent(True, NAMES[:1])))
    made.ran.clear()
    return made


def provision(host: SimulatedHost, consent: Consent, **more: Any) -> Outcome:
    desired = {"mode": "appdirect", "mount_root": str(host.mount_root), **more}
    return host.provision(consent, **desired)


def losses(outcome: Outcome) -> list[str]:
    return [note for note in outcome.notes if note.startswith("record-lost")]


# Damaged ---------------------------------------------------------------------------


def test_no_damage_is_a_traceback_and_what_cannot_be_read_changes_nothing(host):
    document = json.loads(host.files.record.read_text())
    document |= {"making": "u", "memmap": "memmap=4G!8G", "goal_before": "0 AppDirect 10"}
    document |= {"dax": {"dax1.0": {"size_bytes": 1, "target_node": 2}}, "zeroed": {"region0": "b"}}
    refused = 0
    for damaged in mutations(json.dumps(document).encode(), 200):
        host.files.record.write_bytes(damaged)
        for act in (provision, SimulatedHost.teardown):
            outcome = act(host, Consent())
            json.dumps(outcome.to_json()).encode()
            if any("cannot be read" in each.why for each in outcome.refusals):
                refused += 1
                assert not outcome.changed
                assert host.files.record.read_bytes() == damaged
    assert refused > 200
    assert all(space.signature for space in host.spaces.values())


def test_no_damage_of_the_settings_record_is_a_traceback(tmp_path: Path) -> None:
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


def test_where_no_record_can_be_kept_nothing_is_begun(host: SimulatedHost) -> None:
    host.files.record.unlink()
    (host.root / "var/provisioning.json.lock").unlink()
    (host.root / "var").rename(host.root / "away")
    (host.root / "var").write_text("no folder")
    outcome = provision(host, Consent(True, NAMES))
    assert "cannot write the record" in outcome.refusals[0].why
    assert host.ran == []


# Lost ------------------------------------------------------------------------------


def test_a_set_up_notices_the_loss_and_keeps_what_is_ours(host: SimulatedHost) -> None:
    told = host.files.host_file.read_text()
    host.files.record.unlink()
    check = provision(host, Consent(change=False))
    assert [step["do"] for step in check.steps] == ["write-record"]
    assert provision(host, Consent(verify_only=True)).steps  # which fails: it deviates
    outcome = provision(host, Consent())
    assert (outcome.refusals, outcome.failures, outcome.changed) == ([], [], True)
    (note,) = losses(outcome)
    assert "namespace0.0" in note and "provisioning.json" in note
    assert host.ran == []
    assert host.files.host_file.read_text() == told
    again = provision(host, Consent())
    assert (again.steps, again.changed, losses(again)) == ([], False, [])


def test_a_teardown_notices_the_loss_and_says_what_does_not_come_back(host: SimulatedHost) -> None:
    host.files.record.unlink()
    refused = host.teardown()
    assert refused.destroy == list(NAMES)
    assert losses(refused)
    outcome = carried_out(host.teardown(Consent(True, NAMES)))
    assert losses(outcome)
    assert "region0: its earlier namespaces are not on record" in " ".join(outcome.notes)
    assert host.spaces == {}
    assert host.files.fstab.read_text() == "# mine\n"


def test_with_its_record_a_host_lost_nothing(host: SimulatedHost) -> None:
    assert losses(provision(host, Consent())) == []
    assert losses(host.teardown()) == []


def test_a_kernel_parameter_in_our_file_is_taken_away_without_a_record(host: SimulatedHost) -> None:
    host.teardown(Consent(True, NAMES))
    host.files.grub.write_text('GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX memmap=4G!8G"\n')
    host.replies["update-grub"] = host._systemctl
    outcome = host.teardown()
    assert [step["do"] for step in outcome.steps] == ["remove-memmap"]
    assert losses(outcome)
    assert not host.files.grub.exists()


def test_one_region_of_which_the_record_knows_nothing_leaves_the_others_alone(host):
    document = json.loads(host.files.record.read_text())
    gone = host.spaces["namespace1.0"].uuid
    del document["namespaces"][gone], document["before"]["region1"]
    host.files.record.write_text(json.dumps(document))
    (note,) = losses(provision(host, Consent(change=False)))
    assert "namespace1.0" in note
    assert "namespace0.0" not in note
