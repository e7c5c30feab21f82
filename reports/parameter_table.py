"""What was run, so that a report can be read alone: workload, driver, every parameter.

A value that the spec has by default is shown like one that was given: who reads a number of
TPC-C must find its warehouses, whoever chose them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.store.runs import StoredRun
from reports.labels import plain_text, value_text
from reports.metric_registry import essential_parameters, workload_title
from reports.run_configuration import Dimension, emulations, spec_facts

#: One row: what, and its value; several where runs differ in it.
ShownFact = tuple[str, str]


#: In this order before the parameters and after them; the rest of the spec follows.
_FIRST = ("workload", "driver")
_LAST = ("threads", "cpus", "memory_limit_bytes", "tuning", "seed", "monitors", "no_monitors")
_NAMES: Mapping[str, str] = {
    "memory_limit_bytes": "memory limit",
    "cpus": "processors",
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
    """Every fact that was decided before the runs of these sides, which are named.

    A value that all sides share stands by itself; others each after the name of their side.
    ``usual``: facts that are left out where all runs have this value, but for those without which
    a number of the workload means nothing.
    """
    known = [(name, [_decided(run) for run in runs]) for name, runs in sides]
    names = dict.fromkeys(fact for _, held in known for one in held for fact in one)
    shown: list[ShownFact] = []
    workloads = {run.spec.workload for _, runs in sides for run in runs}
    essential = {fact for workload in workloads for fact in essential_facts(workload, ())}
    for fact in _ordered(list(names)):
        found = {one.get(fact) for _, held in known for one in held}
        default = {usual[fact]} if usual and fact in usual else {None, "null", "[]"}
        if usual and fact not in essential and found <= default:
            continue
        values = [(side, _values(fact, held)) for side, held in known]
        alike = len({value for _, value in values}) == 1
        text = values[0][1] if alike else "; ".join(f"{side}: {value}" for side, value in values)
        shown.append((_called(fact), text))
    return (*shown, ("repeats", _repeats(sides)))


def essential_facts(workload: str, dims: Sequence[Dimension]) -> list[str]:
    """Facts without which a number of this workload means nothing, but for those compared."""
    facts = [f"params.{name}" for name in essential_parameters(workload)]
    return [fact for fact in facts if not any(dim.covers(fact, "", "") for dim in dims)]


def _decided(run: StoredRun) -> dict[str, str]:
    found = {f: v for f, v in spec_facts(run).items() if f not in _ELSEWHERE}
    # An empty mapping has no facts of its own, and an absent cpus means all of them.
    found.setdefault("cpus", "null")
    if emulated := emulations([run]):
        found["stand-ins"] = ", ".join(emulated)
    return found


def _ordered(names: Sequence[str]) -> Iterator[str]:
    params = [name for name in names if name.startswith("params.")]
    placed = [*_FIRST, *params, *_LAST]
    yield from (name for name in placed if name in names)
    yield from (name for name in names if name not in placed)


def _called(fact: str) -> str:
    known = _NAMES.get(fact)
    return known or fact.removeprefix("params.").removeprefix("settings.").replace("_", " ")


def _values(fact: str, held: Sequence[Mapping[str, str]]) -> str:
    return " or ".join(dict.fromkeys(_text(fact, one.get(fact)) for one in held))


def _text(fact: str, value: str | None) -> str:
    if fact == "workload" and value is not None:
        return f"{value} ({workload_title(value)})" if workload_title(value) != value else value
    if fact in ("memory_limit_bytes", "threads", "cpus"):
        return value_text(fact, value)
    if value in (None, "null"):
        return "none"
    return {"true": "yes", "false": "no", "[]": "none"}.get(str(value), plain_text(str(value)))


def _repeats(sides: Sequence[tuple[str, Sequence[StoredRun]]]) -> str:
    """How many runs of each side have a result."""
    return "; ".join(
        f"{name}: {sum(run.result.status != 'failed' for run in runs)}" for name, runs in sides
    )
