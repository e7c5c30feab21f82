"""How many answers and other checks of the runs passed, in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from harness.store.runs import StoredRun
from reports.words import counted

#: What a check that stands for several answers says first: ``44 of 44 answers not compared``.
_ANSWERS_TOGETHER = re.compile(r"(\d+) of \d+ answers ")
_STATES = {"passed": "passed", "failed": "failed", "unknown": "could not be made"}


def checks(runs: Sequence[StoredRun]) -> str:
    """How many answers were right, then the checks of anything else, by their names."""
    answers: Counter[str] = Counter()
    others: dict[str, Counter[str]] = {}
    parts: dict[str, list[int]] = {}
    for run in runs:
        here: Counter[str] = Counter()
        for check in run.run["checks"]:
            if check["name"] in ("answer", "stream-answers"):
                together = _ANSWERS_TOGETHER.match(check["detail"])
                stands_for = int(together[1]) if check["name"] != "answer" and together else 1
                answers[check["status"]] += stands_for
            else:
                others.setdefault(check["name"], Counter())[check["status"]] += 1
                here[check["name"]] += 1
        for name, parts_of_run in here.items():
            parts.setdefault(name, []).append(parts_of_run)
    told = "; ".join(
        f"{name}: {_states(counts)}{_in_each(parts[name])}"
        for name, counts in sorted(others.items())
    )
    if told and not answers and all(_asks_nothing(run) for run in runs):
        return f"Checks: {told}."
    return " ".join([_answers(answers), *([f"Checks of other things: {told}."] if told else [])])


def _asks_nothing(run: StoredRun) -> bool:
    """Whether a run has no queries, and so no answers to check."""
    return not run.run["spec"]["params"].get("queries")


def _answers(counts: Counter[str]) -> str:
    if not (total := counts.total()):
        return "No answer was checked."
    if counts["passed"] == total:
        return f"{counted(total, 'answer')} checked: all passed."
    return (
        f"Of {counted(total, 'answer')} {counts['passed']} passed the check, {counts['failed']} "
        f"failed it, {counts['unknown']} could not be checked."
    )


def _in_each(parts: Sequence[int]) -> str:
    """`` (12 in each of 5 runs)``: what a sum over runs and parts of a check consists of."""
    if len(parts) < 2 or len(set(parts)) > 1 or parts[0] == 1:
        return ""
    return f" ({parts[0]} in each of {len(parts)} runs)"


def _states(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[state]} {said}" for state, said in _STATES.items() if counts[state])
