"""DRAM set aside by the kernel's parameter: planned until it is done, and never another size."""

from __future__ import annotations

from dataclasses import replace

from tierbench.draft import Draft
from tierbench.memmap import plan_memmap
from tierbench.record import Record
from tierbench.state import State
from tierbench.wish import Wish

GIB = 1 << 30
IOMEM = "100000000-4ffffffff : System RAM\n"
PARAMETER = "memmap=4G!16G"
FOUR = Wish("emulated", memmap_bytes=4 * GIB)


def planned(state: State, wish: Wish = FOUR) -> tuple[list[str], list[str]]:
    """Steps and refusals."""
    draft = Draft(state)
    plan_memmap(draft, wish)
    return [step.do for step in draft.steps], [each.why for each in draft.refusals]


def before_the_restart(record: Record) -> State:
    return State(record=record, iomem=IOMEM, boot_loader="update-grub", cmdline="quiet")


def test_a_boot_loader_that_was_not_told_is_told_again() -> None:
    cut_off = before_the_restart(Record(memmap=PARAMETER, memmap_done=False))
    assert planned(cut_off) == (["set-memmap", "reboot"], [])
    done = before_the_restart(Record(memmap=PARAMETER, memmap_done=True))
    assert planned(done) == (["reboot"], [])


def test_a_record_of_before_that_was_kept_believes_the_running_kernel() -> None:
    """It does not say whether the boot loader was told: the kernel has the parameter, or not."""
    old = Record(memmap=PARAMETER)
    assert planned(replace(before_the_restart(old), cmdline=f"quiet {PARAMETER}")) == ([], [])
    assert planned(before_the_restart(old)) == (["set-memmap", "reboot"], [])
