"""blkid, mkfs and wipefs as the playbooks call them, for real, on files instead of devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tierbench.commands import Commands
from tierbench.desired_state import DesiredState
from tierbench.filesystems import mkfs_argv
from tierbench.namespace_users import probe

MIB = 1 << 20


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "device"
    with path.open("wb") as file:
        file.truncate(64 * MIB)
    return path


UUID = "6c5a1f0e-7b7e-4e6b-9d4b-3f1f6a3f0001"


def make(device: Path, **desired: Any) -> None:
    wanted = replace(DesiredState("appdirect"), **desired)
    done = Commands().run(mkfs_argv(str(device), wanted, UUID))
    assert done.rc == 0, done.words


def test_a_file_system_of_ours_is_told_by_its_label_and_is_aligned(device: Path) -> None:
    make(device)
    content = probe(str(device), Commands())
    assert (content.known, content.type, content.label) == (True, "ext4", "tierbench")
    assert (content.uuid, content.block_size) == (UUID, 4096)
    # In the superblock (1024): log2 of the block size, and the stride and stripe width in blocks.
    block = device.read_bytes()[1024:2048]
    assert 1024 << int.from_bytes(block[0x18:0x1C], "little") == 4096
    assert int.from_bytes(block[0x164:0x166], "little") * 4096 == 2 * MIB
    assert int.from_bytes(block[0x170:0x174], "little") * 4096 == 2 * MIB


def test_mke2fs_asks_nobody_where_there_is_no_terminal(device: Path) -> None:
    """The plan alone stands between a file system and mkfs."""
    make(device)
    make(device)


def test_xfs_has_the_uuid_and_the_blocks_that_it_was_given(device: Path) -> None:
    with device.open("r+b") as file:
        file.truncate(2048 * MIB)
    make(device, filesystem="xfs", block_size=1024)
    content = probe(str(device), Commands())
    assert (content.type, content.label, content.uuid) == ("xfs", "tierbench", UUID)
    with device.open("rb") as file:
        assert int.from_bytes(file.read(8)[4:], "big") == 1024
    desired = DesiredState("appdirect", filesystem="xfs")
    assert Commands().run(mkfs_argv(str(device), desired, UUID)).rc != 0  # it has a signature
    assert Commands().run(mkfs_argv(str(device), desired, UUID, force=True)).rc == 0


def test_nothing_is_known_to_be_nothing_also_once_it_is_wiped(device: Path) -> None:
    assert probe(str(device), Commands()).empty
    make(device)
    done = Commands().run(["wipefs", "--all", "--quiet", str(device)])
    assert done.rc == 0, done.words
    assert probe(str(device), Commands()).empty


def test_a_partition_table_and_swap_are_something(device: Path) -> None:
    done = Commands().run(["mkswap", "-L", "theirs", str(device)])
    assert done.rc == 0, done.words
    assert probe(str(device), Commands()).type == "swap"
    with device.open("r+b") as file:
        file.write(bytes(2 * MIB))
        file.seek(446)
        file.write(bytes([0, 0, 2, 0, 0x83, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0, 0xFF, 0xFF, 1, 0]))
        file.seek(510)
        file.write(b"\x55\xaa")
    assert probe(str(device), Commands()).type == "dos"


def test_two_signatures_at_once_are_not_taken_for_one_or_none(device: Path) -> None:
    make(device)
    # The magic of a btrfs superblock, whole enough for blkid, beside ext4's.
    swap = device.with_name("swap")
    with swap.open("wb") as file:
        file.truncate(64 * MIB)
    Commands().run(["mkswap", str(swap)])
    with device.open("r+b") as file:
        file.seek(4096 - 10)
        file.write(swap.read_bytes()[4096 - 10 : 4096])
        file.seek(1024)
        ext4 = file.read(1024)
    content = probe(str(device), Commands())
    assert ext4[0x38:0x3A] == b"\x53\xef"
    assert not content.empty


def test_a_device_that_is_not_there_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    content = probe(str(tmp_path / "none"), Commands())
    assert not content.known
    assert content.why
