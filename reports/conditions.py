"""Under which conditions the numbers hold: checks, warnings, memory, host, tiers, engines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from harness.store.runs import StoredRun
from harness.units import format_bytes
from harness.warnings import RunWarning
from reports.formatting import NOTHING, counted, percent, significant
from reports.labels import resumed
from reports.run_configuration import facts
from reports.sequences import first_of
from reports.series import Arm, Panel
from reports.values import Quantity, Summary, in_order

Row = tuple[str, ...]

# Checks -------------------------------------------------------------------------

#: How the detail of a check that stands for several answers begins.
_ANSWERS_TOGETHER = re.compile(r"(\d+) of \d+ answers ")


@dataclass(frozen=True)
class CheckCount:
    """How many checks of one name passed, failed, and could not be made."""

    name: str
    passed: int
    failed: int
    unknown: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.passed + self.failed + self.unknown


def checks(runs: Sequence[StoredRun]) -> list[CheckCount]:
    """Answers first, then the others by name."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        for check in run.run["checks"]:
            together = _ANSWERS_TOGETHER.match(check["detail"])
            streams = check["name"] == "stream-answers"
            name = "answer" if streams else check["name"]
            count = int(together[1]) if streams and together else 1
            counts.setdefault(name, Counter())[check["status"]] += count
    ordered = sorted(counts.items(), key=lambda item: (item[0] != "answer", item[0]))
    return [CheckCount(name, c["passed"], c["failed"], c["unknown"]) for name, c in ordered]


# Warnings -----------------------------------------------------------------------

#: A number that was measured: a decimal, a share, a size, thousands. Other whole numbers may be
#: names (node 0, CPU 3).
_MEASURED = re.compile(
    r"(?<![\w.,])(\d{1,3}(?:,\d{3})+|\d+\.\d+|\d+(?=\s?(?:%|[KMGT]iB\b)))(?![\w.]*\.\d)"
)


#: Texts of one warning that differ in more than numbers; of more, one stands for all.
_MOST_KINDS = 3


def uncontrolled(runs: Sequence[StoredRun]) -> list[RunWarning]:
    """The runs' warnings, each kind once, with ranges where runs differ in numbers.

    Of a warning of many kinds the one with the largest number, and how many there are.
    """
    found: dict[RunWarning, dict[str, list[str]]] = {}
    for run in runs:
        for one in map(RunWarning.from_json, run.run["uncontrolled"]):
            kinds = found.setdefault(replace(one, context=""), {})
            kinds.setdefault(_MEASURED.sub("#", one.context), []).append(one.context)
    return [
        replace(one, context=context)
        for one, kinds in found.items()
        for context in (
            map(_together, kinds.values()) if len(kinds) <= _MOST_KINDS else [_largest(kinds)]
        )
    ]


def names(warnings: Iterable[RunWarning]) -> list[str]:
    """The code of each, or its problem where it has none; each once."""
    return list(dict.fromkeys(one.code or one.problem for one in warnings))


def _largest(kinds: Mapping[str, Sequence[str]]) -> str:
    every = [context for same in kinds.values() for context in same]
    largest = max(every, key=lambda text: max(map(_number, _MEASURED.findall(text)), default=0.0))
    return f"{counted(len(every), 'warning')}, such as {largest}"


def _together(found: Sequence[str]) -> str:
    """The texts as one: ``load average 9.34 – 10.32 on 2 processors (5 runs)``."""
    if len(set(found)) == 1:
        return found[0]
    columns = zip(*(_MEASURED.findall(text) for text in found), strict=True)
    ranges = [_range(values) for values in columns]
    first = found[0]
    ends = [0, *(at for match in _MEASURED.finditer(first) for at in match.span()), len(first)]
    between = [first[a:b] for a, b in list(pairwise(ends))[::2]]
    text = "".join(f"{words}{one}" for words, one in zip(between, [*ranges, ""], strict=True))
    return f"{text} ({counted(len(found), 'run')})"


