"""Explanations as JSON, and as sections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import correlation, median
from typing import Any, Literal

from harness.models.make import SUITE
from harness.store.documents import as_json, attributes
from harness.units import counted
from reports.answers import PlacedComparison, answer_blocks
from reports.explain.ceilings import Ceiling, Ceilings
from reports.explain.comparisons import Explained
from reports.formatting import (
    NOTHING,
    gain_text,
    interval_text,
    number_mark,
    percent,
    quantity_text,
    share_text,
    significant,
    times_at_most,
)
from reports.sections import Block, Lines, Paragraph, Span, Table, Text, note
from reports.statistics import Missing, Value

#: With fewer rows, ranks say nothing.
_LEAST_ROWS = 3
_COLUMNS = ("where", "a", "b", "moved", "ceiling", "above_ceiling", "call", "device", "models")


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's coefficient of a column with the measured speed-ups.

    ``rows``: that have both; ``rho``: None of too few, or where a column has one value.
    """

    of: Literal["device", "modelled"]
    rows: int
    rho: float | None


@dataclass(frozen=True)
class ExplainedView:
    """Every comparison of placements, with what explains it."""

    rows: tuple[Explained, ...]

    @property
    def errors(self) -> list[float]:
        """The sizes of the errors of modelled speed-ups, ascending."""
        return sorted(abs(row.error.value) for row in self.rows if isinstance(row.error, Value))

    @property
    def median_error(self) -> float | None:
        """Of their sizes; None without any."""
        return median(self.errors) if self.errors else None

    @property
    def correlations(self) -> tuple[RankCorrelation, ...]:
        """Of the devices' figures, and of the modelled speed-ups, with the measured ones."""
        return (
            _correlated("device", [(row.device, row.measured) for row in self.rows]),
            _correlated("modelled", [(row.modelled, row.measured) for row in self.rows]),
        )

    @property
    def to_measure(self) -> str:
        """The command that measures the tiers that lack figures; empty without any."""
        missing = (row.device for row in self.rows if isinstance(row.device, Missing))
        tiers = dict.fromkeys(text.partition(" by ") for one in missing for text in one.tiers)
        named = (f" --tier {name}" + f" --emulate {name}" * bool(by) for name, by, _ in tiers)
        return f"harness run micro --suite {SUITE}{''.join(named)}" if tiers else ""


def _correlated(
    of: Literal["device", "modelled"], cells: Sequence[tuple[Value | Missing, Value | Missing]]
) -> RankCorrelation:
    pairs = [
        (one.value, other.value)
        for one, other in cells
        if isinstance(one, Value) and isinstance(other, Value)
    ]
    if len(pairs) < _LEAST_ROWS or any(len(set(side)) == 1 for side in zip(*pairs, strict=True)):
        return RankCorrelation(of, len(pairs), None)
    x, y = (list(_ranks(side)) for side in zip(*pairs, strict=True))
    return RankCorrelation(of, len(pairs), correlation(x, y))


def _ranks(values: Sequence[float]) -> Iterator[float]:
    """The rank of each; of equal ones the mean."""
    ordered = sorted(values)
    return (ordered.index(one) + (ordered.count(one) - 1) / 2 for one in values)


def to_json(view: ExplainedView) -> dict[str, Any]:
    """``{comparisons, errors, correlations}``; docs/explain.md has the fields."""
    errors = view.errors
    return {
        "comparisons": [
            attributes(row, *_COLUMNS, "modelled", "measured", "error", "rests_on")
            for row in view.rows
        ],
        "errors": {
            "rows": len(errors),
            "median": view.median_error,
            "largest": max(errors, default=None),
        },
        "correlations": as_json(view.correlations),
    }


def explain_page(view: ExplainedView, answers: Sequence[PlacedComparison]) -> Iterator[Block]:
    """Yield the blocks that ``harness explain`` prints. ``answers``: the comparisons."""
    yield from answer_blocks(answers)
    yield from explained_blocks(view)


def explained_blocks(view: ExplainedView) -> Iterator[Block]:
    """The comparisons, with the command that measures missing figures and how good models were."""
    head = ("engine and workload", "compared", "ceiling", "device", "modelled", "measured", "error")
    rows = [_explained_cells(row) for row in view.rows]
    yield Table("Device and engine", head, rows)
    yield note(
        "Ceiling: by the waits on the baseline. Device: how much faster it serves, alone, the "
        "operation that takes most of the sessions' time. Modelled: by runs on models of the "
        "devices. Error: of the modelled speed-up."
    )
    if view.to_measure:
        yield Paragraph("The figures that are missing, this command measures:")
        yield Lines("commands", [view.to_measure])
    if view.median_error is not None:
        median, largest = percent(view.median_error), percent(view.errors[-1])
        rows_text = counted(len(view.errors), "row")
        yield Paragraph(
            f"Errors of modelled speed-ups: median {median}, largest {largest}, of {rows_text}."
        )
    for one in view.correlations:
        if one.rho is not None:
            of = "the devices' figures" if one.of == "device" else "modelled speed-ups"
            yield Paragraph(
                f"Rank correlation of {of} with the measured speed-ups: {one.rho:.2f}, "
                f"of {counted(one.rows, 'row')}."
            )


