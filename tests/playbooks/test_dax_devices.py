"""Devices that no NVDIMM is behind as memory nodes, and whom the nodes of DAX devices belong to.

No recording of such a device is at hand: its JSON is daxctl-list(1)'s and
daxctl-reconfigure-device(1)'s (which a recording of a device on an NVDIMM agrees with, in
test_host_files.py), its place in sysfs the kernel's sources' (tiers/numa.py).
"""

import errno
import os
import pwd
from dataclasses import replace

import pytest
from ansible.module_utils.linux.numa import nodes
from simulated import GIB, Dax_, Region_, SimulatedHost, carried_out
from tierbench.changes import plan_changes
from tierbench.commands import Commands
from tierbench.desired_state import DesiredState
from tierbench.linux import dax_origin
from tierbench.namespace_users import Content, NamespaceUsers
from tierbench.ndctl import DaxDevice
from tierbench.record import load_record
from tierbench.run import Consent, Outcome
from tierbench.state import State, read_state

CXL = "platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0"
HMEM = "platform/hmem.0"
CONFIRMED = Consent(True, ("dax1.0",))


@pytest.fixture
def host(tmp_path):
    made = SimulatedHost(tmp_path)
    made.devices = {"dax1.0": Dax_("dax1.0", CXL), "dax2.0": Dax_("dax2.0", HMEM, node=3)}
    made.write_tree()
    return made


def memory(host: SimulatedHost, consent: Consent = CONFIRMED, **more) -> Outcome:
    desired = {"mode": "system-ram", "regions": [], "devices": ["dax1.0"], **more}
    return host.provision(consent, **desired)


def refused(outcome: Outcome) -> str:
    return "; ".join(f"{each.object}: {each.why} ({each.do})" for each in outcome.refusals)


# Memory on no NVDIMM ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("below", "origin"),
    [
        (CXL, "cxl"),
        (HMEM, "soft-reserved"),
        ("LNXSYSTM:00/ACPI0012:00/ndbus0/region0/dax0.1", "nvdimm"),
        ("elsewhere", None),
    ],
)
def test_what_a_device_is_of_is_told_by_its_place(host, below, origin):
    host.devices["dax7.0"] = Dax_("dax7.0", below)
    host.write_tree()
    assert dax_origin("dax7.0", host.kernel()) == origin


def test_a_cxl_device_becomes_a_node_and_goes_back(host):
    outcome = carried_out(memory(host))
    assert [step["do"] for step in outcome.steps] == ["to-system-ram", "write-host-file"]
    assert ["daxctl", "reconfigure-device", "--mode=system-ram", "dax1.0"] in host.ran
    assert (host.devices["dax1.0"].mode, host.devices["dax2.0"].mode) == ("system-ram", "devdax")
    assert "cxl: {kind: numa, node: 2, policy: bind}" in host.files.host_file.read_text()
    assert not host.files.daxctl_conf.exists()
    assert any("after a restart" in note for note in outcome.notes)
    backing = {node.node: node.backing for node in nodes(host.kernel())}
    assert backing[2] == "dax1.0, CXL memory"
    ran = len(host.ran)
    assert memory(host).steps == []
    assert memory(host, Consent(verify_only=True)).failures == []
    assert len(host.ran) == ran
    carried_out(host.teardown())
    assert host.devices["dax1.0"].mode == "devdax"
    assert not host.files.host_file.exists()
    assert not host.files.record.exists()
    assert host.teardown().steps == []


def test_all_are_those_on_no_nvdimm(host):
    host.devices["dax0.0"] = Dax_("dax0.0", "ndbus0/region0/dax0.1", node=4)
    host.write_tree()
    carried_out(memory(host, Consent(True, ("dax1.0", "dax2.0")), devices="all"))
    modes = {name: device.mode for name, device in host.devices.items()}
    assert modes == {"dax0.0": "devdax", "dax1.0": "system-ram", "dax2.0": "system-ram"}
    assert "farmem: {kind: numa, node: 3" in host.files.host_file.read_text()


@pytest.mark.parametrize(
    "consent", [Consent(), Consent(True), Consent(True, ("dax2.0",)), Consent(False, ("dax1.0",))]
)
def test_unconfirmed_it_stays_as_it_is(host, consent):
    outcome = memory(host, consent)
    assert outcome.destroy == ["dax1.0"]
    assert "dax1.0" in refused(outcome)
    assert host.ran == []


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("dax9.0", {}, "those on no NVDIMM (daxctl list): dax1.0, dax2.0"),
        ("dax1.0", {"below": "ndbus0/region0/dax1.1"}, "-e pmem_regions=[NAME]"),
        ("dax1.0", {"below": "elsewhere"}, "does not show its origin"),
        ("dax1.0", {"mode": "unknown"}, "daxctl says its mode is unknown"),
    ],
)
def test_refused_by_name(host, name, change, words):
    host.devices["dax1.0"] = replace(host.devices["dax1.0"], **change)
    host.write_tree()
    outcome = memory(host, Consent(True, (name,)), devices=[name])
    assert words in refused(outcome)
    assert host.ran == []


