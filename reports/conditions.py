"""Under which conditions the numbers hold: checks, warnings, memory, host, tiers, engines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from harness.sequences import first_of
from harness.store.host import HostFacts
from harness.store.result import Cached, Program, RunResult
from harness.store.runs import StoredRun
from harness.tiers.linux.model import TierRecord
from harness.units import counted, format_bytes, format_ns
from harness.warnings import RunWarning
from reports.arm import Arm, unknown_checks
from reports.formatting import NOTHING, percent, significant
from reports.hosts import STATES, mitigations_text, state_text
from reports.labels import resumed
from reports.run_configuration import facts
from reports.sections import Block, Facts, Paragraph, Section, Table, note
from reports.series import Panel
from reports.values import Quantity, in_order

Row = tuple[str, ...]

# Checks -------------------------------------------------------------------------

#: How the detail of a check that stands for several answers begins.
_ANSWERS_TOGETHER = re.compile(r"(\d+) of \d+ answers ")


def checks(runs: Sequence[StoredRun]) -> dict[str, Counter[str]]:
    """Count the checks of each name by status; answers first, then by name."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        for check in run.result.checks:
            together = _ANSWERS_TOGETHER.match(check.detail)
            streams = check.name == "stream-answers"
            name = "answer" if streams else check.name
            count = int(together[1]) if streams and together else 1
            counts.setdefault(name, Counter())[check.status] += count
    return dict(sorted(counts.items(), key=lambda item: (item[0] != "answer", item[0])))


def checks_text(runs: Sequence[StoredRun]) -> str:
    """``Checks: answer 22 of 22 passed. ``"""
    texts = [
        f"{name} {counts['passed']} of {counts.total()} passed"
        + "".join(
            f", {counts[status]} {status}" for status in ("failed", "unknown") if counts[status]
        )
        for name, counts in checks(runs).items()
    ]
    return f"Checks: {'; '.join(texts)}. " if texts else "No check was made. "


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
    contexts: dict[RunWarning, dict[str, list[str]]] = {}
    for run in runs:
        for warning in run.result.uncontrolled:
            kinds = contexts.setdefault(replace(warning, context=""), {})
            kinds.setdefault(_MEASURED.sub("#", warning.context), []).append(warning.context)
    return [
        replace(warning, context=context)
        for warning, kinds in contexts.items()
        for context in (
            map(_together, kinds.values()) if len(kinds) <= _MOST_KINDS else [_largest(kinds)]
        )
    ]


def names(warnings: Iterable[RunWarning]) -> list[str]:
    """The code of each, or its problem where it has none; each once."""
    return list(dict.fromkeys(warning.code or warning.problem for warning in warnings))


def _largest(kinds: Mapping[str, Sequence[str]]) -> str:
    every = [context for same in kinds.values() for context in same]
    largest = max(every, key=lambda text: max(map(_number, _MEASURED.findall(text)), default=0.0))
    return f"{counted(len(every), 'warning')}, such as {largest}"


def _together(texts: Sequence[str]) -> str:
    """The texts as one: ``load average 9.34 – 10.32 on 2 processors (5 runs)``."""
    if len(set(texts)) == 1:
        return texts[0]
    columns = zip(*(_MEASURED.findall(text) for text in texts), strict=True)
    ranges = [_range(values) for values in columns]
    first = texts[0]
    ends = [0, *(at for match in _MEASURED.finditer(first) for at in match.span()), len(first)]
    between = [first[a:b] for a, b in list(pairwise(ends))[::2]]
    text = "".join(
        f"{words}{numbers}" for words, numbers in zip(between, [*ranges, ""], strict=True)
    )
    return f"{text} ({counted(len(texts), 'run')})"


def _range(values: Sequence[str]) -> str:
    low, high = (end(values, key=_number) for end in (min, max))
    return low if _number(low) == _number(high) else f"{low} – {high}"


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def panel_warnings(panel: Panel) -> Iterator[RunWarning]:
    """Yield what limits the comparisons of a panel."""
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
    yield from dict.fromkeys(warning for group in panel.groups for warning in group.warnings)
    for arm in panel.arms:
        if arm.unknown:
            checks = unknown_checks(arm.runs)
            yield RunWarning(
                "checks-unknown", "† a check has no result", f"{where}: {arm.name}: {checks}"
            )
        if arm.at_limit:
            limited = ", ".join(quantity.labels_text() for quantity in in_order(arm.at_limit))
            yield RunWarning(
                "time-limit-reached",
                "a query that reached its time limit has no time, and its run no totals",
                f"{where}: {arm.name}: {limited}",
            )
    if fitting := [_ratio(run.result) for run in panel.runs if _fits(run.result)]:
        yield RunWarning(
            "data-fit-in-memory",
            "repeated reads come from DRAM on every tier",
            f"{where}: {_either(fitting)} (data : memory)",
        )