def _explained_cells(row: Explained) -> list[str]:
    ceiling = _known(row.ceiling)
    if isinstance(row.ceiling, Value):
        above = "more than the device's latency differs, or one of the two is wrong"
        ceiling = f"at most {times_at_most(row.ceiling.value)}"
        ceiling += f"; measured above it: {above}" if row.above_ceiling else ""
    device = _known(row.device, "×")
    if row.call and isinstance(row.device, Value):
        size = quantity_text(row.call.size_bytes, "B")
        device += f", {row.call.part} {row.call.operation} of {size}"
    modelled = _known(row.modelled, "×")
    modelled += f" {number_mark(row.models)}" if row.models else ""
    error = f"{100 * row.error.value:+.0f} %" if isinstance(row.error, Value) else NOTHING
    compared = f"{row.b} against {row.a}"
    measured = _known(row.measured, "×")
    return [row.where, compared, ceiling, device, modelled, measured, error]


_WHY_MISSING: Mapping[str, str] = {
    "no waits": "no waits or I/O trace",
    "no ceiling": "none",
    "memory moved": "memory is no device of files",
    "no part moved": "no part is on another tier",
    "no trace": "no I/O trace",
    "no figures": "no figures of ",
    "no modelled runs": "no runs on its model",
    "modelled": "the device is not here",
}


def _known(one: Value | Missing, unit: str = "") -> str:
    if isinstance(one, Missing):
        return _WHY_MISSING.get(one.code, one.code) + ", ".join(one.tiers)
    interval = interval_text(one)
    return f"{significant(one.value)}{unit}" + (f" {interval}" if interval != NOTHING else "")


# Ceilings ---------------------------------------------------------------------------

_DEVICES = {"log": "log device", "data": "data device", "all": "device for all files"}
_WAITS = {"log": "log", "data": "data", "all": "files"}
_WHO = {
    "query": "they wait",
    "operation": "an operation waits",
    "transaction": "a transaction waits",
}
_HIDES = {
    "lock": "waits for locks",
    "buffer": "waits for the buffer cache",
    "other": "not accounted for",
    "processors": "waits for busy processors",
}
_NOT_BOUNDED = {
    "part not traced": "the I/O trace saw too little of ",
    "too few observations": "too few observations of sessions",
    "nearly all of the time": "nearly all of the time may be due to it",
}


def ceiling_text(found: Ceilings) -> Text:
    """What devices of zero latency would gain at most, in one sentence."""
    bounded = [one for one in found.total if one.gain is not None]
    if not bounded:
        return f"none: {_why(found, found.total[0] if found.total else None)}"
    first, *others = bounded
    unbounded = "".join(
        f"no ceiling for a {_DEVICES[one.devices]} ({_why(found, one)}); "
        for one in found.total
        if one.gain is None and one.devices != "all"
    )
    queries = found.noun == "query"
    more = ""
    if first.more_ns > 0.01 * first.latency_ns:
        mostly = f", mostly {_HIDES[first.mostly]}" if first.mostly else ""
        more = f" ({quantity_text(first.more_ns, 'ns')} more may be due to it{mostly})"
    return (
        f"{unbounded}a {_DEVICES[first.devices]} of zero latency would gain ",
        Span(f"at most {_gain(first)}"),
        f"{' in the sum of the query times' if queries else ''}: {_WHO[found.noun]} "
        f"{share_text(first.direct_ns, first.latency_ns, 'ns')} for "
        f"{'their' if queries else 'its'} {_WAITS[first.devices]}{more}",
        *(
            f"; a {_DEVICES[one.devices]} at most {_gain(one)}"
            for one in others
            if one.devices != "all"
        ),
    )


def _gain(one: Ceiling) -> str:
    return gain_text(one.gain) if one.gain else NOTHING


def _why(found: Ceilings, one: Ceiling | None) -> str:
    """Why nothing bounds a gain."""
    reasons = []
    if found.rate:
        setter = "a rate was set" if found.rate == "option" else "users think"
        reasons.append(f"{setter}: its latency is queueing, too")
    elif one is None:
        reasons.append("no operation was observed")
    elif one.why:
        hidden = one.mostly and one.hidden[one.mostly] > one.direct_ns
        mostly = f", mostly {_HIDES[one.mostly]}" if hidden else ""
        reasons.append(f"{_NOT_BOUNDED[one.why]}{one.part}{mostly}")
    if one and one.unbounded:
        reasons.append(f"{one.unbounded} of {len(found.by_query)} queries have no ceiling")
    return "; ".join(reasons)


def ceiling_table(arms: Iterable[tuple[str, str, Ceilings]]) -> Iterator[Block]:
    """The ceilings of each engine and workload on each arm."""
    rows = []
    for where, arm, found in arms:
        if not found.total:
            rows.append([where, arm, *[NOTHING] * 4, _why(found, None)])
        for place, one in enumerate(found.total):
            hides = [
                f"{_HIDES[name]} {quantity_text(ns, 'ns')}"
                for name, ns in one.hidden.items()
                if ns > 0.001 * one.latency_ns
            ]
            rows.append(
                [
                    *(("", "") if place else (where, arm)),
                    _DEVICES[one.devices],
                    _gain(one),
                    share_text(one.direct_ns, one.latency_ns, "ns"),
                    ", ".join(hides) or NOTHING,
                    _why(found, one) or NOTHING,
                ]
            )
    yield Table(
        "What devices of zero latency could gain at most",
        (
            "engine and workload",
            "measured on",
            "device",
            "gain at most",
            "waits for it",
            "may hide more",
            "remarks",
        ),
        rows,
    )
    yield note(
        "Times are of the mean transaction or operation, or of all queries together. The bound "
        "includes what may hide more, and the sampling error of the waits."
    )