def test_one_that_is_open_is_refused():
    device = DaxDevice("dax1.0", "devdax", GIB, 2, origin="cxl")
    state = State(dax=(device,), dax_users={"dax1.0": ["pid 7 (famfs)"]})
    changes = plan_changes(state, DesiredState("system-ram", regions=(), devices=("dax1.0",)))
    (refusal,) = changes.refusals
    assert refusal.object == "dax1.0" and "pid 7 (famfs)" in refusal.why
    assert changes.steps == ()


def test_another_device_under_a_confirmed_name_is_left_alone(host):
    another = replace(host.devices["dax1.0"], size=2 * GIB)
    host.after_the_plan(lambda: host.devices.update({"dax1.0": another}))
    outcome = memory(host)
    (failure,) = outcome.failures
    assert (failure.object, failure.do) == ("dax1.0", "run --check again")
    assert host.devices["dax1.0"].mode == "devdax"


def test_memory_of_before_stays_memory(host):
    """CXL memory is the kernel's from its start mostly; that is nothing of ours to undo."""
    device = host.devices["dax1.0"]
    device.mode, device.online = "system-ram", 6
    outcome = memory(host, Consent())
    assert [step["do"] for step in outcome.steps] == ["online-memory"]
    assert device.online == 8
    assert host.teardown().steps == []
    assert device.mode == "system-ram"


def test_memory_that_does_not_come_back_is_told(host):
    memory(host)
    device = host.devices["dax1.0"]
    device.stuck = True
    outcome = host.teardown()
    assert os.strerror(errno.EBUSY) in outcome.failures[0].why
    assert "numastat" in outcome.failures[0].do
    assert device.mode == "system-ram"
    assert "dax1.0" in load_record(host.files.record).dax
    device.stuck, device.movable = False, False
    outcome = host.teardown()
    assert "dax1.0: " in refused(outcome)
    assert "restart the host" in refused(outcome)
    device.mode, device.online = "devdax", 0  # that restart
    assert host.teardown().failures == []
    assert not host.files.record.exists()


# Whom devices belong to ------------------------------------------------------------


@pytest.fixture
def pmem(tmp_path):
    made = SimulatedHost(tmp_path)
    made.regions = {"region0": Region_("region0")}
    made.write_tree()
    return made


def devdax(host: SimulatedHost, consent: Consent | None = None, **desired) -> Outcome:
    given = {"mode": "devdax", "regions": ["region0"], "owner": "nobody", **desired}
    return host.provision(consent or Consent(), **given)


