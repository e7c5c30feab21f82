"""An executed plan of Spark with its SQL metrics as neutral operators.

Spark measures in every execution. It compiles operators of a stage into one loop and measures the
loop (``WholeStageCodegen``, "duration"), scans and sorts in it, but no joins, projections and
filters. So the loop's time without what is measured in it, and without the loops that it pulls rows
from in the same task, is the time of its join or its aggregation where it has operators of one of
these kinds; it is the loop's own, of the kind "other", where it has both, or none.

All are sums over tasks. For comparison with wall times, they are divided by the average number of
tasks at work, which is their sum divided by the time of execution; below one, nothing is divided,
and the rest is time without a task at work: starting stages and tasks, and collecting the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.query_plan import ExecutedPlan, Operator, OperatorKind

_NOTE = (
    "own times are sums over tasks, divided by the {:.2f} tasks at work on average; a compiled "
    "loop with joins and aggregations has one time, of the kind other"
)
_KINDS: tuple[tuple[str, OperatorKind], ...] = (
    ("Scan", "scan"),
    ("Join", "join"),
    ("CartesianProduct", "join"),
    ("Aggregate", "aggregate"),
    ("Window", "aggregate"),
    ("Sort", "sort"),
    ("TakeOrdered", "sort"),
)
_NOT_TABLES = ("LocalTableScan", "OneRow", "CommandResult")
_LOOP = "WholeStageCodegen"
#: They only hold others.
_WRAPPERS = ("AdaptiveSparkPlan", "QueryStage", "InputAdapter", "AQEShuffleRead", "ColumnarToRow")
#: Ends of a task: what is below is the time of other tasks.
_EXCHANGES = ("Exchange",)
#: Metrics of an operator's own time, and nanoseconds of their units.
_OWN_TIMES = (
    "scan time",
    "sort time",
    "shuffle write time",
    "fetch wait time",
    "time to build",
    "time to broadcast",
    "time to build hash map",
)
_NS = {"timing": 1_000_000, "nsTiming": 1}
_ROWS = ("number of output rows", "shuffle records written", "records read")
_BYTES = {"spill size": "spilled_bytes", "shuffle bytes written": "shuffle_written_bytes"}


@dataclass
class _PlanNode:
    """An operator as it is put together. ``busy_ns``: of it and what it pulls in its task."""

    kind: OperatorKind
    name: str
    rows: int
    relation: str | None
    children: list[_PlanNode]
    loop: bool
    own_ns: int = 0
    busy_ns: int = 0
    metrics: Mapping[str, int] = field(default_factory=dict)

    def walk(self) -> Iterator[_PlanNode]:
        yield self
        for child in self.children:
            yield from child.walk()

    def operator(self, tasks: float) -> Operator:
        below = tuple(child.operator(tasks) for child in self.children)
        own_ns = round(self.own_ns / tasks)
        return Operator(self.kind, self.name, self.rows, own_ns, self.relation, below)


def translate(answer: Mapping[str, Any]) -> ExecutedPlan:
    """Translate the driver's answer (Plans.java), with the execution's duration."""
    plan, duration_ns = answer["plan"], int(answer["duration_ns"])
    root = _node(plan["operators"], set())
    planning_ns = sum(plan["phases_ns"].values())
    busy_ns = sum(node.own_ns for node in root.walk())
    running_ns = max(0, duration_ns - planning_ns)
    tasks = max(1.0, busy_ns / running_ns) if running_ns else 1.0
    totals = dict.fromkeys(_BYTES.values(), 0)
    for node in root.walk():
        for metric, name in _BYTES.items():
            totals[name] += node.metrics.get(metric, 0)
    return ExecutedPlan(
        operators=root.operator(tasks),
        duration_ns=duration_ns,
        raw=json.dumps(plan),
        note=_NOTE.format(tasks),
        clock="scaled",
        extra={"tasks_at_work": tasks, **totals},
        outside_ns={
            "planning": planning_ns,
            "no task at work": max(0, running_ns - busy_ns),
        },
    )


def _node(operator: Mapping[str, Any], seen: set[int]) -> _PlanNode:
    """``seen``: metrics that another operator has, whose result this one uses again."""
    name = str(operator["name"])
    if any(word in name for word in _WRAPPERS) and len(operator["children"]) == 1:
        return _node(operator["children"][0], seen)
    metrics: dict[str, int] = {}
    own_ns = loop_ns = 0
    for metric in operator["metrics"]:
        value = int(metric["value"])
        if metric["id"] in seen or value < 0:
            continue
        seen.add(metric["id"])
        metrics[metric["name"]] = value
        if metric["name"] in _OWN_TIMES:
            own_ns += value * _NS.get(metric["type"], 0)
        elif name.startswith(_LOOP) and metric["name"] == "duration":
            loop_ns = value * _NS[metric["type"]]
    children = [_node(child, seen) for child in operator["children"]]
    rows = next((metrics[m] for m in _ROWS if m in metrics), None)
    if rows is None:
        rows = max((child.rows for child in children), default=0)
    node = _PlanNode(
        kind=_kind(name),
        name=name.split(" (", maxsplit=1)[0] if name.startswith(_LOOP) else name,
        rows=rows,
        relation=name.rsplit(".", 1)[-1] if name.startswith("Scan ") and "." in name else None,
        children=children,
        loop=name.startswith(_LOOP),
        own_ns=own_ns,
        metrics=metrics,
    )
    below_ns = sum(child.busy_ns for child in children)
    if node.loop:
        _owner(node).own_ns += max(0, loop_ns - below_ns)
        node.busy_ns = max(loop_ns, below_ns)
    elif not name.endswith(_EXCHANGES):
        node.busy_ns = own_ns + below_ns
    return node


def _owner(loop: _PlanNode) -> _PlanNode:
    """Return the operator whose time the loop's is."""
    members = list(_members(loop.children))
    heavy = [member for member in members if member.kind in ("join", "aggregate")]
    return heavy[0] if len({member.kind for member in heavy}) == 1 else loop


def _members(nodes: Sequence[_PlanNode]) -> Iterator[_PlanNode]:
    """Return the operators of a loop: those down to other loops and to exchanges."""
    for node in nodes:
        if not node.loop and not node.name.endswith(_EXCHANGES):
            yield node
            yield from _members(node.children)


def _kind(name: str) -> OperatorKind:
    if name.startswith(_NOT_TABLES):
        return "other"
    return next((kind for word, kind in _KINDS if word in name), "other")
