"""Query plans in neutral operators: what every engine's plan is translated to.

A plan comes from a second, untimed execution (``EXPLAIN ANALYZE`` distorts), so
it carries that execution's own duration next to the operators' times: the
distortion is the ratio of the two. :func:`account` holds both against the timed
execution and says in words what does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from harness.structs import Struct

OperatorKind = Literal["scan", "join", "aggregate", "sort", "other"]
IndexKind = Literal["", "clustered", "secondary", "covering"]


_Count = Annotated[int, Meta(ge=0, le=10**18)]


class Operator(Struct, frozen=True):
    """One operator of an executed plan.

    ``rows``: rows it produced, over all loops and workers.
    ``time_ns``: its own time (exclusive of its children), as wall time where the
    engine reports wall time; of parallel workers the engine's note says which.
    ``lookups``: the number of index lookups that it made, of engines that count them.
    ``index``: of these, whether the index has the rows (clustered), leads to them (secondary) or
    has all that was read (covering); empty where the engine does not distinguish them.
    """

    kind: OperatorKind
    name: str
    rows: int
    time_ns: _Count
    relation: str | None = None
    children: tuple[Operator, ...] = ()
    lookups: _Count = 0
    index: IndexKind = ""

    def walk(self) -> Iterator[Operator]:
        """This operator and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


#: The one entry of ``ExecutedPlan.outside_ns`` that engines measure themselves.
PLANNING = "planning"
#: The kind of time that no operator accounts for.
OUTSIDE = "outside"

#: ``wall``: wall time; ``cpu``: processor time summed over threads; ``scaled``: that,
#: divided by the number of threads that were at work on average.
Clock = Literal["wall", "cpu", "scaled"]


@dataclass(frozen=True)
class ExecutedPlan:
    """A plan as executed: its operators, the execution's duration, the engine's raw text.

    ``operators``: the root, with its inputs below it.
    ``outside_ns``: what the execution spent outside its operators, by name: planning,
    starting the executor, the client … All but :data:`PLANNING` is what was left of the
    execution's duration. ``note``: how the engine's times are to be read.
    """

    operators: Operator
    duration_ns: int
    raw: str
    raw_format: Literal["json", "text"] = "json"
    note: str = ""
    clock: Clock = "wall"
    extra: dict[str, Any] = field(default_factory=dict)
    outside_ns: Mapping[str, int] = field(default_factory=dict)

    @property
    def remainder_ns(self) -> dict[str, int]:
        """Time that is left of the execution, by name. It makes any plan add up, so it says
        nothing of how well the plan does.
        """
        return {name: ns for name, ns in self.outside_ns.items() if ns and name != PLANNING}

    def time_by_kind_ns(self) -> dict[str, int]:
        """Own time summed over the operators of each kind, in ns; ``other`` holds planning
        too, and :data:`OUTSIDE` the remainder.
        """
        totals: dict[str, int] = {}
        for operator in self.operators.walk():
            totals[operator.kind] = totals.get(operator.kind, 0) + operator.time_ns
        if planning_ns := self.outside_ns.get(PLANNING, 0):
            totals["other"] = totals.get("other", 0) + planning_ns
        if remainder_ns := sum(self.remainder_ns.values()):
            totals[OUTSIDE] = remainder_ns
        return totals


#: Below this a ratio of processor times says nothing: they are counted in ticks of 10 ms.
LEAST_CPU_NS = 200_000_000
#: A plan accounts for a query's time when it adds up to within this share of it.
TOLERANCE = 0.10


@dataclass(frozen=True)
class Accounting:
    """Degree to which a plan's times add up to the time that was measured.

    ``plan_ns``: the operators' times and the measured planning; ``execution_ns``:
    the execution they come from; ``measured_ns``: the timed one. ``why``: empty where
    the sum is within :data:`TOLERANCE` of the measured time and no more than that of the
    execution lies outside the operators, else the reasons. ``remainder_ns``: what lies
    there, by name; not in ``plan_ns``.
    """

    plan_ns: int
    execution_ns: int
    measured_ns: int
    why: str
    remainder_ns: Mapping[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The plan's sum over the measured time."""
        return self.plan_ns / self.measured_ns


def account(
    plan: ExecutedPlan,
    measured_ns: int,
    cpu_ns: float | None = None,
    measured_cpu_ns: float | None = None,
) -> Accounting:
    """Hold a plan's times against the statement's measured time.

    ``cpu_ns``, ``measured_cpu_ns``: processor time of the profiled and of the timed
    execution, where they are known: they distinguish the cost of profiling from that of other load
    on the machine did.
    """
    remainder_ns = plan.remainder_ns
    plan_ns = sum(plan.time_by_kind_ns().values()) - sum(remainder_ns.values())
    work = None
    if cpu_ns and measured_cpu_ns and min(cpu_ns, measured_cpu_ns) >= LEAST_CPU_NS:
        work = cpu_ns / measured_cpu_ns
    why = why_off(plan_ns, plan.duration_ns, measured_ns, plan.note, work, remainder_ns)
    return Accounting(plan_ns, plan.duration_ns, measured_ns, why, remainder_ns)


def why_off(
    plan_ns: float,
    execution_ns: float,
    measured_ns: float,
    note: str = "",
    work: float | None = None,
    remainder_ns: Mapping[str, float] | None = None,
) -> str:
    """Why a plan's sum is not within the tolerance of the measured time; empty where it is
    and as little of the execution lies outside the operators.

    ``work``: the profiled execution's processor time over that of the timed one.
    ``remainder_ns``: what lies outside the operators, by name; it is not in ``plan_ns``.
    """
    left = remainder_ns or {}
    left_ns = sum(left.values())
    too_much_left = left_ns > TOLERANCE * execution_ns
    if _fits(plan_ns, measured_ns) and not too_much_left:
        return ""
    reasons = []
    if not _fits(execution_ns, measured_ns):
        reasons.append(_distorted(execution_ns / measured_ns, work))
    if too_much_left:
        parts = sorted(left.items(), key=lambda part: -part[1])
        reasons.append(
            f"{_percent(left_ns, execution_ns)} of the profiled execution lies outside the "
            f"operators: {', '.join(f'{name} {_percent(ns, execution_ns)}' for name, ns in parts)}"
        )
    if not _fits(plan_ns + left_ns, execution_ns) or not reasons:
        reasons.append(
            f"the plan's times add up to {_percent(plan_ns, execution_ns)} of the "
            f"execution they come from{f' ({note})' if note else ''}"
        )
    return "; ".join(reasons)


def _fits(part_ns: float, whole_ns: float) -> bool:
    return abs(part_ns - whole_ns) <= TOLERANCE * whole_ns


def _percent(part_ns: float, whole_ns: float) -> str:
    return f"{100 * part_ns / whole_ns:.0f} %" if whole_ns else "none"


def _distorted(ratio: float, work: float | None) -> str:
    said = f"the profiled execution took {ratio:.2f} times as long as the timed one"
    if work is None:
        return said
    said += f", with {work:.2f} times its processor time"
    as_long, as_before = _fits(work, ratio), _fits(work, 1.0)
    if as_long and not as_before and ratio > 1:
        return f"{said}: profiling cost that"
    if as_before and not as_long:
        return f"{said}: the state of caches or other load on the machine, not profiling"
    return said
