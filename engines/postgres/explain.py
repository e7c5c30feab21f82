"""PostgreSQL's EXPLAIN ANALYZE as neutral operators with exclusive wall times.

PostgreSQL reports *inclusive* times per loop (``Actual Total Time`` in ms, averaged over
``Actual Loops``), so an operator's own time is its total minus what ran inside it:

- Below a Gather, the loops of all participating processes are counted together. The processes
  run in parallel, so their summed time is divided by their number (loops of the Gather's child
  per loop of the Gather): the average over processes. The Gather's own time is start-up, waiting
  for the slowest process, and tuple transfer.
- A SubPlan runs inside its parent, like a child.
- An InitPlan or a CTE has one parent but runs inside another operator, the first that needs it:
  the one whose expressions name its output, or the CTE Scans of its name. Its time is subtracted
  there.

Times are clipped at zero where the clock's rounding would make them negative; except for that,
they add up to the root's time. With planning, the start and end of the executor, and the time
in the client, they add up to the statement's time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from engines.postgres.connection import PostgresConnection
from harness import jsonfile
from harness.engine import SqlConnection
from harness.query_plan import ExecutedPlan, Operator, OperatorKind

_PREFIX = "EXPLAIN (ANALYZE, BUFFERS, SETTINGS, FORMAT JSON) "
#: From 19 on, with the requests of scans that read ahead.
_PREFIX_IO = "EXPLAIN (ANALYZE, BUFFERS, IO, SETTINGS, FORMAT JSON) "
_FIRST_WITH_IO = 190_000
_NS_PER_MS = 1e6
_NOTE = "own times are wall time; below a Gather they are averages over the participating processes"
_AGGREGATES = frozenset({"Aggregate", "Group", "WindowAgg", "Unique", "SetOp"})
_JOINS = frozenset({"Hash Join", "Merge Join", "Nested Loop", "Hash"})
_SORTS = frozenset({"Sort", "Incremental Sort"})
_RETURNS = re.compile(r"returns ([$\d,]+)")
_IO = {"I/O Count": "reads_count", "I/O Waits": "read_waits_count"}
_BUFFERS = ("Shared Hit", "Shared Read", "Temp Read", "Temp Written")


def explain(connection: SqlConnection, sql: str) -> ExecutedPlan:
    """Execute ``sql`` under EXPLAIN ANALYZE and translate its plan."""
    assert isinstance(connection, PostgresConnection)
    with_io = connection.raw.info.server_version >= _FIRST_WITH_IO
    result = connection.execute((_PREFIX_IO if with_io else _PREFIX) + sql)
    document: Any = result.rows[0][0]
    plan = document if isinstance(document, list) else jsonfile.parse(document)
    return translate(plan, result.duration_ns)


def translate(document: list[dict[str, Any]], duration_ns: int) -> ExecutedPlan:
    """An ExecutedPlan from EXPLAIN's JSON (``[{"Plan": …, "Execution Time": ms, …}]``).

    ``duration_ns`` is the client's, to be compared with that of the statement alone;
    the server's own planning and execution time is in ``extra``.
    """
    top = document[0]
    root = _node(top["Plan"], processes=1.0)
    _take_deferred(root)
    planning, execution = top.get("Planning Time", 0.0), top["Execution Time"]
    extra: dict[str, Any] = {
        "engine_duration_ns": round((planning + execution) * _NS_PER_MS),
        "planning_ns": round(planning * _NS_PER_MS),
        "execution_ns": round(execution * _NS_PER_MS),
        # Of the whole statement: the root's counts are inclusive.
        "buffers": {
            f"{name.lower().replace(' ', '_')}_blocks": int(top["Plan"].get(f"{name} Blocks", 0))
            for name in _BUFFERS
        },
        "settings": top.get("Settings", {}),
    }
    if io := _io(root):
        extra["io"] = io
    if "JIT" in top:
        extra["jit_ns"] = round(top["JIT"]["Timing"]["Total"] * _NS_PER_MS)
    return ExecutedPlan(
        operators=_operator(root),
        duration_ns=duration_ns,
        raw=json.dumps(document),
        note=_NOTE,
        extra=extra,
        outside_ns=_outside(root.total_ns, extra, duration_ns),
    )


def _outside(root_ns: float, extra: dict[str, Any], duration_ns: int) -> dict[str, int]:
    """The statement's time outside the operators."""
    return {
        "planning": extra["planning_ns"],
        "executor start and end": max(0, extra["execution_ns"] - round(root_ns)),
        "client": max(0, duration_ns - extra["engine_duration_ns"]),
    }


@dataclass
class _PlanNode:
    """A plan node whose times, in ns of wall time, are being attributed.

    ``deferred``: an InitPlan or CTE, which runs where its result is first needed. ``texts``: of
    its own expressions.
    """

    kind: str
    name: str
    subplan: str
    deferred: bool
    relation: str | None
    cte: str | None
    loops: float
    rows: float
    io: dict[str, int]
    evaluated: frozenset[str]
    texts: tuple[str, ...]
    total_ns: float
    own_ns: float
    children: list[_PlanNode] = field(default_factory=list)

    def walk(self) -> Iterator[_PlanNode]:
        yield self
        for child in self.children:
            yield from child.walk()