NOBODY = (pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
NODE = "/dev/dax0.0"


def test_a_device_is_given_now_and_by_a_rule(pmem):
    outcome = carried_out(devdax(pmem))
    assert [step["do"] for step in outcome.steps] == [
        "create-namespace", "own-device", "write-udev-rules", "write-host-file",
    ]  # fmt: skip
    assert pmem.owners[NODE] == (*NOBODY, 0o660)
    uuid = pmem.spaces["namespace0.0"].uuid
    who = f'OWNER="{NOBODY[0]}", GROUP="{NOBODY[1]}", MODE="0660"'
    rule = f'SUBSYSTEM=="dax", ATTRS{{uuid}}=="{uuid}", {who}'
    assert pmem.files.udev_rules.read_text().splitlines()[1:] == [rule]
    assert ["udevadm", "control", "--reload"] in pmem.ran
    ran = len(pmem.ran)
    assert devdax(pmem).steps == []
    assert devdax(pmem, Consent(verify_only=True)).failures == []
    assert len(pmem.ran) == ran


def test_a_device_that_is_not_theirs_any_more_deviates(pmem):
    devdax(pmem)
    pmem.owners[NODE] = (0, 0, 0o600)
    seen = devdax(pmem, Consent(verify_only=True))
    assert [step["object"] for step in seen.steps] == [NODE]
    assert devdax(pmem).failures == []
    assert pmem.owners[NODE] == (*NOBODY, 0o660)


def test_nobody_named_it_is_roots_again_and_teardown_takes_the_rule(pmem):
    devdax(pmem)
    carried_out(devdax(pmem, owner=None))
    assert pmem.owners[NODE] == (0, 0, 0o600)
    assert not pmem.files.udev_rules.exists()
    devdax(pmem)
    carried_out(pmem.teardown(OF_NAMESPACE))
    assert not pmem.files.udev_rules.exists()
    assert not pmem.files.record.exists()


def system_ram(host: SimulatedHost, consent: Consent | None = None) -> Outcome:
    return devdax(host, consent, mode="system-ram", owner=None)


OF_NAMESPACE = Consent(True, ("namespace0.0",))


def test_as_memory_it_is_nobodys(pmem):
    devdax(pmem)
    carried_out(devdax(pmem, OF_NAMESPACE, mode="system-ram"))
    assert pmem.devices["dax0.0"].mode == "system-ram"
    assert not pmem.files.udev_rules.exists()
    assert pmem.files.daxctl_conf.exists()


@pytest.mark.parametrize("consent", [Consent(), Consent(True), Consent(False, ("namespace0.0",))])
def test_a_device_that_was_given_away_becomes_memory_by_consent_alone(pmem, consent):
    """Data that a program keeps in it are lost: daxctl-reconfigure-device(1)."""
    devdax(pmem)
    ran = len(pmem.ran)
    outcome = system_ram(pmem, consent)
    assert outcome.destroy == ["namespace0.0"]
    assert "namespace0.0" in refused(outcome)
    assert len(pmem.ran) == ran
    outcome = carried_out(system_ram(pmem, OF_NAMESPACE))
    assert pmem.devices["dax0.0"].mode == "system-ram"
    assert system_ram(pmem).steps == []


def undone_by_a_restart(host: SimulatedHost) -> None:
    host.devices["dax0.0"].mode, host.devices["dax0.0"].online = "devdax", 0


def test_what_was_made_to_be_memory_is_so_again_without_consent(pmem):
    assert system_ram(pmem).refusals == []
    undone_by_a_restart(pmem)
    outcome = system_ram(pmem)
    assert (outcome.destroy, outcome.refusals, outcome.failures) == ([], [], [])
    assert pmem.devices["dax0.0"].mode == "system-ram"


def test_memory_by_consent_is_memory_again_without_until_it_is_given_away(pmem):
    devdax(pmem)
    system_ram(pmem, OF_NAMESPACE)
    undone_by_a_restart(pmem)
    assert system_ram(pmem).refusals == []
    undone_by_a_restart(pmem)
    written = {step["do"] for step in devdax(pmem, owner=None).steps}  # it is a device already
    assert written == {"write-daxctl-conf", "write-host-file"}
    assert "namespace0.0" in refused(system_ram(pmem))
    devdax(pmem, owner=None)
    system_ram(pmem, OF_NAMESPACE)
    devdax(pmem, owner=None)
    assert pmem.devices["dax0.0"].mode == "devdax"
    assert "namespace0.0" in refused(system_ram(pmem))


@pytest.mark.parametrize("made_for", ["devdax", "system-ram"])
def test_a_device_that_is_open_becomes_no_memory_whatever_is_confirmed(pmem, made_for):
    devdax(pmem, mode=made_for, owner=None)
    undone_by_a_restart(pmem)
    desired = DesiredState("system-ram", regions=("region0",))
    state = read_state(desired, pmem, pmem.files, pmem.kernel())
    users = NamespaceUsers(Content(True), (), ("/dev/dax0.0 is open in pid 7 (famfs)",))
    changes = plan_changes(replace(state, namespace_users={"namespace0.0": users}), desired)
    (refusal,) = changes.refusals
    assert refusal.object == "namespace0.0"
    assert "/dev/dax0.0" in refusal.why and "pid 7 (famfs)" in refusal.why
    assert "to-system-ram" not in [step.do for step in changes.steps]


def test_a_device_of_ours_of_which_nothing_is_on_record_becomes_memory_by_consent(pmem):
    """By its name alone it is ours; whom it was given to, nobody knows."""
    system_ram(pmem)
    undone_by_a_restart(pmem)
    pmem.files.record.unlink()
    assert "namespace0.0" in refused(system_ram(pmem))
    assert system_ram(pmem, OF_NAMESPACE).failures == []
    assert system_ram(pmem).steps == []


@pytest.mark.parametrize("where", ["cut_at", "cut_after"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_making_memory_of_a_region_goes_on_without_consent(pmem, where, number):
    pmem.kill(lambda: system_ram(pmem), **{where: number})
    outcome = system_ram(pmem)
    assert (outcome.destroy, outcome.refusals, outcome.failures) == ([], [], [])
    assert pmem.devices["dax0.0"].mode == "system-ram"
    undone_by_a_restart(pmem)
    assert system_ram(pmem).refusals == []


@pytest.mark.parametrize("first", ["devdax", "system-ram"])
def test_a_device_given_away_by_a_run_that_was_cut_off_is_not_taken_unasked(pmem, first):
    # Made, and not on record.
    pmem.kill(lambda: devdax(pmem, mode=first, owner=None), cut_after=1)
    devdax(pmem, owner=None)
    assert "namespace0.0" in refused(system_ram(pmem))


def test_a_rule_is_only_for_what_it_names(pmem):
    """Somebody else's device, or one of another region of ours, stays whose it is."""
    pmem.regions["region1"] = Region_("region1")
    devdax(pmem, regions=["region0", "region1"])
    devdax(pmem, regions=["region1"], owner=None)
    rules = pmem.files.udev_rules.read_text()
    assert str(pmem.spaces["namespace0.0"].uuid) in rules
    assert str(pmem.spaces["namespace1.0"].uuid) not in rules
    assert pmem.owners["/dev/dax1.0"] == (0, 0, 0o600)


def test_the_mode_bits_are_read_from_the_file_itself(tmp_path):
    file = tmp_path / "node"
    file.touch(0o640)
    file.chmod(0o640)
    assert Commands().owner_of(str(file)) == (os.getuid(), file.stat().st_gid, 0o640)
    assert Commands().owner_of(str(tmp_path / "none")) is None
