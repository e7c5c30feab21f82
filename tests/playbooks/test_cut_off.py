"""What a run that failed or was cut off leaves on record, and what the next one makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated import GIB, Region_, SimulatedHost, Space_, carried_out
from tierbench.apply import CommandRunner, carry_out
from tierbench.change_builder import Step
from tierbench.commands import Done, StepFailed
from tierbench.desired_state import DesiredState
from tierbench.record import Record, load_record
from tierbench.run import Consent, Outcome
from tierbench.state import State

# The kernel parameter --------------------------------------------------------------

PARAMETER = "memmap=4G!12G"


class BootLoader(SimulatedHost):
    """grubby or update-grub, which fails while it is told to."""

    fails = False

    def _answer(self, words: list[str]) -> Done:
        return Done(1, "", "no room in /boot") if self.fails else Done(0, "", "")


def memmap(host: BootLoader, do: str, loader: str) -> Record:
    """What is on record behind the step, done or failed."""
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
def host(tmp_path: Path) -> SimulatedHost:
    """region0 with labels, and nothing in it."""
    made = SimulatedHost(tmp_path)
    made.regions = {"region0": Region_("region0")}
    made.write_tree()
    return made


def provision(host: SimulatedHost, consent: Consent | None = None) -> Outcome:
    desired = {"mode": "appdirect", "regions": ["region0"], "mount_root": str(host.mount_root)}
    return host.provision(consent or Consent(), **desired)


def owners_own(host: SimulatedHost) -> None:
    """Nameless, without a signature that blkid knows, and with data on it."""
    host.spaces["namespace0.0"] = Space_(
        "namespace0.0", "region0", "fsdax", GIB, "theirs", data="data"
    )
    host.write_tree()


def test_what_its_owner_makes_where_creating_one_failed_is_the_owners(host: SimulatedHost) -> None:
    host.replies["ndctl create-namespace"] = lambda _: Done(234, "", "region0: misaligned")
    assert provision(host).failures
    assert load_record(host.files.record).creating is None
    owners_own(host)
    ran = len(host.ran)
    outcome = provision(host)
    assert [each.object for each in outcome.refusals] == ["namespace0.0"]
    assert outcome.destroy == ["namespace0.0"]
    assert len(host.ran) == ran


def test_a_namespace_that_came_of_a_command_that_failed_is_gone_on_with(host):
    create = host._ndctl_create_namespace

    def make_and_fail(words: list[str]) -> Done:
        create(words)
        return Done(1, "", "killed")

    host.replies["ndctl create-namespace"] = make_and_fail
    assert provision(host).failures
    # By consent, since the xfs of before shows through; not refused as somebody's.
    carried_out(provision(host, Consent(True, ("namespace0.0",))))
    assert (host.spaces["namespace0.0"].signature or ())[:2] == ("ext4", "tierbench")


def test_a_file_system_is_made_once_though_the_look_at_it_failed(host: SimulatedHost) -> None:
    """What is on it by the next run may be data already."""
    made: list[str] = []
    look = host._blkid

    def fails_behind_mkfs(words: list[str]) -> Done:
        if host.ran[-1][0] == "mkfs.ext4" and not made:
            made.append(words[-1])
            return Done(4, "", "an ambivalent low-level probing result")
        return look(words)

    host.replies["blkid"] = fails_behind_mkfs
    assert "/dev/pmem0" in [each.object for each in provision(host).failures]
    signature = host.spaces["namespace0.0"].signature
    outcome = carried_out(provision(host))
    assert "make-filesystem" not in [step["do"] for step in outcome.steps]
    assert host.spaces["namespace0.0"].signature == signature
    assert signature is not None
    recorded = {"point": f"{host.mount_root}/pmem0", "block_size": 4096}
    assert load_record(host.files.record).filesystems == {signature[2]: recorded}
    assert provision(host).steps == []
