"""What was left uncontrolled over all runs, told once where runs differ in a measured number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from harness.store.runs import StoredRun
from reports.words import counted

Finding = Mapping[str, str]

#: A number that was measured: a decimal, a share, a size, thousands. Other whole numbers may be
#: names (node 0, CPU 3).
_MEASURED = re.compile(
    r"(?<![\w.,])(\d{1,3}(?:,\d{3})+|\d+\.\d+|\d+(?=\s?(?:%|[KMGT]iB\b)))(?![\w.]*\.\d)"
)


def uncontrolled(runs: Sequence[StoredRun]) -> list[dict[str, str]]:
    """``{what, found, do}`` in the order of the runs; ranges where they differ in numbers."""
    kinds: dict[tuple[str, ...], list[Finding]] = {}
    for run in runs:
        for one in run.run["uncontrolled"]:
            shape = _MEASURED.sub("#", one["found"])
            kinds.setdefault((one["what"], shape, one["do"]), []).append(one)
    return [
        {"what": what, "found": _together([one["found"] for one in held]), "do": do}
        for (what, _, do), held in kinds.items()
    ]


def _together(found: Sequence[str]) -> str:
    """The texts as one: ``load average 9.34 – 10.32 on 2 processors (in 5 runs)``."""
    if len(set(found)) == 1:
        return found[0]
    columns = zip(*(_MEASURED.findall(text) for text in found), strict=True)
    ranges = [_range(values) for values in columns]
    first = found[0]
    ends = [0, *(at for match in _MEASURED.finditer(first) for at in match.span()), len(first)]
    between = [first[a:b] for a, b in list(pairwise(ends))[::2]]
    text = "".join(f"{words}{one}" for words, one in zip(between, [*ranges, ""], strict=True))
    return f"{text} (in {counted(len(found), 'run')})"


def _range(values: Sequence[str]) -> str:
    low, high = min(values, key=_number), max(values, key=_number)
    return low if _number(low) == _number(high) else f"{low} – {high}"


def _number(text: str) -> float:
    return float(text.replace(",", ""))
