"""Use of Optane modules' capacity and their pending goal, as ipmctl reports them.

Its text output is read, never its XML: ``-o nvmxml`` implies ``-force`` (ipmctl-create-goal(1)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .commands import Commands
from .linux import resource_table

#: DRAM to Optane: outside of it, Memory Mode's cache is too small or the capacity wasted.
RATIO_LEAST, RATIO_MOST = 4, 16


@dataclass(frozen=True)
class Goals:
    """``error``: why nothing else is known, in ipmctl's words. Capacities in bytes.

    ``dram_bytes``, ``physical_bytes``: all of the DRAM and of the modules, whatever it is used as;
    ``physical_bytes`` 0 where ipmctl does not report it.
    ``types``: PersistentMemoryType of every region. ``pending``: a goal waits for a restart.
    """

    error: str | None = None
    volatile_bytes: int = 0
    app_direct_bytes: int = 0
    dram_bytes: int = 0
    types: tuple[str, ...] = ()
    pending: bool = False
    physical_bytes: int = 0


def read_goals(commands: Commands) -> Goals:
    """Run ipmctl: three times where there are modules, else once."""
    if not commands.has("ipmctl"):
        return Goals(error="ipmctl is not installed")
    resources = commands.run(["ipmctl", "show", "-u", "B", "-memoryresources"])
    if resources.rc:
        return Goals(error=f"ipmctl fails (exit {resources.rc}): {resources.words}")
    try:
        resources_table = resource_table(resources.out)
    except ValueError as error:
        return Goals(error=f"cannot parse ipmctl's output: {error}")
    if not resources_table:
        return Goals(error=f"cannot parse ipmctl's output: {resources.words[:200]}")
    table = dict.fromkeys(("Volatile", "AppDirect", "Cache", "Physical"), (0, 0)) | resources_table
    regions = commands.run(["ipmctl", "show", "-region"])
    goal = commands.run(["ipmctl", "show", "-goal"])
    if goal.rc and "no goal" not in goal.words.lower():
        return Goals(error=f"ipmctl show -goal fails (exit {goal.rc}): {goal.words}")
    return Goals(
        volatile_bytes=table["Volatile"][1],
        app_direct_bytes=table["AppDirect"][1],
        dram_bytes=table["Physical"][0] or table["Volatile"][0] or table["Cache"][0],
        types=parse_regions(regions.out),
        pending=is_pending(goal.out),
        physical_bytes=table["Physical"][1],
    )


def parse_regions(text: str) -> tuple[str, ...]:
    """PersistentMemoryType of every line of ``show -region``."""
    return tuple(re.findall(r"\|\s*(AppDirect(?:NotInterleaved)?)\s*\|", text))


def is_pending(text: str) -> bool:
    """Return whether ``show -goal`` has a table with a module in it."""
    return bool(re.search(r"^\s*0x[0-9A-Fa-f]+\s*\|\s*0x[0-9A-Fa-f]+\s*\|", text, re.MULTILINE))


@dataclass(frozen=True)
class Goal:
    """A firmware goal: ``memory_percent`` of Memory Mode, the rest of ``kind``.

    ``kind``: AppDirect, AppDirectNotInterleaved, or none. ``reserved_percent`` None: not requested,
    any reserved part is accepted.
    """

    kind: str
    memory_percent: int = 0
    reserved_percent: int | None = None

    @classmethod
    def of_text(cls, description: str) -> Goal:
        """The goal of :func:`current_goal`'s text."""
        percent, kind, *reserved = description.split()
        return cls(kind, int(percent), int(reserved[0]) if reserved else None)

    def __str__(self) -> str:
        """As on the command line."""
        arguments = []
        if self.memory_percent:
            arguments.append(f"MemoryMode={self.memory_percent}")
        if self.memory_percent < 100 and self.kind != "none":
            arguments.append(f"PersistentMemoryType={self.kind}")
        if self.reserved_percent:
            arguments.append(f"Reserved={self.reserved_percent}")
        return " ".join(arguments)

    @property
    def argv(self) -> list[str]:
        """``ipmctl create -f -goal …``: ``-f`` answers its prompt."""
        return ["ipmctl", "create", "-f", "-goal", *str(self).split()]

    @property
    def _mixed(self) -> bool:
        return 0 < self.memory_percent < 100

    def is_met(self, goals: Goals) -> bool:
        """Return whether the modules are so; of memory within ten points: firmware rounds
        (ipmctl-create-goal(1)).
        """
        whole = goals.volatile_bytes + goals.app_direct_bytes
        if goals.error or not whole or goals.pending:
            return False
        share = 100 * goals.volatile_bytes / ((self._mixed and goals.physical_bytes) or whole)
        if abs(share - self.memory_percent) > (10 if self._mixed else 1):
            return False
        if self.memory_percent == 100:
            return True
        left = unmapped_percent(goals)
        requested = left if self.reserved_percent is None else self.reserved_percent
        if (
            left is not None
            and requested is not None
            and abs(left - requested) > _slack(self._mixed)
        ):
            return False
        return set(goals.types) == {self.kind}

    def reserved_note(self, goals: Goals) -> str | None:
        """Where a goal that is met says less than one could think."""
        left, slack = unmapped_percent(goals), _slack(self._mixed)
        if self.memory_percent == 100:
            return None
        reserved = self.reserved_percent
        if reserved and (left is None or reserved <= slack):
            return f"ipmctl does not report whether {reserved} % of the modules are reserved"
        if not reserved and left is not None and left > slack:
            return f"{left:.0f} % of the modules' capacity are neither memory nor AppDirect"
        return None