def _fits(run: RunResult) -> bool:
    return bool(run.data_bytes and run.memory_bytes and run.data_bytes <= run.memory_bytes)


def troubles(runs: Sequence[StoredRun]) -> Iterator[tuple[str, str, str]]:
    """Yield id, status and at most five reasons of every run that is not complete."""
    for run in runs:
        if run.result.status == "complete":
            continue
        reasons = [
            f"{check.name} {', '.join(check.labels.values())} {check.status}: {check.detail}"
            for check in run.result.checks
            if check.status != "passed"
        ]
        if error := run.result.error:
            reasons.insert(0, f"{error.problem}: {error.context}. {error.hint}".strip())
        yield run.run_id, run.result.status, "; ".join(first_of(reasons, 5))


# Durability ---------------------------------------------------------------------


def durability_section(panels: Sequence[Panel]) -> Iterator[Section]:
    """Yield a table of the commits that each arm's server kept when it was killed."""
    rows = [
        _durability_row(panel, arm, checked)
        for panel in panels
        for arm in panel.arms
        if (checked := [states for run in arm.runs if (states := _durability_checks(run))])
    ]
    about = Paragraph(
        "The server was killed under its clients and restarted; commits that it had acknowledged "
        "were looked for. The host kept running: this tests no loss of power."
    )
    head = ("", "measured on", "runs with every commit", "commits looked for", "restart")
    if rows:
        table = Table("Commits after a kill", (*head, "killed after"), rows)
        yield Section("Durability", [about, table], "durability")


def _durability_row(panel: Panel, arm: Arm, checked: Sequence[Sequence[str]]) -> Row:
    passed = sum(set(states) == {"passed"} for states in checked)
    committed = arm.of_metric("journal_committed_count").items()
    durations = ("recovery_duration_ns", "killed_after_ns")
    times = (arm.point(Quantity(name)) for name in durations)
    return (
        panel.title_with_workload,
        arm.marked_name,
        f"{passed} of {len(checked)}",
        ", ".join(f"{sum(p.samples):.0f} {q.labels_text()}" for q, p in committed) or NOTHING,
        *(format_ns(point.median) if point else NOTHING for point in times),
    )


def _durability_checks(run: StoredRun) -> list[str]:
    return [check.status for check in run.result.checks if check.name == "durability"]


# Memory and caches --------------------------------------------------------------


_MEMORY = (
    "",
    "measured on",
    "data",
    "memory",
    "data : memory",
    "cache",
    "page cache",
    "restored by",
    "resumed after",
)


def memory_table(panels: Sequence[Panel]) -> Table:
    """How large each arm's data were against memory, and how cold the caches, over all its runs."""
    rows = [_memory_row(panel, arm) for panel in panels for arm in panel.arms]
    return Table("Data, memory and caches", _MEMORY, rows)


def _memory_row(panel: Panel, arm: Arm) -> Row:
    results = [run.result for run in arm.runs]
    return (
        panel.title,
        arm.marked_name,
        _either(_size(run.data_bytes) for run in results),
        _either(_memory(run) for run in arm.runs),
        _either(_ratio(run) for run in results),
        _either(str(run.spec.params.get("cache", "not stated")) for run in results),
        _residency([entry for run in results for entry in run.residency]),
        _either(run.manifest.restore_method for run in arm.runs if run.manifest),
        _either(", ".join(resumed(run)) or NOTHING for run in arm.runs),
    )


def _either(texts: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(texts)) or "unknown"


