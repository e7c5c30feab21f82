"""The words of a card's rows: what reports/micro/findings.py and practices.py found."""

from __future__ import annotations

from collections.abc import Mapping

from harness.units import counted, format_bytes, format_ns
from reports.formatting import NOTHING, interval_text, p_text, percent, quantity_text, times
from reports.micro.findings import TAIL, Finding, Spread
from reports.micro.points import Point
from reports.micro.practices import Practice
from reports.micro.saturation import Knee, LoadedKnee
from reports.sections import Span, Text
from reports.statistics import Ratio
from reports.trials import Trial

_LINE = ";\n"
_PRACTICES: Mapping[int, str] = {
    1: "Avoid random accesses smaller than 256 B",
    2: "Use non-temporal stores for large transfers, and control cache evictions",
    3: "Limit the number of concurrent threads accessing a DIMM",
    4: "Avoid NUMA accesses, especially read-modify-write sequences",
}


def answer(found: Finding) -> str:
    """What is best, in a few words."""
    rows, first = found.rows, found.rows[0]
    match found.kind:
        case "knee":
            text = _LINE.join(map(_knee_answer, rows))
        case "loaded":
            curve = first.curve
            upto = f"up to {_rate(curve.knee.rate)}" if curve.knee else "at no load of those tried"
            most = curve.knee is curve.points[-1]
            doubt = f", the most there was{_doubt(first, '')}" if most else _doubt(first, "knee ")
            text = f"at most twice the idle one {upto}{doubt}"
        case "persist":
            text = _LINE.join(f"{row.name}: {' or '.join(row.alike)}" for row in rows)
        case "kept":
            text = str(first.outcome)
        case "times":
            middles = ((one.name, one.histogram.percentile(50)) for one in rows)
            text = ", ".join(f"{name} {format_ns(middle)}" for name, middle in middles)
        case "chase":
            text = f"{format_ns(rows[-1].median)} in {_range(rows[-1])}"
        case "tail":
            text = _worst_tail(found)
        case "call":
            text = format_ns(first.median)
        case "cached":
            text = f"ranges below {format_bytes(first[0] * first[1])}"
    return text


def figures(found: Finding) -> str:
    """The numbers that the answer is read from."""
    rows, first = found.rows, found.rows[0]
    match found.kind:
        case "knee":
            text = _LINE.join(map(_knee_figures, rows))
        case "loaded":
            curve = first.curve
            last = curve.points[-1]
            noun = "" if curve.knee is last else "knee "
            text = (
                f"idle {format_ns(curve.idle.median)}; during the most load, {_rate(last.rate)}, "
                f"{format_ns(last.latency)}{_said(first, noun)}"
            )
        case "persist":
            texts = []
            for row in rows:
                safe = [f"{title} {quantity_text(each, row.unit)}" for title, each in row.safe]
                unsafe = [
                    f", no flush {quantity_text(each, row.unit)} (durable with eADR only)"
                    for each in row.unsafe
                ]
                texts.append(f"{row.name}: {', '.join(safe)}{''.join(unsafe)}")
            text = _LINE.join(texts)
        case "kept":
            gains = {
                "kept": "; indexes that use a line again after its flush gain by clwb over clflush "
                "(BENTŌ)",
                "evicted": "; the gain of indexes by clwb over clflush (BENTŌ) is absent here",
            }
            text = (
                f"a load after store+clwb+sfence {format_ns(first.clwb)}, after store+sfence "
                f"{format_ns(first.cached)}, after store+clflush+sfence {format_ns(first.evicted)}"
                f"{gains.get(first.outcome, '')}"
            )
        case "times":
            each = _LINE.join(f"{row.name} {_spread(row, 99.0, TAIL)}" for row in rows)
            empty = ""
            if found.empty:
                ends = " to ".join(format_ns(end) for end in dict.fromkeys(found.empty))
                empty = f"; the empty measurement, {ends}, is in all"
            text = each + _too_few(found, 99.0, TAIL) + empty
        case "chase":
            steps = [f"{_range(step)}: {format_ns(step.median)}" for step in rows[1:-1]]
            text = (
                f"{_range(first)}: {format_ns(first.median)}; steps at "
                f"{', '.join(steps) or 'no size'}; {rows[-1]['pages'] or 'unknown'} pages"
            )
        case "tail":
            each = _LINE.join(f"{row.name}: {_spread(row, 99.9, TAIL)}" for row in rows)
            text = each + _too_few(found, 99.9, TAIL)
        case "call":
            low, high = format_ns(first.summary.low), format_ns(first.summary.high)
            text = (
                f"mean of a call, {low} to {high} in {first.summary.n} repeats; "
                f"{first['filesystem']}, DAX {first['dax'] or 'unknown'}"
            )
        case "cached":
            caches, llc_bytes, names = first
            text = (
                f"{caches} × the last-level cache of {format_bytes(llc_bytes)}, which holds a good "
                f"part of them: {', '.join(names)}"
            )
    return text


def practice_title(number: int) -> str:
    """``1. Avoid random accesses …``."""
    return f"{number}. {_PRACTICES[number]}"


