"""Names of the compared dimension's values, the same for arms, sides and panels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from harness import jsonfile
from harness.errors import UsageError
from harness.metrics import parameters, workload_info
from harness.store.runs import StoredRun
from harness.units import format_bytes, format_ns, parse_duration_ns
from reports.run_configuration import (
    CPU_QUOTA,
    Dimension,
    dimension,
    emulations,
    facts,
    followers,
    spec_facts,
)

#: Facts a reader looks for first, as prefixes; the others follow in the order of the facts.
_RELEVANCE = (
    "workload",
    "placement",
    "host_mode",
    "memory_limit_bytes",
    "params.",
    "threads",
    "tuning",
    "settings.",
    "env.",
    "engine.version",
    "host.host_id",
    "host.kernel.release",
    "host.",
    "tier.",
    "restore_method",
    "memory_cap.",
    "run_state.",
    "dataset.",
    "engine.",
)

#: The fact that identifies a host.
HOST_ID = "host.host_id"
_FACTS: Mapping[str, str] = {
    HOST_ID: "host",
    "host_mode": "host mode",
    "no_monitors": "without monitors",
}
#: What stands before a value, and in place of none.
_WITH_WORDS: Mapping[str, tuple[str, str]] = {
    "cpus": ("processors", "all processors"),
    "listen": ("TLS on", "private socket alone"),
    CPU_QUOTA: ("quota of", "no quota"),
}
#: Values that say nothing, by the first word of the fact.
_NOT_GIVEN: Mapping[str, tuple[str | None, ...]] = {
    "params": ("null",),
    "monitors": (None, "[]"),
    "no_monitors": (None, "[]"),
}

#: A duration as parameters print it.
_DURATION = re.compile(r"[0-9.]+(ns|us|ms|s|m|h)")
#: The number of queries that are named one by one; all of TPC-H's need no ends named.
_FEW_QUERIES, _ALL_QUERIES = 5, 22


def value_text(fact: str, value: str | None) -> str:
    """``128 MiB``, ``no limit``, ``2 threads``, ``work_mem 64MB``; None: the run lacks it."""
    given = None if value in (None, "null") else value
    if fact == "memory_limit_bytes":
        return format_bytes(int(given)) if given else "no limit"
    if fact == "threads":
        return f"{given} thread{'' if given == '1' else 's'}" if given else "default threads"
    if fact in _WITH_WORDS:
        before, absent = _WITH_WORDS[fact]
        return f"{before} {given}" if given not in (None, "none") else absent
    if fact.startswith(("settings.", "env.")):
        absent = "not set" if fact.startswith("env.") else "default"
        return f"{fact.partition('.')[2]} {value if value is not None else absent}"
    return given or "none"


def value_name(run: StoredRun, dim: Dimension) -> str:
    """The run's value of a dimension, as every legend, header and sentence names it.

    A host is named by its hostname. A memory limit that the manifest says nothing held is marked:
    the run had the whole host.
    """
    if dim.fact == HOST_ID and run.head.host:
        return run.head.host.hostname
    name = value_text(dim.fact, facts(run).get(dim.fact))
    mark = " (not enforced)" if dim.fact == "memory_limit_bytes" and not_enforced(run) else ""
    return name + mark


def arm_options(run: StoredRun, other: StoredRun) -> str:
    """Return what the arm of a run was set to and the other's was not: ``synchronous_commit=off``.

    Empty where the two are no arms.
    """
    run_facts, other_run_facts = spec_facts(run), spec_facts(other)
    if run_facts.get("arm") == other_run_facts.get("arm"):
        return ""
    names = [
        name
        for name in leading(differing([run_facts, other_run_facts]), [run_facts, other_run_facts])
        # A placement says which tiers stand in for others.
        if name not in ("arm", "emulate", "models")
        and dimension("arm").covers(name, run_facts.get(name), other_run_facts.get(name))
    ]
    given = {name: value for name in names if (value := run_facts.get(name)) not in (None, "null")}
    return ", ".join(
        f"{name.partition('.')[2]}={readable(value)}"
        if name.startswith(("settings.", "env.", "engine_options."))
        else in_words(name, value)
        for name, value in given.items()
    )


def not_enforced(run: StoredRun) -> bool:
    """Return whether a memory limit was requested and not enforced."""
    requested = run.spec.memory_limit_bytes
    method = run.manifest.memory_cap.method if run.manifest else None
    return requested is not None and method == "none"


def resumed(run: StoredRun) -> list[str]:
    """After which steps a run was interrupted and resumed; empty if it was not."""
    return [str(resumption.after_step or "the start") for resumption in run.result.resumed]


def in_words(fact: str, value: str | None) -> str:
    """A fact with its value, where it distinguishes panels or arms.

    Empty for a parameter that is not given, and for the default monitors: the others' values
    distinguish them from it.
    """
    if value in _NOT_GIVEN.get(fact.partition(".")[0], ()):
        return ""
    if fact == "params.queries" and value is not None:
        return _queries(jsonfile.parse(value))
    if fact.startswith("params."):
        return f"{parameter_words(fact)} {_number_or_word(readable(value))}"
    if fact == "memory_limit_bytes" and value not in (None, "null"):
        return f"memory limit {value_text(fact, value)}"
    as_valued = ("memory_limit_bytes", "threads", "cpus", "listen")
    if fact in as_valued or fact.startswith(("settings.", "env.")):
        return value_text(fact, value)
    return f"{_FACTS.get(fact, fact)} {readable(value)}"


def parameter_words(name: str) -> str:
    """``ramp up`` of ``params.ramp_up`` or ``ramp_up``; ``engine threads`` of ``threads``."""
    if name == "threads":
        return "engine threads"
    bare = name.removeprefix("params.")
    info = parameters().get(bare)
    return (info and info.words) or bare.replace("_", " ").removesuffix(" bytes")


def number_of(value: str | None) -> tuple[float, str] | None:
    """The number that a fact is, with its unit: ``ns`` of a duration; None for any other fact."""
    text = plain_text(value or "")
    try:
        if _DURATION.fullmatch(text):
            return parse_duration_ns(text), "ns"
        return float(text), ""
    except (ValueError, UsageError):
        return None


def at_value(fact: str, value: float, unit: str) -> str:
    """``8 users``, ``1 user``, ``scale 0.1``, ``memory limit 4 GiB``, ``duration 3 s``."""
    words = parameter_words(fact)
    if fact == "memory_limit_bytes":
        return f"{words} {format_bytes(value)}"
    if unit == "ns" or not words.partition(" per")[0].endswith("s"):
        return f"{words} {format_ns(value) if unit else f'{value:,.10g}'}"
    return f"{value:,.10g} {words.removesuffix('s') if value == 1 else words}"


def varied_numbers(sets: Sequence[Mapping[str, str]]) -> list[str]:
    """The numbers in which the sets differ, without seeds and what follows from others."""
    return [
        name
        for name in leading(differing(sets), sets)
        if name.startswith(("params.", "threads", "memory_limit_bytes"))
        and "seed" not in name
        and all(number_of(facts.get(name)) is not None for facts in sets)
    ]


def _number_or_word(text: str) -> str:
    """``1,000,000``; ``yes`` and ``no`` for a flag."""
    if text.isascii() and text.isdigit() and 4 < len(text) < 20:
        return f"{int(text):,}"
    return {"true": "yes", "false": "no"}.get(text, text)


def query_name(query: str | int) -> str:
    """``Q6`` of TPC-H; the name of any other query."""
    return f"Q{query}" if str(query).isdecimal() else str(query)


def _queries(queries: Sequence[str | int]) -> str:
    """``Q6``, ``Q1, Q6``, ``22 queries``, ``12 queries (Q1 … Q14)``."""
    names = list(map(query_name, queries))
    if len(names) <= _FEW_QUERIES:
        return ", ".join(names)
    ends = "" if len(names) == _ALL_QUERIES else f" ({names[0]} … {names[-1]})"
    return f"{len(names)} queries{ends}"


def readable(value: str | None) -> str:
    """A fact's value, short enough for a sentence."""
    text = "(absent)" if value is None else plain_text(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def plain_text(value: str) -> str:
    """A fact's value without the marks of JSON, however long."""
    if value.startswith('"'):
        return str(jsonfile.parse(value))
    return ", ".join(map(str, jsonfile.parse(value))) if value.startswith("[") else value


def by_relevance(names: Sequence[str]) -> list[str]:
    """Fact names with those that a reader looks for first in front."""

    def rank(name: str) -> int:
        return next((i for i, prefix in enumerate(_RELEVANCE) if name.startswith(prefix)), 99)

    return sorted(names, key=rank)


def distinguishing(sets: Sequence[Mapping[str, str]]) -> list[str]:
    """Few facts that distinguish the sets, the most distinctive first."""
    chosen: list[str] = []
    groups = 1
    for fact in by_relevance(differing(sets)):
        apart = len({tuple(facts.get(name) for name in (*chosen, fact)) for facts in sets})
        if apart > groups:
            chosen, groups = [*chosen, fact], apart
    return chosen


def leading(names: Sequence[str], sets: Sequence[Mapping[str, str]]) -> list[str]:
    """The names without those that follow from another of them in every one of the sets."""
    said: set[str] = set()
    for leader, implied in followers().items():
        for follower in implied if leader in names else ():
            pairs = {(facts.get(leader), facts.get(follower)) for facts in sets}
            if len(pairs) == len({value for value, _ in pairs}):
                said.add(follower)
    return [name for name in names if name not in said]


def differing(sets: Sequence[Mapping[str, str]]) -> list[str]:
    """The facts in which the sets differ; an absent one is a value of its own."""
    names = dict.fromkeys(name for facts in sets for name in facts)
    return [name for name in names if len({facts.get(name) for facts in sets}) > 1]


# What was run ------------------------------------------------------------------------------
#
# A value that the spec has by default is shown like one that was given: who reads a number of
# TPC-C must find its warehouses, whoever chose them.

#: One row: what, and its value; several where runs differ in it.
ShownFact = tuple[str, str]


#: In this order before the parameters and after them; the rest of the spec follows.
_FIRST = ("workload", "driver")
_LAST = (
    "threads",
    "cpus",
    "memory",
    "memory_limit_bytes",
    "tuning",
    "seed",
    "monitors",
    "no_monitors",
)
_NAMES: Mapping[str, str] = {
    "memory_limit_bytes": "memory limit",
    "cpus": "processors",
    "memory": "memory bound to",
    "listen": "server listens, with TLS, on",
    "threads": "threads of the engine",
    "host_mode": "host mode",
    "monitors": "monitors added",
    "no_monitors": "monitors left out",
    "params.workload": "core workload",
}
#: Shown elsewhere: the engine heads the part, emulated tiers are marked on every number.
_ELSEWHERE = ("engine", "emulate", "models")


def what_was_run(
    sides: Sequence[tuple[str, Sequence[StoredRun]]], usual: Mapping[str, str] | None = None
) -> tuple[ShownFact, ...]:
    """Return all facts that were decided before the runs of these sides, which are named.

    A value that all sides share stands by itself; others each after the name of their side.
    ``usual``: facts that are left out where all runs have this value, but for those without which
    a number of the workload means nothing.
    """
    decided = [(name, [_decided(run) for run in runs]) for name, runs in sides]
    names = dict.fromkeys(fact for _, run_facts in decided for facts in run_facts for fact in facts)
    shown: list[ShownFact] = []
    workloads = {run.spec.workload for _, runs in sides for run in runs}
    essential = {fact for workload in workloads for fact in essential_facts(workload, ())}
    for fact in _ordered(list(names)):
        distinct = {facts.get(fact) for _, run_facts in decided for facts in run_facts}
        default = {usual[fact]} if usual and fact in usual else {None, "null", "[]"}
        if usual and fact not in essential and distinct <= default:
            continue
        values = [(side, _values(fact, run_facts)) for side, run_facts in decided]
        alike = len({value for _, value in values}) == 1
        text = values[0][1] if alike else "; ".join(f"{side}: {value}" for side, value in values)
        plain = fact.removeprefix("params.").removeprefix("settings.").replace("_", " ")
        if fact.startswith("env."):
            plain = fact.removeprefix("env.")
        shown.append((_NAMES.get(fact, plain), text))
    counts = ((name, sum(run.result.status != "failed" for run in runs)) for name, runs in sides)
    return (*shown, ("repeats", "; ".join(f"{name}: {count}" for name, count in counts)))


def essential_facts(workload: str, dims: Sequence[Dimension]) -> list[str]:
    """Facts without which a number of this workload means nothing, but for those compared."""
    facts = [f"params.{name}" for name in workload_info(workload).essential]
    return [fact for fact in facts if not any(dim.covers(fact, "", "") for dim in dims)]


def _decided(run: StoredRun) -> dict[str, str]:
    facts = {f: v for f, v in spec_facts(run).items() if f not in _ELSEWHERE}
    # An empty mapping has no facts of its own, and an absent cpus means all of them.
    facts.setdefault("cpus", "null")
    if emulated := emulations([run]):
        facts["stand-ins"] = ", ".join(emulated)
    return facts


def _ordered(names: Sequence[str]) -> Iterator[str]:
    params = [name for name in names if name.startswith("params.")]
    placed = [*_FIRST, *params, *_LAST]
    yield from (name for name in placed if name in names)
    yield from (name for name in names if name not in placed)


def _values(fact: str, run_facts: Sequence[Mapping[str, str]]) -> str:
    return " or ".join(dict.fromkeys(_text(fact, facts.get(fact)) for facts in run_facts))


def _text(fact: str, value: str | None) -> str:
    if fact == "workload" and value is not None:
        title = workload_info(value).title
        return f"{value} ({title})" if title != value else value
    if fact in ("memory_limit_bytes", "threads", "cpus"):
        return value_text(fact, value)
    if value in (None, "null"):
        return "none"
    return {"true": "yes", "false": "no", "[]": "none"}.get(str(value), plain_text(str(value)))