def unmapped_percent(goals: Goals) -> float | None:
    """Return the percentage of modules that is neither memory nor AppDirect; None if unknown."""
    if not goals.physical_bytes:
        return None
    mapped = goals.volatile_bytes + goals.app_direct_bytes
    return 100 * (goals.physical_bytes - mapped) / goals.physical_bytes


def _slack(mixed: bool) -> int:
    """Points: a module's own bytes and alignment take up to one; with memory, firmware rounds."""
    return 10 if mixed else 3


def current_goal(goals: Goals) -> str | None:
    """Return the goal that restores the current state, None if unknown.

    Percentage of memory, type, and where it is known the percentage that is reserved.
    """
    whole = goals.volatile_bytes + goals.app_direct_bytes
    kinds = sorted(set(goals.types))
    if not whole or len(kinds) > 1:
        return None
    mixed = bool(goals.volatile_bytes and goals.app_direct_bytes)
    percent = round(100 * goals.volatile_bytes / ((mixed and goals.physical_bytes) or whole))
    summary = f"{percent} {kinds[0] if kinds else 'none'}"
    left = unmapped_percent(goals)
    return summary if left is None else f"{summary} {round(left) if left > _slack(mixed) else 0}"


def ratio_note(goals: Goals, memory_mode_percent: int) -> str | None:
    """The part that is to be memory, to the DRAM: where that caches badly, or is hardly worth it.

    Of the physical capacity: modules that are not configured yet have no other.
    """
    whole = goals.physical_bytes or goals.volatile_bytes + goals.app_direct_bytes
    if not goals.dram_bytes or not whole or not memory_mode_percent:
        return None
    ratio = whole * memory_mode_percent / 100 / goals.dram_bytes
    part = (
        "the modules" if memory_mode_percent == 100 else f"{memory_mode_percent} % of the modules"
    )
    summary = f"{part} have {ratio:.1f} times the DRAM's capacity"
    if ratio < RATIO_LEAST:
        return f"{summary}: below 1:{RATIO_LEAST} Memory Mode adds little to the DRAM that it hides"
    if ratio > RATIO_MOST:
        return f"{summary}: beyond 1:{RATIO_MOST} the DRAM is too small a cache"
    return f"{summary}, within 1:{RATIO_LEAST} to 1:{RATIO_MOST}"