def trials(practice: Practice) -> Text:
    """The ratios that it was tried by, or why there are none."""
    if practice.trials:
        return _LINE.join(map(_trial, practice.trials))
    if practice.missing == "no-far-processors":
        return "no processors of another NUMA node: everything is near here"
    where = " in one experiment beyond the caches" if practice.missing == "no-experiment" else ""
    command = Span("harness run micro --suite device-card --tier …", "code")
    measurements = ", ".join(practice.measurements)
    return (f"not measured{where}: {measurements} of the suite device-card (", command, ")")


def _trial(trial: Trial) -> str:
    points, ratio, why = trial.points, trial.known, trial.why
    measured = ""
    if ratio:
        shown = f", p {_p(ratio)}" if ratio.shown else ""
        measured = f"{times(ratio.value)} {interval_text(ratio)}{shown}; "
    rates = [_rate(point.median) for point in points]
    compared = f"{rates[0]} against {rates[1]}"
    if len(points) == 4:
        compared = f"random {rates[0]} and {rates[1]}, sequential {rates[2]} and {rates[3]}"
    elif why == "few-threads":
        compared = f"best with {_threads(points[0])}, {rates[0]}"
    reasons = {
        "few-threads": f"only {_threads(points[1])} here; the paper's DIMMs slow down with 4 to 12",
        "different-runs": "measured in different runs",
        "nothing-done": "in one of the repeats nothing was done",
    }
    reason = reasons.get(why) or (_why_not(ratio) if ratio and why else "")
    return f"{trial.what}: {measured}{compared}" + (f" ({reason})" if reason else "")


def _p(ratio: Ratio) -> str:
    return p_text(ratio.decision.adjusted_p) if ratio.decision else NOTHING


def _why_not(ratio: Ratio) -> str:
    reasons = {
        "bound-in-interval": f"the interval holds {ratio.bound:g}",
        "not-shown": f"not shown among the card's other verdicts, p {_p(ratio)}",
    }
    if ratio.reason != "too-few-repeats" or ratio.decision is None:
        return reasons.get(ratio.reason, "")
    others = ratio.decision.family - 1
    among = f" with the card's {counted(others, 'other verdict')}" if others else ""
    repeats, needed = counted(ratio.repeats, "repeat"), ratio.decision.repeats_needed
    return f"cannot be shown with {repeats}, {needed} are needed{among}"


def _said(knee: Knee | LoadedKnee, noun: str) -> str:
    if knee.known is None:
        return ""
    if knee.shown:
        return f", {noun}shown (p {_p(knee.known)})"
    return f", {noun}not shown ({_why_not(knee.known) or 'its repeats say otherwise'})"


def _doubt(knee: Knee | LoadedKnee, noun: str) -> str:
    return f" ({noun}not shown)" if knee.shown is False else ""


def _knee_answer(knee: Knee) -> str:
    near = ""
    if knee.near is not knee.top:
        share = percent(round(knee.near.median / knee.top.median, 2))
        near = f"; {_place(knee.axis, knee.near)} already {share} of it"
    name = f"{knee.name}: " if knee.name else ""
    return f"{name}{_place(knee.axis, knee.top)}{near}{_doubt(knee, 'knee ')}"


def _knee_figures(knee: Knee) -> str:
    ends = [f"{_place(knee.axis, point)}: {_rate(point.median)}" for point in knee.ends]
    one_count = knee.axis != "threads" and int(knee.top.number("threads"))
    threads = f" ({_threads(knee.top)})" if one_count else ""
    name = f"{knee.name} " if knee.name else ""
    return f"{name}{', '.join(ends)}{threads}{_said(knee, 'knee ')}"


def _worst_tail(found: Finding) -> str:
    worst = found.worst
    tail = None if worst is None else worst.at(TAIL)
    if worst is None or tail is None:
        return f"{NOTHING} (too few operations for p99.99)"
    others = counted(found.too_few, "other size")
    few = f" (too few operations at {others})" if found.too_few else ""
    return f"p99.99 {format_ns(tail)} at {worst.name}{few}"


def _spread(row: Spread, *percents: float) -> str:
    values = [(one, row.at(one)) for one in percents]
    texts = [f"p{one:g} {NOTHING if v is None else format_ns(v)}" for one, v in values]
    return ", ".join([*texts, f"most {format_ns(row.histogram.max)}"])


def _too_few(found: Finding, *percents: float) -> str:
    texts = [f"p{one:g} takes {fewest:,}" for one, fewest in found.missing(*percents)]
    return f"{_LINE}{NOTHING}: too few operations, {', '.join(texts)}" if texts else ""


def _place(axis: str, point: Point) -> str:
    if axis == "threads":
        return _threads(point)
    number = point.number(axis)
    return format_bytes(number) if axis.endswith("_bytes") else f"depth {number:g}"


def _threads(point: Point) -> str:
    return counted(int(point.number("threads")), "thread")


def _range(point: Point) -> str:
    return format_bytes(point.number("range_bytes"))


def _rate(bytes_per_s: float) -> str:
    return quantity_text(bytes_per_s, "B/s")
