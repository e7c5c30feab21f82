"""Which repeats of A and B ran side by side: block k of one within the time of that block.

A pair cancels what drifts only if its runs shared the drift. ``experiment run`` may be
resumed days later, even in the middle of a run, and an experiment that grew keeps its older
runs: the same block number alone says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.reports.statistics import Pairing
from harness.store import StoredRun
from harness.units import format_ns

#: How far apart two runs of a block (every sitting of them) may start: this often the time of
#: all runs of the block (golden data are restored and servers started between them), and a slack.
BLOCK_TIMES = 3
SLACK_NS = 600 * 10**9


@dataclass(frozen=True)
class Paired:
    """The runs used, in pairs or not; ``why`` they are not; ``left_out``: ids without a pair."""

    a: tuple[StoredRun, ...]
    b: tuple[StoredRun, ...]
    pairing: Pairing
    why: str = ""
    left_out: tuple[str, ...] = ()


def paired(
    a: Sequence[StoredRun], b: Sequence[StoredRun], beside: Sequence[StoredRun] = ()
) -> Paired:
    """A and B in pairs of one block, or as they are with the reason.

    ``beside``: other runs of the store; those of the same experiment and block say how
    long the block took.
    """
    names = {run.run["experiment"]["name"] for run in (*a, *b)}
    by_block = [{run.run["spec"]["block"]: run for run in side} for side in (a, b)]
    common = sorted(by_block[0].keys() & by_block[1].keys())
    if len(names) > 1:
        why = "they come from different experiments, so their repeats did not run side by side"
    elif any(len(blocks) < len(side) for blocks, side in zip(by_block, (a, b), strict=True)):
        why = "a block was run more than once"
    elif not common:
        why = "they have no block in common"
    else:
        why = _apart([(by_block[0][k], by_block[1][k]) for k in common], (*a, *b, *beside))
    if why:
        return Paired(tuple(a), tuple(b), "unpaired", why)
    left = tuple(run.run_id for run in (*a, *b) if run.run["spec"]["block"] not in common)
    first, second = (tuple(blocks[k] for k in common) for blocks in by_block)
    return Paired(first, second, "paired", "", left)


def _apart(pairs: Sequence[tuple[StoredRun, StoredRun]], every: Sequence[StoredRun]) -> str:
    """Which block's runs did not run side by side, and by how much; empty if all did."""
    far = []
    for one, other in pairs:
        starts = [*_starts(one), *_starts(other)]
        gap = max(starts) - min(starts)
        bound = BLOCK_TIMES * _block_ns(one, every) + SLACK_NS
        if gap > bound:
            far.append((one.run["spec"]["block"], gap, bound))
    if not far:
        return ""
    block, gap, bound = max(far, key=lambda found: found[1])
    return (
        f"in {len(far)} of {len(pairs)} blocks the two did not run side by side "
        f"(block {block}: started {_long(gap)} apart, at most {_long(bound)} would do)"
    )


def _starts(run: StoredRun) -> list[int]:
    """When each sitting of a run began, in Unix ns: it is as far apart as they are."""
    return [run.run["started_unix_ns"], *(one["unix_ns"] for one in run.run.get("resumed", []))]


def _block_ns(run: StoredRun, every: Sequence[StoredRun]) -> int:
    """The durations of the runs of its experiment and block added up, each spec once."""
    took: dict[str, int] = {}
    for other in every:
        if _block_of(other) == _block_of(run):
            spec = other.run["spec_hash"]
            took[spec] = max(took.get(spec, 0), other.run["duration_ns"])
    return sum(took.values())


def _block_of(run: StoredRun) -> tuple[str, int]:
    return run.run["experiment"]["name"], run.run["spec"]["block"]


def _long(duration_ns: int) -> str:
    """``3.2 days``, ``5.0 h``, ``12 min``; seconds below."""
    for limit_s, text in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if duration_ns >= 2 * limit_s * 10**9:
            return f"{duration_ns / 1e9 / limit_s:.1f} {text}"
    return format_ns(duration_ns)
