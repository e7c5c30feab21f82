"""Rules of the rewriting: the flush that replaces a flush, and the fence that goes with it.

A rule keeps what the program relies on: clflush is ordered with other flushes and stores, clwb and
clflushopt are not, so that a fence goes with them unless one follows at once. A fence that comes
later is not seen, as in the paper: a fence too many costs time, not data.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import UsageError

FLUSHES = ("clflush", "clflushopt", "clwb")
FENCES = ("sfence", "mfence")
_ORDERED = "clflush"


@dataclass(frozen=True)
class Rule:
    """``old`` becomes ``new``, followed by ``fence`` ("": none) where no fence follows at once."""

    old: str
    new: str
    fence: str = ""


#: The paper's, and the same for flushes that were never ordered.
RULES = (Rule("clflush", "clwb", "sfence"), Rule("clflushopt", "clwb"))


def read_rule(old: str, new: str) -> Rule:
    """Read a rule from ``clflush`` and ``clwb+sfence``."""
    name, _, fence = new.partition("+")
    if old not in FLUSHES:
        raise UsageError(f"--from {old}", "no flush instruction", f"one of {', '.join(FLUSHES)}")
    if name not in FLUSHES or name == old or fence not in ("", *FENCES):
        raise UsageError(
            f"--to {new}",
            f"not a replacement of {old}",
            "a flush, and where it needs one a fence: clwb, clwb+sfence",
        )
    if old == _ORDERED and not fence:
        raise UsageError(
            f"--to {new}",
            "clflush is ordered with later stores and flushes, and nothing would be in its place",
            f"write {name}+sfence: no fence is added where one follows at once",
        )
    return Rule(old, name, fence)
