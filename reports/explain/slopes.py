"""What delays that were planted in an engine's I/O did to its latency, as ``harness whatif`` stored
it: ns of latency per ns of delay, which is the number of such calls on the critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from shlex import quote
from typing import Any

from harness.explain.whatif import WhatIf
from harness.store.runs import StoredRun
from reports.json_form import attributes
from reports.metric_registry import essential_parameters
from reports.run_configuration import facts
from reports.sequences import first_of

#: What a run and its evidence agree in: these facts, settings and options of the engine, and, of
#: the parameters, the essential ones and some more.
_FACTS = (
    "workload",
    "engine",
    "engine.version",
    "host.host_id",
    "memory_limit_bytes",
    "tuning",
    "threads",
    "cpus",
    "driver",
    "emulate",
)
_GIVEN = ("settings.", "engine_options.")
_PARAMETERS = ("scale", "cache", "rate_per_s", "target", "think_time")
#: Drivers that count in intervals short enough for a delay that varies.
_DRIVERS = ("native", "loadgen")
#: Evidence that differs in these is of something else altogether.
_SAME = ("workload", "engine")
#: Of what evidence differs in, no more is said.
_MOST_SAID = 3


@dataclass(frozen=True)
class Slope:
    """Of delays in one operation on one part. ``line``: the latency over the delay."""

    line: WhatIf
    run_id: str

    @property
    def part(self) -> str:
        """Whose operation was delayed."""
        return self.line.part

    @property
    def operation(self) -> str:
        """That was delayed."""
        return self.line.operation

    @property
    def query(self) -> str:
        """Empty unless it is of one."""
        return self.line.labels.get("query", "")

    @property
    def linear(self) -> bool:
        """Whether latency was a straight line over the delay."""
        return self.line.fit.linear

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            **attributes(self, "part", "operation"),
            "query": self.query or None,
            "slope": self.line.fit.slope.to_json(),
            "linear": self.linear,
            "run": self.run_id,
        }


class Slopes:
    """Those of what-ifs that are alike a run, the newest first."""

    def __init__(self, what_ifs: Sequence[StoredRun], run: StoredRun) -> None:
        wanted = conditions(run)
        self._known: list[tuple[StoredRun, list[str]]] = []
        for one in sorted(what_ifs, key=lambda one: int(one.head["started_unix_ns"])):
            spec = one.head["spec"]
            if not one.head["failed"] and all(spec[name] == wanted[name] for name in _SAME):
                self._known.append((one, differences(conditions(one), wanted)))
        self._known.reverse()

    def of(self, part: str, operation: str, query: str) -> Slope | None:
        """That of an operation, or of an operation in a query."""
        for run, differing in self._known:
            line = None if differing else _line(run, part, operation, query)
            if line is not None:
                return Slope(line, run.run_id)
        return None

    def not_used(self, part: str, operation: str, query: str) -> str:
        """The most similar what-if of other conditions, and why it does not count."""
        wanted = {"part": part, "operation": operation} | ({"query": query} if query else {})
        for run, differing in sorted(self._known, key=lambda one: len(one[1])):
            labels = [m["labels"] for m in run.run["metrics"] if m["name"] == "whatif_slope"]
            if differing and wanted in labels:
                said = first_of(differing, _MOST_SAID, "{} more")
                return f"{run.run_id} has {', '.join(said)}"
        return ""


def is_what_if(run: StoredRun) -> bool:
    """Whether it may hold slopes: delays were planted in it."""
    return bool(run.head["spec"].get("plant"))


def setting(run: StoredRun) -> dict[str, Any]:
    """The parameters in which a what-if and the run that it is of agree."""
    spec = run.head["spec"]
    names = (*essential_parameters(spec["workload"]), *_PARAMETERS)
    return {name: spec["params"][name] for name in names if spec["params"].get(name)}


def command_for(run: StoredRun, part: str, operation: str, stand_ins: Sequence[str]) -> str:
    """``harness whatif`` with the run's conditions; ``stand_ins``: tiers that are emulated.

    Empty where delays cannot vary under its driver.
    """
    spec = run.head["spec"]
    if spec["driver"] not in _DRIVERS:
        return ""
    limit, queries = spec["memory_limit_bytes"], spec["params"].get("queries")
    wanted = [
        f"harness whatif {spec['workload']} --engine {spec['engine']}",
        f"--placement {spec['placement']['name']} --part {part} --operation {operation}",
        *(f"-p {name}={value}" for name, value in setting(run).items()),
        *([f"-p queries={','.join(map(str, queries))}"] if queries else []),
        *([f"--memory-limit {limit}"] if limit else []),
        *([f"--tuning {quote(spec['tuning'])}"] if spec["tuning"] != "computed" else []),
        *([f"--threads {spec['threads']}"] if spec["threads"] else []),
        *([f"--cpus {spec['cpus']}"] if spec.get("cpus") else []),
        *(f"--set {quote(f'{name}={value}')}" for name, value in spec["settings"].items()),
        *(f"--option {quote(f'{k}={value}')}" for k, value in spec["engine_options"].items()),
        *(f"--emulate {tier}" for tier in stand_ins),
    ]
    return " ".join(wanted)


@lru_cache(maxsize=1024)
def conditions(run: StoredRun) -> Mapping[str, str]:
    """What a run and its evidence agree in."""
    found = {
        name: value
        for name, value in facts(run).items()
        if name in _FACTS or name.startswith(_GIVEN)
    }
    placement = run.head["spec"]["placement"] or {}
    found |= {f"params.{name}": str(value) for name, value in setting(run).items()}
    return found | {"placement": str(placement.get("name"))}


def differences(one: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """``settings.wal_sync_method fdatasync instead of open_datasync``."""
    names = dict.fromkeys((*wanted, *one))
    values = [(name, one.get(name, "not set"), wanted.get(name, "not set")) for name in names]
    return [f"{name} {found} instead of {own}" for name, found, own in values if found != own]


@lru_cache(maxsize=256)
def _line(run: StoredRun, part: str, operation: str, query: str) -> WhatIf | None:
    """As stored; the fit takes a while."""
    labels = {"query": query} if query else {}
    for fit in (run.artifact("whatif") or {}).get("fits", ()):
        if (fit["part"], fit["operation"], fit["labels"]) == (part, operation, labels):
            return WhatIf.from_json(fit)
    return None
