"""Inode tables that Linux clears after the first mount: on real file systems, in files."""

import re
import subprocess
from pathlib import Path

import pytest
from recorded_kernel import write

from harness.host.confounders import uncontrolled
from harness.tiers.linux.ext4 import EAGER, LazyGroups, lazy_groups
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts

ROOT = Path(__file__).parents[2]
CODE = "ext4lazyinit"


@pytest.fixture
def kernel(tmp_path):
    """A host with an empty disk of 300 MiB: three block groups."""
    (tmp_path / "dev").mkdir()
    with (tmp_path / "dev/new").open("wb") as disk:
        disk.truncate(300 << 20)
    return Kernel(tmp_path)


def make(kernel: Kernel, *more: str, options="nodiscard") -> None:
    """``nodiscard``: a file's holes are zero, which mke2fs sees; a disk's content is not known."""
    argv = ["mkfs.ext4", "-q", "-F", *more, "-E", options, kernel.path("/dev/new")]
    subprocess.run(argv, check=True)


def codes(kernel: Kernel, *mount_options: str) -> list[str]:
    facts = TierFacts(
        "block", mount_point="/x", filesystem="ext4", device="/dev/new",
        mount_options=mount_options,
    )  # fmt: skip
    tier = Tier(TierClaim("ssd", "block", path="/x"), facts)
    return [each.code for each in uncontrolled([tier], kernel) if each.code == CODE]


@pytest.mark.parametrize(
    "more", [(), ("-O", "^64bit"), ("-b", "1024"), ("-O", "^metadata_csum,uninit_bg")]
)
def test_a_fresh_file_system_has_all_its_inode_tables_to_be_cleared(kernel, more):
    make(kernel, *more)
    groups = lazy_groups("/dev/new", kernel)
    assert groups is not None and groups.waiting == groups.groups >= 3
    assert codes(kernel) == [CODE]
    assert codes(kernel, "noinit_itable") == []


def test_nothing_is_left_to_do_with_the_project_s_options(kernel):
    make(kernel, "-b", "4096", options=f"nodiscard,{EAGER}")
    assert lazy_groups("/dev/new", kernel) == LazyGroups(0, 3)
    write(kernel.root, "/proc/7/stat", "7 (ext4lazyinit) S 2 0 0\n")  # of another file system
    assert codes(kernel) == []


@pytest.mark.parametrize(
    ("stat", "warned"),
    [
        ("7 (ext4lazyinit) S 2 0 0", [CODE]),
        ("7 (ext4lazyinit) S 812 0 0", []),  # a user's process with that name
        ("7 (jbd2/vda-8) S 2 0 0", []),
    ],
)
def test_the_thread_decides_where_the_device_cannot_be_read(kernel, stat, warned):
    kernel.path("/dev/new").unlink()
    write(kernel.root, "/proc/7/stat", f"{stat}\n")
    assert codes(kernel) == warned


def test_every_ext4_of_the_project_is_made_with_these_options():
    listed = subprocess.run(
        ["git", "grep", "-nE", r"(mkfs\.ext4|mke2fs)\W+-(q|b)\b", "--", ".", ":!docs"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    calls = [line for line in listed.stdout.splitlines() if not line.startswith("tests/tiers/")]
    assert len(calls) > 8
    statement = re.compile(rf"{re.escape(EAGER)}|\bEAGER\b|\*options")
    assert [line for line in calls if not statement.search(line)] == []
