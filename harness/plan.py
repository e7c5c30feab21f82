"""Query plans in neutral operators: what every engine's plan is translated to.

A plan comes from a second, untimed execution (``EXPLAIN ANALYZE`` distorts), so
it carries that execution's own duration beside the operators' times: the
distortion is the ratio of the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

OperatorKind = Literal["scan", "join", "aggregate", "sort", "other"]


@dataclass(frozen=True)
class Operator:
    """One operator of an executed plan.

    ``rows``: rows it produced, over all loops and workers.
    ``time_ns``: its own time (exclusive of its children), as wall time where the
    engine reports wall time; of parallel workers the engine's note says which.
    """

    kind: OperatorKind
    name: str
    rows: int
    time_ns: int
    relation: str | None = None
    children: tuple[Operator, ...] = ()

    def walk(self) -> Iterator[Operator]:
        """This operator and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def to_json(self) -> dict[str, Any]:
        """A nested JSON object, children under ``children``."""
        return {
            "kind": self.kind,
            "name": self.name,
            "relation": self.relation,
            "rows": self.rows,
            "time_ns": self.time_ns,
            "children": [child.to_json() for child in self.children],
        }


@dataclass(frozen=True)
class ExecutedPlan:
    """A plan as executed: its operators, the execution's duration, the engine's raw text."""

    root: Operator
    duration_ns: int
    raw: str
    raw_format: Literal["json", "text"] = "json"
    note: str = ""
    clock: Literal["wall", "cpu"] = "wall"
    extra: dict[str, Any] = field(default_factory=dict)

    def time_by_kind_ns(self) -> dict[str, int]:
        """Own time summed over the operators of each kind, in ns."""
        totals: dict[str, int] = {}
        for operator in self.root.walk():
            totals[operator.kind] = totals.get(operator.kind, 0) + operator.time_ns
        return totals
