"""What a run that failed or was cut off leaves on record, and what the next one makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated import SimulatedHost
from tierbench.apply import Hands, carry_out
from tierbench.commands import Done, StepFailed
from tierbench.draft import Step
from tierbench.record import Record, load_record
from tierbench.state import State
from tierbench.wish import Wish

# The kernel parameter --------------------------------------------------------------

PARAMETER = "memmap=4G!12G"


class BootLoader(SimulatedHost):
    """grubby or update-grub, which fails while it is told to."""

    fails = False

    def _update_grub(self, words: list[str]) -> Done:
        return Done(1, "", "no room in /boot") if self.fails else Done(0, "", "")

    def _answer(self, words: list[str]) -> Done:
        return self._update_grub(words)


def memmap(host: BootLoader, do: str, loader: str) -> Record:
    """What is on record behind the step, done or failed."""
    state = State(boot_loader=loader, record=load_record(host.files.record))
    step = Step(do, "memmap", "", "", (), {"parameter": PARAMETER})
    try:
        carry_out(step, Hands(state, Wish("emulated"), host, host.files))
    except StepFailed:
        assert host.fails
    return load_record(host.files.record)


@pytest.mark.parametrize("loader", ["grubby", "update-grub"])
def test_a_kernel_parameter_is_done_when_the_boot_loader_has_it(
    tmp_path: Path, loader: str
) -> None:
    host = BootLoader(tmp_path)
    host.fails = True
    record = memmap(host, "set-memmap", loader)
    assert (record.memmap, record.memmap_done) == (PARAMETER, False)
    host.fails = False
    record = memmap(host, "set-memmap", loader)
    assert (record.memmap, record.memmap_done) == (PARAMETER, True)
    host.fails = True
    record = memmap(host, "remove-memmap", loader)
    assert (record.memmap, record.memmap_done) == (PARAMETER, False)
    host.fails = False
    assert memmap(host, "remove-memmap", loader) == Record()
