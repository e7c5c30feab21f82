"""Free memory of a virtual machine that gives it back to its hypervisor."""

import pytest

from harness.host.free_memory import is_given_back, take_back
from harness.progress import SilentProgress
from harness.tiers.linux.kernel import Kernel
from harness.units import MIB

BALLOON = "sys/bus/virtio/drivers/virtio_balloon"


@pytest.mark.parametrize(("bits", "given"), [("011001", True), ("011000", False), ("", False)])
def test_a_balloon_device_with_its_sixth_bit_gives_free_memory_back(tmp_path, bits, given):
    device = tmp_path / BALLOON / "virtio0"
    device.mkdir(parents=True)
    (device / "features").write_text(bits.ljust(64, "0") if bits else "")
    assert is_given_back(Kernel(tmp_path)) is given


def test_a_machine_without_a_balloon_device_keeps_its_memory(tmp_path):
    assert not is_given_back(Kernel(tmp_path))


def test_memory_is_taken_for_twice_the_data_and_is_free_afterwards():
    assert take_back(8 * MIB, SilentProgress()) == 16 * MIB
    assert take_back(0, SilentProgress()) == 0


def test_no_more_is_taken_than_the_control_group_allows(monkeypatch):
    monkeypatch.setattr("harness.host.free_memory.own_limit_bytes", lambda: 10 * MIB)
    assert take_back(8 * MIB, SilentProgress()) == 6 * MIB