def _size(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else format_bytes(size_bytes)


def _memory(run: StoredRun) -> str:
    method = run.manifest.memory_cap.method if run.manifest else "none"
    how = "whole host" if method == "none" else f"capped by {method}"
    return f"{_size(run.result.memory_bytes)} ({how})"


def _ratio(run: RunResult) -> str:
    data, memory = run.data_bytes, run.memory_bytes
    return f"{significant(data / memory)} : 1" if data and memory else "unknown"


def _residency(measured: Sequence[Cached]) -> str:
    """The worst cold start of all the runs, and how many there were."""
    shares = [
        entry.resident_bytes / entry.total_bytes
        for entry in measured
        if entry.resident_bytes is not None and entry.total_bytes
    ]
    notes = dict.fromkeys(entry.note for entry in measured if entry.note)
    starts = counted(len(shares), "cold start")
    worst = [f"≤ {percent(max(shares))} resident, {starts}"] if shares else []
    return "; ".join([*worst, *notes]) or "not measured"


# Hosts and engines --------------------------------------------------------------


def hosts_and_tiers(runs: Iterable[StoredRun]) -> tuple[Table, *tuple[Facts, ...]]:
    """Return the tiers of the runs that have a manifest, and the facts of their hosts."""
    tiers: dict[Row, None] = {}
    hosts: dict[tuple[tuple[str, str], ...], None] = {}
    for run in runs:
        if run.manifest:
            tiers |= dict.fromkeys(map(_tier_row, run.manifest.tiers))
            hosts[tuple(_host_facts(run.manifest.host))] = None
    head = ("tier", "kind", "file system", "DAX", "device", "size", "price", "warnings")
    table = Table("Tiers, as Linux describes them", head, [*tiers])
    return table, *(Facts(host) for host in hosts)


def _tier_row(tier: TierRecord) -> Row:
    tier_facts = tier.facts
    kind, filesystem = tier.kind, tier_facts.filesystem or NOTHING
    if tier.emulates:
        kind += f" (EMULATED, stands in for {tier.emulates})"
    if tier.model:
        kind += f" (MODELLED as {tier.model.name})"
    if tier_facts.block_size_bytes:
        filesystem += f", blocks of {format_bytes(tier_facts.block_size_bytes)}"
    device = " ".join(filter(None, (tier_facts.device, tier_facts.device_model)))
    price = tier.price_per_gb
    return (
        tier.name,
        kind,
        filesystem,
        state_text(tier_facts.dax),
        device or tier.device or NOTHING,
        _size(tier_facts.size_bytes),
        NOTHING if price is None else f"${price:g}/GB",
        "; ".join([*tier.warnings, *tier_facts.notes]),
    )


def _host_facts(host: HostFacts) -> Iterator[tuple[str, str]]:
    cpu, kernel = host.cpu, host.kernel
    yield "Host", f"{host.hostname} ({host.host_id})"
    yield "Mode", host.mode
    counts = ((cpu.sockets, "socket"), (cpu.cores, "core"), (cpu.threads, "thread"))
    yield "CPU", ", ".join([cpu.model, *(counted(number, of) for number, of in counts)])
    yield "Instructions", " ".join(cpu.flags) or "none of interest"
    yield "Microcode", cpu.microcode or "unknown"
    yield "Memory", format_bytes(host.memory_bytes)
    nodes = (
        f"node {n.node}: {format_bytes(n.memory_bytes)}, CPUs {n.cpus or 'none'}"
        for n in host.numa_nodes
    )
    yield "NUMA", "; ".join(nodes)
    yield "Kernel", f"{kernel.release} ({kernel.cmdline})"
    yield "Mitigations", mitigations_text(host.mitigations)
    for title, name in STATES:
        yield title, state_text(getattr(host, name))
    domains = ", ".join(
        f"{region}: {domain}" for region, domain in host.persistence_domains.items()
    )
    yield "Persistence domain", domains or "no persistent memory"


def engine_settings(panel: Panel) -> Iterator[Block]:
    """Yield each set of settings of a panel's arms, with the engine's build.

    Of the settings given to it, and of those that decide whether a commit survives a crash.
    """
    arms_by_settings: dict[Row, list[tuple[str, Program]]] = {}
    for arm in panel.arms:
        run = next((run for run in arm.runs if run.manifest), None)
        if run is not None and run.manifest is not None:
            # Ports and paths differ run by run; facts leave them out.
            parts = ("engine.version", "engine.build", "engine.source", "engine.settings.")
            key = sorted(f"{f} {v}" for f, v in facts(run).items() if f.startswith(parts))
            arms_by_settings.setdefault(tuple(key), []).append(
                (arm.marked_name, run.manifest.engine)
            )
    for same in arms_by_settings.values():
        title = ", ".join([panel.title, *(name for name, _ in same if len(arms_by_settings) > 1)])
        engine = same[0][1]
        given, effective = engine.settings, engine.effective_config
        deciding = (name for name in engine.durability_settings if name in effective)
        rows = [
            (name, str(given.get(name, NOTHING)), str(effective.get(name, NOTHING)))
            for name in sorted({*given, *deciding})
        ]
        heading = f"{title}: settings given, and those that decide durability"
        yield Table(heading, ("setting", "given", "in effect"), rows)
        yield note(f"Build {engine.build}, from {engine.source}.")