def _range(values: Sequence[str]) -> str:
    low, high = (end(values, key=_number) for end in (min, max))
    return low if _number(low) == _number(high) else f"{low} – {high}"


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def panel_warnings(panel: Panel) -> Iterator[RunWarning]:
    """What limits the comparisons of a panel."""
    where = panel.title_with_workload
    if panel.apart:
        context = f"{where}: {'; '.join(first_of(panel.apart, 12))}"
        yield RunWarning("runs-differ", "shown apart, never as repeats of one another", context)
    for name, why in (panel.refused or {}).items():
        context = f"{where}: {name}: {why}"
        yield RunWarning("not-compared", "not compared with the baseline", context, "--anyway")
    for group in panel.groups:
        sides = f"{where}: {group.b.name} and {group.a.name}"
        if group.pairing == "unpaired":
            yield RunWarning("unpaired", "compared without pairs", f"{sides}: {group.why_unpaired}")
        if group.left_out:
            context = f"{sides}: {', '.join(group.left_out)}"
            yield RunWarning("runs-without-a-pair", "left out of the comparison", context)
    yield from dict.fromkeys(one for group in panel.groups for one in group.warnings)
    for arm in panel.arms:
        if arm.unknown:
            yield RunWarning(
                "answers-unknown", "† wrong answers are possible", f"{where}: {arm.name}"
            )
        if arm.at_limit:
            yield RunWarning(
                "time-limit-reached",
                "a query that reached its time limit has no time, and its run no totals",
                f"{where}: {arm.name}: {_limited(arm)}",
            )
    if fitting := [_ratio(run.run) for run in panel.runs if _fits(run.run)]:
        yield RunWarning(
            "data-fit-in-memory",
            "repeated reads come from DRAM on every tier",
            f"{where}: {_either(fitting)} (data : memory)",
        )


def _limited(arm: Arm) -> str:
    return ", ".join(quantity.labels_text() for quantity in in_order(arm.at_limit))


def _fits(run: Mapping[str, Any]) -> bool:
    return bool(run["data_bytes"] and run["memory_bytes"]) and (
        run["data_bytes"] <= run["memory_bytes"]
    )


@dataclass(frozen=True)
class Trouble:
    """A failed or unknown run, with at most five reasons."""

    run_id: str
    status: str
    reason: str


def troubles(runs: Sequence[StoredRun]) -> Iterator[Trouble]:
    """Of every run that is not complete."""
    for run in runs:
        if run.run["status"] == "complete":
            continue
        reasons = [
            f"{check['name']} {', '.join(check['labels'].values())} {check['status']}: "
            f"{check['detail']}"
            for check in run.run["checks"]
            if check["status"] != "passed"
        ]
        if error := run.run["error"]:
            reasons.insert(0, f"{error['problem']}: {error['context']}. {error['hint']}".strip())
        yield Trouble(run.run_id, run.run["status"], "; ".join(first_of(reasons, 5)))


# Durability ---------------------------------------------------------------------


@dataclass(frozen=True)
class Durability:
    """Commits that an arm's server kept when it was killed under its clients.

    ``passed``: runs of ``checked`` in which every commit was there; ``committed``: how many
    were looked for, by what they are.
    """

    panel: str
    arm: str
    passed: int
    checked: int
    committed: Mapping[str, float]
    recovery: Summary | None
    killed_after: Summary | None


def durability(panels: Sequence[Panel]) -> list[Durability]:
    """Of every arm whose server was killed."""
    return [
        Durability(
            panel.title_with_workload,
            arm.marked_name,
            sum(set(states) == {"passed"} for states in checked),
            len(checked),
            {q.labels_text(): sum(v) for q, v in arm.values("journal_committed_count").items()},
            arm.summaries("recovery_duration_ns").get(Quantity("recovery_duration_ns")),
            arm.summaries("killed_after_ns").get(Quantity("killed_after_ns")),
        )
        for panel in panels
        for arm in panel.arms
        if (checked := [states for run in arm.runs if (states := _durability_checks(run))])
    ]


