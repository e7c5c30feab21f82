"""MariaDB's ANALYZE FORMAT=JSON.

MariaDB measures three things, all as wall time: reading each table (``r_table_time_ms``), the
work on its rows before the next table is read (``r_other_time_ms``: testing conditions and, after
the last table, building the result, including grouping), and sorts. The first two are exclusive
and omit what runs in between, such as a subquery. A sort's time includes the reading and
evaluation of the operators below it; the rest is the sort's own. The remainder of the whole
statement's ``r_total_time_ms`` is attributed to the query block. So joins and grouping cannot be
distinguished from testing conditions: all three are in ``other``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engines._innodb.connection import MySqlConnection
from harness import jsonfile
from harness.query_plan import ExecutedPlan, Operator, OperatorKind

_NS_PER_MS = 1e6
_NOTE = (
    "own times are wall time; MariaDB does not distinguish joins and grouping from testing "
    "conditions: they are in other"
)
_NAMED: Mapping[str, tuple[OperatorKind, str]] = {
    "block-nl-join": ("join", "block nested loop join"),
    "duplicates_removal": ("aggregate", "duplicates removal"),
    "filesort": ("sort", "filesort"),
    "nested_loop": ("join", "nested loop join"),
    "query_block": ("other", "query block"),
    "temporary_table": ("other", "temporary table"),
    "union_result": ("other", "union"),
    "window_functions_computation": ("aggregate", "window functions"),
}
#: Access types of which every loop is one index lookup.
_LOOKUPS = ("eq_ref", "ref", "ref_or_null")
_OWN_TIMES = ("r_unpack_time_ms", "r_other_time_ms")


def explain(connection: MySqlConnection, sql: str) -> ExecutedPlan:
    """Execute ``sql`` with profiling and translate its plan."""
    result = connection.execute("ANALYZE FORMAT=JSON " + sql)
    return translate(str(result.rows[0][0]), result.duration_ns)


def translate(text: str, duration_ns: int) -> ExecutedPlan:
    """An ExecutedPlan of ``{"query_optimization": {…}, "query_block": {…}}``.

    ``duration_ns`` is the client's; the server's total is in ``extra``.
    """
    document = jsonfile.parse(text)
    block = document["query_block"]
    root = _node("query_block", block)
    total_ms = float(block.get("r_total_time_ms") or 0)
    _divide(root, total_ms)
    planning_ms = float(document.get("query_optimization", {}).get("r_total_time_ms") or 0)
    planning_ns = round(planning_ms * _NS_PER_MS)
    total_ns = round(total_ms * _NS_PER_MS)
    return ExecutedPlan(
        operators=root.operator(),
        duration_ns=duration_ns,
        raw=text,
        note=_NOTE,
        extra={"engine_duration_ns": total_ns + planning_ns, "planning_ns": planning_ns},
        outside_ns={
            "planning": planning_ns,
            "client": max(0, duration_ns - total_ns - planning_ns),
        },
    )


@dataclass
class _Node:
    """An operator whose times, in ms, are being attributed."""

    kind: OperatorKind
    name: str
    own_ms: float = 0.0
    rows: int = 0
    relation: str | None = None
    lookups: int = 0
    #: A sort's time, including or excluding its inputs.
    sort_ms: float = 0.0
    children: list[_Node] = field(default_factory=list)

    def walk(self) -> Iterator[_Node]:
        for child in self.children:
            yield from child.walk()
        yield self

    def operator(self) -> Operator:
        return Operator(
            kind=self.kind,
            name=self.name,
            rows=self.rows,
            time_ns=max(0, round(self.own_ms * _NS_PER_MS)),
            relation=self.relation,
            children=tuple(child.operator() for child in self.children),
            lookups=self.lookups,
        )


def _divide(root: _Node, total_ms: float) -> None:
    """Attribute sorts their own time and the root the remaining time."""
    left = max(0.0, total_ms - sum(node.own_ms for node in root.walk()))
    for node in root.walk():
        if not node.sort_ms:
            continue
        below = sum(n.own_ms for n in node.walk())
        own = node.sort_ms - below if node.sort_ms >= below else node.sort_ms
        node.own_ms = min(own, left)
        left -= node.own_ms
    root.own_ms += left


def _inputs(holder: Mapping[str, Any]) -> list[_Node]:
    """The operators directly below; other keys are searched recursively."""
    found: list[_Node] = []
    for key, value in holder.items():
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict):
                continue
            if key == "table":
                found.append(_table(item))
            elif key in _NAMED and key != "nested_loop":
                found.append(_node(key, item))
            else:
                found += _inputs(item)
        if key == "nested_loop" and len(value) > 1:
            joined = found[-len(value) :]
            found[-len(value) :] = [_Node(*_NAMED[key], children=joined)]
    return found


def _node(key: str, holder: Mapping[str, Any]) -> _Node:
    kind, name = _NAMED[key]
    if "select_id" in holder:
        name = f"{name} {holder['select_id']}"
    node = _Node(kind, name, children=_inputs(holder))
    if kind == "sort":
        node.sort_ms = float(holder.get("r_total_time_ms") or 0)
        node.rows = round(float(holder.get("r_output_rows") or 0))
    else:
        node.own_ms = sum(float(holder.get(time) or 0) for time in _OWN_TIMES)
    return node


def _table(table: Mapping[str, Any]) -> _Node:
    """The work on a table's rows, above the reading of the table."""
    name = str(table.get("table_name", "no table"))
    access = str(table.get("access_type", ""))
    loops = float(table.get("r_loops") or 0)
    lookups = round(loops) if access in _LOOKUPS else 0
    if key := table.get("key"):
        access += f" using {key}"
    rows = round(float(table.get("r_rows") or 0) * loops)
    derived = name.startswith("<")
    reading = _Node(
        "other" if derived else "scan",
        f"{access} on {name}" if derived else access,
        own_ms=float(table.get("r_table_time_ms") or 0),
        rows=rows,
        relation=None if derived else name,
        lookups=lookups,
        children=_inputs(table),
    )
    filtered = float(table.get("r_filtered") or 0) / 100
    return _Node(
        "other",
        f"rows of {name}",
        own_ms=float(table.get("r_other_time_ms") or 0),
        rows=round(rows * filtered),
        children=[reading],
    )
