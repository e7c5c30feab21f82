"""Runs ordered for a report: panels (an engine, or an engine at one memory limit …) with arms.

An *arm* is one value of the compared dimension: ``ssd-both`` beside ``pmem-both``.
Failed runs belong to an arm but never give it a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.errors import UsageError
from harness.reports.compare import Comparison, Group, compare, judged
from harness.reports.facts import DIMENSIONS, dimension, emulated_tiers, spec_facts
from harness.reports.values import Measured, Quantity, Summary, measured, natural, summarise
from harness.store import StoredRun
from harness.units import format_bytes

#: What a report compares, if it varies; engines stand in panels of their own.
_COMPARED_FIRST = ("placement", "host_mode", "memory_limit", "cache", "tuning", "threads")


@dataclass(frozen=True)
class Arm:
    """The runs of one panel with one value of the compared dimension."""

    name: str
    runs: tuple[StoredRun, ...]

    @cached_property
    def usable(self) -> tuple[StoredRun, ...]:
        """Those with a result: complete, or with an unknown check (marked)."""
        return tuple(run for run in self.runs if run.run["status"] != "failed")

    @cached_property
    def emulated(self) -> tuple[str, ...]:
        """``pmem by tmpfs``: the emulated tiers its numbers come from."""
        found = {f"{e['tier']} by {e['by']}" for run in self.runs for e in emulated_tiers(run.run)}
        return tuple(sorted(found))

    @property
    def unknown(self) -> bool:
        """Whether a run of it has answers that could not be checked."""
        return any(run.run["status"] == "unknown" for run in self.runs)

    @property
    def marked_name(self) -> str:
        """As every legend and header shows it."""
        return f"{self.name}{' (EMULATED)' if self.emulated else ''}{' †' if self.unknown else ''}"

    @cached_property
    def _measured(self) -> list[dict[Quantity, Measured]]:
        return [measured(run) for run in self.usable]

    def values(self, metric: str) -> dict[Quantity, list[float]]:
        """The repeats' values of every label set of a metric, in the metric's unit."""
        found: dict[Quantity, list[float]] = {}
        for one in self._measured:
            for quantity, value in one.items():
                if quantity.name == metric and value.value is not None:
                    found.setdefault(quantity, []).append(value.value)
        return found

    def summaries(self, metric: str) -> dict[Quantity, Summary]:
        """Median and range of every label set of a metric."""
        summaries = {q: summarise(values) for q, values in self.values(metric).items()}
        return {q: summary for q, summary in summaries.items() if summary}

    def kinds(self) -> dict[Quantity, Measured]:
        """Every quantity it has, with unit and direction."""
        return {quantity: one for run in self._measured for quantity, one in run.items()}


@dataclass(frozen=True)
class Panel:
    """One engine (and what else was held fixed) with its arms, the baseline first.

    ``groups``: the baseline against every other arm; ``refused``: why an arm was not
    compared, by its name.
    """

    context: Mapping[str, str]
    engine: str
    workload: str
    arms: tuple[Arm, ...]
    groups: tuple[Group, ...] = ()
    refused: Mapping[str, str] | None = None

    @property
    def title(self) -> str:
        """``postgres 18.4``, and what else tells it from the other panels."""
        return ", ".join([self.engine, *(f"{k} {v}" for k, v in self.context.items())])

    @property
    def engine_name(self) -> str:
        """The engine without its version, as specs name it."""
        return str(self.arms[0].runs[0].run["spec"]["engine"])

    @property
    def runs(self) -> list[StoredRun]:
        """All of its runs, failed ones included."""
        return [run for arm in self.arms for run in arm.runs]


def compared_dimension(runs: Sequence[StoredRun]) -> str:
    """The first of placement, host mode, memory limit … that varies; placement if none does."""
    known = [spec_facts(run) for run in runs]
    for name in _COMPARED_FIRST:
        if len({one.get(DIMENSIONS[name].fact, "") for one in known}) > 1:
            return name
    return "placement"


def panels(
    runs: Sequence[StoredRun], over: str, baseline: str | None, force: bool = False
) -> list[Panel]:
    """The runs in panels with every comparison judged in one family per metric.

    UsageError where ``baseline`` names no arm. ``force`` as in ``compare``.
    """
    names = _arm_order(runs, over)
    if baseline is not None and baseline not in names:
        raise UsageError(f"baseline {baseline!r}", f"there is {', '.join(names)}", "name one")
    if baseline is not None:
        names = [baseline, *(name for name in names if name != baseline)]
    made = [_panel(context, found, over, names) for context, found in _by_context(runs, over)]
    compared = [_comparisons(panel, over, force) for panel in made]
    flat = [(index, c) for index, (found, _) in enumerate(compared) for c in found]
    verdicts = judged([comparison for _, comparison in flat])
    done = []
    for index, panel in enumerate(made):
        groups = tuple(
            group
            for (owner, _), verdict in zip(flat, verdicts, strict=True)
            if owner == index
            for group in verdict.groups
        )
        done.append(Panel(panel.context, panel.engine, panel.workload, panel.arms, groups,
                          compared[index][1]))  # fmt: skip
    return done


def _arm_order(runs: Sequence[StoredRun], over: str) -> list[str]:
    """Real tiers before emulated ones, block devices first, else in the order they ran."""
    fact = dimension(over).fact

    def rank(run: StoredRun) -> tuple[bool, bool, int]:
        kinds = {tier["kind"] for tier in run.manifest["tiers"]} if run.manifest else set()
        return bool(emulated_tiers(run.run)), kinds != {"block"}, run.run["started_unix_ns"]

    return list(dict.fromkeys(_arm_name(run, fact) for run in sorted(runs, key=rank)))


def _arm_name(run: StoredRun, fact: str) -> str:
    value = spec_facts(run).get(fact, "none")
    if fact == "memory_limit_bytes":
        return "no limit" if value == "null" else format_bytes(int(value))
    return value


def _by_context(
    runs: Sequence[StoredRun], over: str
) -> list[tuple[dict[str, str], list[StoredRun]]]:
    """Runs by everything but the compared dimension, with what tells each set from the others."""
    dim = dimension(over)
    contexts: dict[tuple[tuple[str, str], ...], list[StoredRun]] = {}
    for run in runs:
        known = spec_facts(run)
        key = tuple(sorted((f, v) for f, v in known.items() if not dim.covers(f, v, v)))
        contexts.setdefault(key, []).append(run)
    order = list(dict.fromkeys(run.run["spec"]["engine"] for run in runs))
    keys = sorted(contexts, key=lambda key: natural(str(key)))
    keys.sort(key=lambda key: order.index(dict(key)["engine"]))
    return [(_distinct(dict(key), [dict(k) for k in keys]), contexts[key]) for key in keys]


def _distinct(own: Mapping[str, str], all_of_them: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The facts in which the panels of one engine differ from one another."""
    peers = [one for one in all_of_them if one["engine"] == own["engine"]]
    return {f: v for f, v in own.items() if any(peer.get(f) != v for peer in peers)}


def _panel(
    context: Mapping[str, str], runs: Sequence[StoredRun], over: str, names: Sequence[str]
) -> Panel:
    fact = dimension(over).fact
    arms = [Arm(name, tuple(r for r in runs if _arm_name(r, fact) == name)) for name in names]
    first = next((run for run in runs if run.manifest), runs[0])
    engine = str(first.run["spec"]["engine"])
    if first.manifest:
        engine += f" {first.manifest['engine']['version']}"
    return Panel(
        context, engine, str(first.run["spec"]["workload"]), tuple(a for a in arms if a.runs)
    )


def _comparisons(panel: Panel, over: str, force: bool) -> tuple[list[Comparison], dict[str, str]]:
    found: list[Comparison] = []
    refused: dict[str, str] = {}
    for arm in panel.arms[1:]:
        try:
            found.append(compare(panel.arms[0].runs, arm.runs, [over], force))
        except UsageError as error:
            refused[arm.name] = f"{error.asked}: {error.found}"
    return found, refused
