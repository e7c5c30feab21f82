"""DRAM set aside by the kernel's parameter: planned until it is done, and never another size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from recorded import EMPTY
from simulated import Region_, SimulatedHost
from tierbench.change_builder import ChangeBuilder
from tierbench.changes import plan_changes
from tierbench.desired_state import DesiredState
from tierbench.memmap import plan_memmap
from tierbench.ndctl import Inventory, Namespace, Region
from tierbench.record import Record
from tierbench.state import State, read_state

GIB = 1 << 30
IOMEM = "100000000-4ffffffff : System RAM\n"
PARAMETER = "memmap=4G!16G"
FOUR = DesiredState("emulated", memmap_bytes=4 * GIB)


def planned(state: State, desired: DesiredState = FOUR) -> tuple[list[str], list[str]]:
    """Steps and refusals."""
    builder = ChangeBuilder(state, desired)
    plan_memmap(builder)
    return [step.do for step in builder.steps], [each.why for each in builder.refusals]


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


# What the running kernel has -----------------------------------------------------------


def started_with(*words: str, record: str | None = PARAMETER) -> State:
    return State(cmdline=" ".join(("quiet", *words)), record=Record(memmap=record))


@pytest.mark.parametrize(
    ("desired", "words"),
    [
        (
            DesiredState("emulated", memmap_bytes=8 * GIB),
            f"emulated_size {8 * GIB}: the kernel was",
        ),
        (
            DesiredState("emulated", memmap_bytes=4 * GIB, memmap_start=20 * GIB),
            f"emulated_size {4 * GIB} and emulated_start {20 * GIB}: the kernel was",
        ),
    ],
)
def test_another_size_than_the_running_kernels_is_refused(
    desired: DesiredState, words: str
) -> None:
    for other in ((), ("memmap=8G!20G",)):  # somebody's own has nothing to say here
        steps, (why,) = planned(started_with(PARAMETER, *other), desired)
        assert steps == []
        assert why.startswith(words)
        assert why.endswith(f"started with {PARAMETER} ({4 * GIB} bytes from {16 * GIB} on)")


@pytest.mark.parametrize("word", [PARAMETER, "memmap=0x100000000!0x400000000", "memmap=4096M!16G"])
def test_the_size_that_is_there_needs_nothing_however_it_is_written(word: str) -> None:
    builder = ChangeBuilder(started_with(word, record=word), replace(FOUR, memmap_start=16 * GIB))
    assert plan_memmap(builder)
    assert (builder.steps, builder.refusals, len(builder.notes)) == ([], [], 1)


def test_a_parameter_that_somebody_gave_is_taken_and_the_other_size_told() -> None:
    builder = ChangeBuilder(started_with("memmap=512M!4G", record=None), FOUR)
    assert plan_memmap(builder)
    assert (
        f"emulated_size {4 * GIB}: the kernel was started with memmap=512M!4G" in builder.notes[1]
    )


def legacy(number: int, start: int | None, size: int = 4 * GIB) -> Region:
    """As the kernel shows DRAM set aside by memmap= and a real NVDIMM of type 12 alike."""
    name = f"region{number}"
    return Region(name, size, 1 << 24, 0, 0, "pmem", (), False, provider="e820", start=start)


def on_e820(*regions: Region) -> State:
    """Each with the namespace that the kernel makes of itself: fsdax, without UUID."""
    spaces = tuple(
        Namespace(f"namespace{each.number}.0", each.name, "fsdax", each.size_bytes,
                  each.size_bytes, block=f"pmem{each.number}", map="mem")
        for each in regions
    )  # fmt: skip
    namespace_users = {each.name: EMPTY for each in spaces}
    return replace(
        started_with(PARAMETER),
        inventory=Inventory({}, regions, spaces),
        namespace_users=namespace_users,
    )


@pytest.mark.parametrize(
    "nvdimm", [legacy(0, 8 * GIB), legacy(0, 16 * GIB, 8 * GIB)], ids=["elsewhere", "larger"]
)
def test_an_nvdimm_of_type_12_is_not_taken_for_the_dram_that_we_set_aside(nvdimm: Region) -> None:
    changes = plan_changes(on_e820(nvdimm, legacy(1, 16 * GIB)), FOUR)
    assert changes.refusals == ()
    assert [s.object for s in changes.steps if s.do == "reconfigure-namespace"] == ["namespace1.0"]
    assert "pmem0" not in " ".join(step.command for step in changes.steps)
    assert "pmem1" in " ".join(step.command for step in changes.steps)


@pytest.mark.parametrize(("told", "start"), [("0x400000000\n", 16 * GIB), ("0\n", None)])
def test_where_a_region_begins_is_read_from_sysfs(
    tmp_path: Path, told: str, start: int | None
) -> None:
    host = SimulatedHost(tmp_path, regions={"region0": Region_("region0")})
    host.write_tree()
    (tmp_path / "sys/bus/nd/devices/region0/resource").write_text(told)
    state = read_state(FOUR, host, host.files, host.kernel())
    assert state.inventory.regions[0].start == start