def _node(plan: dict[str, Any], processes: float) -> _PlanNode:
    """``processes``: number of processes that ran this node in parallel."""
    loops = float(plan.get("Actual Loops", 0))
    total = plan.get("Actual Total Time", 0.0) * loops * _NS_PER_MS / processes
    node = _PlanNode(
        kind=plan["Node Type"],
        name=_name(plan),
        subplan=str(plan.get("Subplan Name", "")),
        deferred=plan.get("Parent Relationship") == "InitPlan",
        relation=plan.get("Relation Name"),
        cte=plan.get("CTE Name"),
        loops=loops,
        rows=plan.get("Actual Rows", 0),
        io={key: plan.get(name, 0) for name, key in _IO.items()} if "I/O Count" in plan else {},
        evaluated=frozenset(plan.get("Params Evaluated", ())),
        texts=tuple(
            text
            for key, value in plan.items()
            if key not in ("Plans", "Subplan Name")
            for text in (value if isinstance(value, list) else [value])
            if isinstance(text, str)
        ),
        total_ns=total,
        own_ns=total,
    )
    for below in plan.get("Plans", ()):
        child = _node(below, _processes_below(node, below, processes))
        node.children.append(child)
        if not child.deferred:
            node.own_ns -= child.total_ns
    return node


def _processes_below(node: _PlanNode, below: dict[str, Any], processes: float) -> float:
    if below.get("Parent Relationship") == "InitPlan":
        return 1.0
    if not node.kind.startswith("Gather"):
        return processes
    return max(1.0, float(below.get("Actual Loops", 0)) / max(1.0, node.loops))


def _take_deferred(root: _PlanNode) -> None:
    """Subtract each InitPlan's time from the operators inside which it ran."""
    for owner in root.walk():
        for child in owner.children:
            if not child.deferred:
                continue
            left = child.total_ns
            for consumer in [*_consumers(root, child), owner]:
                taken = min(left, max(0.0, consumer.own_ns))
                consumer.own_ns -= taken
                left -= taken


def _consumers(root: _PlanNode, deferred: _PlanNode) -> list[_PlanNode]:
    """Nodes in which the result of an InitPlan or CTE is used, outermost Gather first.

    A Gather evaluates the parameters its workers need before it starts them.
    """
    name = deferred.subplan
    if name.startswith("CTE "):
        cte = name.removeprefix("CTE ")
        return [n for n in root.walk() if n.cte == cte]
    inside = {id(n) for n in deferred.walk()}
    outside = [n for n in root.walk() if id(n) not in inside]
    match = _RETURNS.search(name)
    outputs = match.group(1).split(",") if match else [f"({name})"]
    gathers = [n for n in outside if set(outputs) & n.evaluated]
    users = [n for n in outside if any(_names(n, output) for output in outputs)]
    return gathers or users


def _names(node: _PlanNode, output: str) -> bool:
    """Return whether an expression of the node itself mentions ``$0`` or ``(InitPlan 1)``."""
    pattern = re.compile(re.escape(output.rstrip(")")) + r"(?!\d)")
    return any(map(pattern.search, node.texts))


def _operator(node: _PlanNode) -> Operator:
    return Operator(
        kind=_kind(node.kind),
        name=node.name,
        rows=round(node.rows * node.loops),
        time_ns=max(0, round(node.own_ns)),
        relation=node.relation or node.cte,
        children=tuple(_operator(child) for child in node.children),
    )


def _kind(node_type: str) -> OperatorKind:
    if node_type.endswith("Scan") and node_type != "Subquery Scan":
        return "scan"
    if node_type in _JOINS:
        return "join"
    if node_type in _AGGREGATES:
        return "aggregate"
    return "sort" if node_type in _SORTS else "other"


def _name(plan: dict[str, Any]) -> str:
    """Node type with index, strategy and join type, if it has them."""
    parts = [plan["Node Type"]]
    if index := plan.get("Index Name"):
        parts.append(f"using {index}")
    strategy = plan.get("Strategy", "Plain")
    details = [] if strategy == "Plain" else [strategy]
    if (join := plan.get("Join Type", "Inner")) != "Inner":
        details.append(join)
    if (mode := plan.get("Partial Mode", "Simple")) != "Simple":
        details.append(mode)
    if subplan := plan.get("Subplan Name"):
        details.append(subplan)
    return " ".join(parts) + (f" ({', '.join(details)})" if details else "")


def _io(root: _PlanNode) -> dict[str, int]:
    """Read requests of all scans that read ahead, and those that a scan waited for.

    Each scan counts its own, its workers' included. Empty where the release counts none.
    """
    counts = [node.io for node in root.walk() if node.io]
    return {key: sum(count[key] for count in counts) for key in _IO.values()} if counts else {}