def _durability_checks(run: StoredRun) -> list[str]:
    return [check["status"] for check in run.run["checks"] if check["name"] == "durability"]


# Memory and caches --------------------------------------------------------------


def memory_row(panel: Panel, arm: Arm) -> Row:
    """How large an arm's data were against memory, and how cold the caches, over all its runs."""
    results = [run.run for run in arm.runs]
    return (
        panel.title,
        arm.marked_name,
        _either(_size(run["data_bytes"]) for run in results),
        _either(_memory(run) for run in arm.runs),
        _either(_ratio(run) for run in results),
        _either(str(run["spec"]["params"].get("cache", "not stated")) for run in results),
        _residency([entry for run in results for entry in run["residency"]]),
        _either(run.manifest["restore_method"] for run in arm.runs if run.manifest),
        _either(", ".join(resumed(run)) or NOTHING for run in arm.runs),
    )


def _either(found: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(found)) or "unknown"


def _size(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else format_bytes(size_bytes)


def _memory(run: StoredRun) -> str:
    method = run.manifest["memory_cap"]["method"] if run.manifest else "none"
    how = "whole host" if method == "none" else f"capped by {method}"
    return f"{_size(run.run['memory_bytes'])} ({how})"


def _ratio(run: Mapping[str, Any]) -> str:
    data, memory = run["data_bytes"], run["memory_bytes"]
    return f"{significant(data / memory)} : 1" if data and memory else "unknown"


def _residency(measured: Sequence[Mapping[str, Any]]) -> str:
    """The worst cold start of all the runs, and how many there were."""
    shares = [
        entry["resident_bytes"] / entry["total_bytes"]
        for entry in measured
        if entry["resident_bytes"] is not None and entry["total_bytes"]
    ]
    notes = dict.fromkeys(entry["note"] for entry in measured if entry["note"])
    starts = counted(len(shares), "cold start")
    worst = [f"≤ {percent(max(shares))} resident, {starts}"] if shares else []
    return "; ".join([*worst, *notes]) or "not measured"


# Hosts and engines --------------------------------------------------------------


def manifests(runs: Sequence[StoredRun]) -> tuple[Mapping[str, Any], ...]:
    """Of the runs that have one: their hosts and tiers."""
    return tuple(run.manifest for run in runs if run.manifest)


@dataclass(frozen=True)
class Settings:
    """An engine's build; name, given and effective value of settings.

    Of those given to it, and of those that decide whether a commit survives a crash.
    """

    title: str
    build: str
    source: str
    given: tuple[Row, ...]


def engine_settings(panel: Panel) -> list[Settings]:
    """Of a panel's arms, each set of settings once."""
    found: dict[Row, list[tuple[str, StoredRun]]] = {}
    for arm in panel.arms:
        run = next((run for run in arm.runs if run.manifest), None)
        if run is not None:
            # Ports and paths differ run by run; facts leave them out.
            parts = ("engine.version", "engine.build", "engine.source", "engine.settings.")
            key = sorted(f"{f} {v}" for f, v in facts(run).items() if f.startswith(parts))
            found.setdefault(tuple(key), []).append((arm.marked_name, run))
    return [
        _settings(
            ", ".join([panel.title, *(name for name, _ in same if len(found) > 1)]),
            same[0][1].manifest["engine"],
        )
        for same in found.values()
    ]


def _settings(title: str, engine: Mapping[str, Any]) -> Settings:
    given, effective = engine["settings"], engine["effective_config"]
    deciding = (name for name in engine.get("durability_settings", ()) if name in effective)
    names = sorted({*given, *deciding})
    rows = ((name, given.get(name, NOTHING), effective.get(name, NOTHING)) for name in names)
    return Settings(title, engine["build"], engine["source"], tuple(rows))
