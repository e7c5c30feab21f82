"""Flags of directories, against lsattr."""

import subprocess

import pytest

from harness.host.inode_flags import TOP_OF_HIERARCHIES, add_inode_flag, inode_flags


def filesystem(folder):
    return subprocess.check_output(["stat", "-f", "-c", "%T", folder], text=True).strip()


def test_a_flag_is_added_where_the_file_system_has_it(tmp_path):
    if filesystem(tmp_path) != "ext2/ext3":
        with pytest.raises(OSError, match=r"supported|Inappropriate"):
            add_inode_flag(tmp_path, TOP_OF_HIERARCHIES)
        return
    before = inode_flags(tmp_path)
    add_inode_flag(tmp_path, TOP_OF_HIERARCHIES)
    assert inode_flags(tmp_path) == before | TOP_OF_HIERARCHIES
    printed = subprocess.check_output(["lsattr", "-d", tmp_path], text=True)
    assert "T" in printed.split()[0]
