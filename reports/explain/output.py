"""Explanations as JSON, and as sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.sequences import grouped
from harness.store.documents import as_json, attributes
from harness.units import counted
from reports.answers import PlacedComparison, answer_blocks
from reports.explain.ceilings import Ceiling, Ceilings
from reports.explain.comparisons import ExplainedComparison
from reports.explain.correlation import LEAST_ROWS, CheckedPrediction, Correlation, correlation
from reports.explain.devices import BASELINE_SUITE
from reports.explain.prediction import NotPredicted, Predicted
from reports.formatting import (
    NOTHING,
    gain_text,
    interval_text,
    number_mark,
    p_text,
    percent,
    quantity_text,
    share_text,
    significant,
    times_at_most,
)
from reports.sections import Block, Drawing, Lines, Paragraph, Span, Table, Text, note
from reports.statistics import Missing, Value

_COLUMNS = ("engine", "workload", "where", "a", "b", "moved", "ceiling", "above_ceiling")
_MEASURED = ("models", "modelled", "modelled_residual", "measured", "residual", "rests_on")


@dataclass(frozen=True)
class Fit:
    """Fit of predicted speed-ups, by the tiers' baselines and by runs on models.

    ``engine``, ``workload``: of which comparisons; empty of all.
    """

    engine: str
    workload: str
    correlation: Correlation
    modelled_correlation: Correlation

    @classmethod
    def of(cls, rows: Sequence[ExplainedComparison], engine: str = "", workload: str = "") -> Fit:
        """Return that of these comparisons; those without a prediction do not count."""
        checked = [prediction for row in rows for prediction in row.checked]
        by_laws, by_models = (
            correlation([prediction for prediction in checked if prediction.modelled == modelled])
            for modelled in (False, True)
        )
        return cls(engine, workload, by_laws, by_models)


@dataclass(frozen=True)
class ExplainedView:
    """Comparisons of placements, with what explains them."""

    rows: tuple[ExplainedComparison, ...]

    @cached_property
    def whole(self) -> Fit:
        """Return the fit over all comparisons."""
        return Fit.of(self.rows)

    @cached_property
    def parts(self) -> tuple[Fit, ...]:
        """By engine and workload."""
        of_each = grouped(((row.engine, row.workload), row) for row in self.rows)
        return tuple(Fit.of(rows, *names) for names, rows in of_each.items())

    @property
    def checked(self) -> list[CheckedPrediction]:
        """Return what was predicted and measured, the modelled predictions too."""
        return [prediction for row in self.rows for prediction in row.checked]

    @property
    def to_measure(self) -> str:
        """The command that measures the tiers that lack a baseline; empty without any."""
        missing = (row.predicted for row in self.rows if isinstance(row.predicted, NotPredicted))
        tiers = dict.fromkeys(text.partition(" by ") for why in missing for text in why.tiers)
        named = (f" --tier {name}" + f" --emulate {name}" * bool(by) for name, by, _ in tiers)
        return f"harness run micro --suite {BASELINE_SUITE}{''.join(named)}" if tiers else ""

    def picture(self, name: str) -> Drawing | None:
        """Draw what was predicted and measured; None where nothing was both."""
        from reports.charts.scatter import scatter  # and matplotlib, where it is needed

        emulated = dict.fromkeys(text for row in self.rows for text in row.emulated)
        return scatter(self.checked, name, tuple(emulated))


def to_json(view: ExplainedView) -> dict[str, Any]:
    """``{comparisons, correlation, modelled_correlation, by_engine_and_workload}``;
    docs/explain.md has the fields."""
    return {
        "comparisons": [
            attributes(row, *_COLUMNS)
            | {"predicted": _predicted_json(row.predicted)}
            | attributes(row, *_MEASURED)
            | {"mark": attributes(row.mark, "mechanism", "a", "b", "text") if row.mark else None}
            for row in view.rows
        ],
        **attributes(view.whole, "correlation", "modelled_correlation"),
        "by_engine_and_workload": as_json(view.parts),
    }


def _predicted_json(predicted: Predicted | NotPredicted) -> dict[str, Any]:
    value = {"value": None} if isinstance(predicted, NotPredicted) else {}
    document: dict[str, Any] = value | as_json(predicted)
    return document


def explain_page(
    view: ExplainedView, answers: Sequence[PlacedComparison], picture: Drawing | None = None
) -> Iterator[Block]:
    """Yield the blocks of ``harness explain``. ``answers``: the comparisons."""
    yield from answer_blocks(answers)
    yield from explained_blocks(view, picture)


def explained_blocks(view: ExplainedView, picture: Drawing | None = None) -> Iterator[Block]:
    """The comparisons, the picture of them, the command that measures missing baselines, and how
    well speed-ups were predicted."""
    columns = ("engine and workload", "compared", "ceiling", "predicted", "modelled", "measured")
    rows = [_explained_cells(row) for row in view.rows]
    yield Table("Device and engine", (*columns, "residual"), rows)
    yield note(
        "Ceiling: by the waits on the baseline arm. Predicted: from its runs and the tiers' "
        "microbenchmarks. Modelled: by runs on models of the devices. Residual: measured over "
        "predicted, less one."
    )
    if picture:
        yield picture
    if view.to_measure:
        yield Paragraph("The baselines that are missing, this command measures:")
        yield Lines("commands", [view.to_measure])
    yield from _fit_blocks(view)


def _fit_blocks(view: ExplainedView) -> Iterator[Block]:
    """Show how well speed-ups were predicted, for all and by engine and workload."""
    methods: Sequence[tuple[str, Callable[[Fit], Correlation]]] = (
        ("baselines", lambda fit: fit.correlation),
        ("models", lambda fit: fit.modelled_correlation),
    )
    fits = [view.whole, *(view.parts if len(view.parts) > 1 else ())]
    rows = [
        [by, f"{fit.engine} {fit.workload}".strip() or "all", *_errors(of(fit))]
        for by, of in methods
        for fit in fits
        if of(fit).rows
    ]
    if not rows:
        return
    yield Table("Errors of predicted speed-ups", ("by", "of", "rows", "median", "largest"), rows)
    for by, of in methods:
        if (whole := of(view.whole)).rows:
            rows_text = counted(whole.rows, "row")
            yield Paragraph(f"Predicted by {by}, {rows_text}: {_correlation_text(whole)}.")


def _errors(fit: Correlation) -> list[str]:
    errors = (fit.median_error, fit.largest_error)
    return [str(fit.rows), *(percent(error) if error is not None else NOTHING for error in errors)]


def _correlation_text(fit: Correlation) -> str:
    if fit.rho is None or fit.p is None or fit.slope is None or fit.r2 is None:
        return f"no correlation of fewer than {LEAST_ROWS} rows, or of equal values"
    interval = f"[{fit.rho_low:.2f}, {fit.rho_high:.2f}]"
    return (
        f"Spearman's ρ {fit.rho:.2f} {interval}, p {p_text(fit.p)}; of the logarithms, slope "
        f"through the origin {fit.slope:.2f}, R² {fit.r2:.2f}"
    )


def _explained_cells(row: ExplainedComparison) -> list[str]:
    ceiling = _cell(row.ceiling)
    if isinstance(row.ceiling, Value):
        above = "more than the device's latency differs, or one of the two is wrong"
        ceiling = f"at most {times_at_most(row.ceiling.value)}"
        ceiling += f"; measured above it: {above}" if row.above_ceiling else ""
    modelled = _cell(row.modelled)
    modelled += f" {number_mark(row.models)}" if row.models else ""
    residual = NOTHING if row.residual is None else f"{100 * row.residual:+.0f} %"
    residual += f"; {row.mark.text}" if row.mark else ""
    compared = f"{row.b} against {row.a}"
    predicted = _predicted_cell(row.predicted)
    return [row.where, compared, ceiling, predicted, modelled, _cell(row.measured), residual]


_WHY_MISSING: Mapping[str, str] = {
    "no waits": "no waits or I/O trace",
    "no ceiling": "none",
    "memory moved": "memory is no device of files",
    "no part moved": "no part is on another tier",
    "no modelled runs": "no runs on its model",
    "modelled": "the device is not here",
}
_WHY_NOT_PREDICTED: Mapping[str, str] = {
    "no-part-moved": "no part is on another tier",
    "memory-without-counter": "no counter of stalls at memory",
    "memory-not-placed": "memory has no tier on one side",
    "memory-and-files": "memory moved, and files too",
    "memory-shares-unknown": "the policy leaves the nodes' shares open",
    "memory-traffic-without-counter": "memory traffic was not counted",
    "delays-planted": "delays were planted",
    "modelled": "the device is not here",
    "rate-set": "a rate was set",
    "no-trace": "no I/O trace",
    "part-not-traced": "the I/O trace saw too little of a moved part",
    "no-processor-time": "processor time was not counted",
    "page-cache-unknown": "the page cache would serve reads",
    "no-baseline": "no baseline of ",
}


def _cell(value: Value | Missing) -> str:
    if isinstance(value, Missing):
        return _WHY_MISSING.get(value.code, value.code)
    interval = interval_text(value)
    return f"{significant(value.value)}×" + (f" {interval}" if interval != NOTHING else "")


def _predicted_cell(predicted: Predicted | NotPredicted) -> str:
    if isinstance(predicted, NotPredicted):
        why = _WHY_NOT_PREDICTED.get(predicted.why, predicted.why.replace("-", " "))
        return why + ", ".join(predicted.tiers)
    return _cell(predicted.speed_up)


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


def ceiling_text(ceilings: Ceilings) -> Text:
    """Say in one sentence what devices of zero latency would gain at most."""
    bounded = [ceiling for ceiling in ceilings.total if ceiling.gain is not None]
    if not bounded:
        return f"none: {_why(ceilings, ceilings.total[0] if ceilings.total else None)}"
    first, *others = bounded
    unbounded = "".join(
        f"no ceiling for a {_DEVICES[ceiling.devices]} ({_why(ceilings, ceiling)}); "
        for ceiling in ceilings.total
        if ceiling.gain is None and ceiling.devices != "all"
    )
    queries = ceilings.noun == "query"
    more = ""
    if first.more_ns > 0.01 * first.latency_ns:
        mostly = f", mostly {_HIDES[first.mostly]}" if first.mostly else ""
        more = f" ({quantity_text(first.more_ns, 'ns')} more may be due to it{mostly})"
    return (
        f"{unbounded}a {_DEVICES[first.devices]} of zero latency would gain ",
        Span(f"at most {_gain(first)}"),
        f"{' in the sum of the query times' if queries else ''}: {_WHO[ceilings.noun]} "
        f"{share_text(first.direct_ns, first.latency_ns, 'ns')} for "
        f"{'their' if queries else 'its'} {_WAITS[first.devices]}{more}",
        *(
            f"; a {_DEVICES[ceiling.devices]} at most {_gain(ceiling)}"
            for ceiling in others
            if ceiling.devices != "all"
        ),
    )


def _gain(ceiling: Ceiling) -> str:
    return gain_text(ceiling.gain) if ceiling.gain else NOTHING


def _why(ceilings: Ceilings, ceiling: Ceiling | None) -> str:
    """Why nothing bounds a gain."""
    reasons = []
    if ceilings.rate:
        setter = "a rate was set" if ceilings.rate == "option" else "users think"
        reasons.append(f"{setter}: its latency is queueing, too")
    elif ceiling is None:
        reasons.append("no operation was observed")
    elif ceiling.why:
        hidden = ceiling.mostly and ceiling.hidden[ceiling.mostly] > ceiling.direct_ns
        mostly = f", mostly {_HIDES[ceiling.mostly]}" if hidden else ""
        reasons.append(f"{_NOT_BOUNDED[ceiling.why]}{ceiling.part}{mostly}")
    if ceiling and ceiling.unbounded:
        reasons.append(f"{ceiling.unbounded} of {len(ceilings.by_query)} queries have no ceiling")
    return "; ".join(reasons)


def ceiling_table(arms: Iterable[tuple[str, str, Ceilings]]) -> Iterator[Block]:
    """The ceilings of each engine and workload on each arm."""
    rows = []
    for where, arm, ceilings in arms:
        if not ceilings.total:
            rows.append([where, arm, *[NOTHING] * 4, _why(ceilings, None)])
        for place, ceiling in enumerate(ceilings.total):
            hides = [
                f"{_HIDES[name]} {quantity_text(ns, 'ns')}"
                for name, ns in ceiling.hidden.items()
                if ns > 0.001 * ceiling.latency_ns
            ]
            rows.append(
                [
                    *(("", "") if place else (where, arm)),
                    _DEVICES[ceiling.devices],
                    _gain(ceiling),
                    share_text(ceiling.direct_ns, ceiling.latency_ns, "ns"),
                    ", ".join(hides) or NOTHING,
                    _why(ceilings, ceiling) or NOTHING,
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
            "rechecked",
        ),
        rows,
    )
    yield note(
        "Times are of the mean transaction or operation, or of all queries together. The bound "
        "includes what may hide more, and the sampling error of the waits."
    )
