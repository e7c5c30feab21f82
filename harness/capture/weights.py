"""Classes of statements as a server counts them: how often, and their time."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.capture.classes import class_text
from harness.capture.replay_file import Dialect
from harness.progress import Progress

#: Progress is shown so often.
_STEP_S = 0.5


@dataclass(frozen=True)
class Weight:
    """A class of statements as the server counts it."""

    text: str
    calls: int
    total_ms: float


def by_class(
    rows: Iterable[tuple[str, int, float]], dialect: Dialect, excluded: Sequence[str] = ()
) -> dict[str, Weight]:
    """Add up statements of a class. ``rows``: texts, calls, ms; ``excluded``: the capture's own."""
    left_out = {class_text(text, dialect) for text in excluded}
    totals: dict[str, Weight] = {}
    for query, calls, total_ms in rows:
        if (text := class_text(query, dialect)) in left_out:
            continue
        before = totals.get(text, Weight(text, 0, 0.0))
        totals[text] = Weight(text, before.calls + calls, before.total_ms + total_ms)
    return totals


def counted_within(
    for_s: float, read: Callable[[], Mapping[str, Weight]], progress: Progress
) -> list[Weight]:
    """Return the statements that the server counts within a time from now on."""
    before = read()
    begun_s, passed_s = time.monotonic(), 0.0
    with progress.task("count statements", for_s, "s") as task:
        while passed_s < for_s:
            time.sleep(min(_STEP_S, for_s - passed_s))
            step_s = time.monotonic() - begun_s - passed_s
            passed_s += step_s
            task.advance(step_s)
    return [
        replace(weight, calls=weight.calls - old.calls, total_ms=weight.total_ms - old.total_ms)
        for text, weight in read().items()
        for old in [before.get(text, Weight(text, 0, 0.0))]
        if weight.calls > old.calls
    ]


def write_weights(path: Path, weights: Sequence[Weight]) -> None:
    """Write a CSV file with a line for each class, longest time first."""
    total_ms = sum(weight.total_ms for weight in weights)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["calls", "total_ms", "share", "statement"])
        for weight in sorted(weights, key=lambda weight: -weight.total_ms):
            share = weight.total_ms / total_ms if total_ms else 0.0
            row = [weight.calls, f"{weight.total_ms:.3f}", f"{share:.4f}", weight.text]
            writer.writerow(row)
