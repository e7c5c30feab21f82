"""MySQL's EXPLAIN ANALYZE: a tree of iterators.

Times are *inclusive* and per loop (``actual_last_row_ms``: from an iterator's start to its
last row, averaged over ``actual_loops``), so an operator's own time is its total minus that of
its inputs. Everything runs in one thread, and a subquery is an input of the operator whose
condition uses it: the own times add up to the root's total. The rest of the execution time is
outside the operators: planning, and writing the plan. Every row of every operator reads the clock
twice, which makes plans with many rows slower than the query.

======================  =====================================================
release                 statement
======================  =====================================================
MySQL from 8.3          ``EXPLAIN ANALYZE FORMAT=JSON`` (second JSON version)
MySQL 8.0.18 to 8.2     ``EXPLAIN ANALYZE FORMAT=TREE``: text, rounded to three digits
MySQL before 8.0.18     none: CannotExplain
======================  =====================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from engines._innodb.connection import MySqlConnection
from harness import jsonfile
from harness.engine import CannotExplain
from harness.query_plan import ExecutedPlan, IndexKind, Operator, OperatorKind

_FIRST_WITH_ANALYZE = (8, 0, 18)
_FIRST_WITH_JSON = (8, 3)
_RELEASE = re.compile(r"\d+(?:\.\d+)+")
_NS_PER_MS = 1e6
_NOTE = "own times are wall time; reading the clock for every row of every operator is in them"
#: By the first words of an operation; an operation on another operator's rows is not a scan.
_KINDS: Sequence[tuple[re.Pattern[str], OperatorKind]] = (
    (re.compile(r"\b(anti|semi)?join\b"), "join"),
    (re.compile(r"^(sort|remove duplicates from input sorted)\b"), "sort"),
    (re.compile(r"aggregate|^(count|window|deduplicate|remove duplicate)"), "aggregate"),
    (re.compile(r"\b(scan|lookup|search)\b|^(constant row|rows fetched)"), "scan"),
)
_DETAIL = re.compile(r":| over | \((?!no condition)")
_LINE = re.compile(
    r"^(?P<indent> *)-> (?P<operation>.*?)"
    r"(?:  \(cost=[^)]*\))?"
    r"(?: +\(actual time=(?P<first>[\d.e+-]+?)\.\.(?P<last>[\d.e+-]+) "
    r"rows=(?P<rows>[\d.e+-]+) loops=(?P<loops>\d+)\)| +\((?P<never>never executed)\))?$"
)
_INDENT = 4
#: InnoDB keeps the rows in this index's tree; other indexes have its key.
_CLUSTERED = "PRIMARY"
_USING = re.compile(r" using (?P<index>\S+)")
_RELATION = re.compile(r" on (?P<table>[^<\s]\S*)")


def explain_mysql(connection: MySqlConnection, sql: str) -> ExecutedPlan:
    """Execute ``sql`` with profiling and translate its plan; CannotExplain on old releases."""
    info: Any = connection.raw.get_server_info()  # type: ignore[no-untyped-call]
    match = _RELEASE.search(str(info))
    release = tuple(map(int, match[0].split("."))) if match else ()
    if release < _FIRST_WITH_ANALYZE:
        raise CannotExplain(
            f"MySQL {'.'.join(map(str, release))} has no EXPLAIN ANALYZE: it was added in 8.0.18"
        )
    if release < _FIRST_WITH_JSON:
        result = connection.execute("EXPLAIN ANALYZE FORMAT=TREE " + sql)
        return translate_tree(str(result.rows[0][0]), result.duration_ns)
    connection.run("SET SESSION explain_json_format_version = 2")
    result = connection.execute("EXPLAIN ANALYZE FORMAT=JSON " + sql)
    return translate_json(str(result.rows[0][0]), result.duration_ns)


@dataclass
class _Iterator:
    """A node of either format. ``last_row_ms``: of each loop; None for a heading without times."""

    operation: str
    last_row_ms: float | None = None
    rows: float = 0
    loops: float = 0
    table: str | None = None
    #: What it is a subquery of.
    heading: str | None = None
    inputs: list[_Iterator] = field(default_factory=list)

    @property
    def total_ms(self) -> float:
        """The total over all loops; for a heading without times, that of its inputs."""
        if self.last_row_ms is None:
            return sum(node.total_ms for node in self.inputs)
        return self.last_row_ms * self.loops


def translate_json(text: str, duration_ns: int) -> ExecutedPlan:
    """An ExecutedPlan of the JSON format's second version (``{"query_plan": {…}, …}``).

    ``duration_ns`` is the client's; the server's total is in ``extra``.
    """
    return _plan(_read(jsonfile.parse(text)["query_plan"]), text, "json", duration_ns)


def translate_tree(text: str, duration_ns: int) -> ExecutedPlan:
    """An ExecutedPlan of the indented text."""
    return _plan(_parse(text), text, "text", duration_ns)


def _plan(
    root: _Iterator, raw: str, form: Literal["json", "text"], duration_ns: int
) -> ExecutedPlan:
    total_ns = round(root.total_ms * _NS_PER_MS)
    return ExecutedPlan(
        operators=_operator(root),
        duration_ns=duration_ns,
        raw=raw,
        raw_format=form,
        note=_NOTE,
        extra={"engine_duration_ns": total_ns},
        outside_ns={"planning and client": max(0, duration_ns - total_ns)},
    )


def _read(node: dict[str, Any]) -> _Iterator:
    return _Iterator(
        node["operation"],
        float(node["actual_last_row_ms"] or 0) if "actual_last_row_ms" in node else None,
        node.get("actual_rows") or 0,
        node.get("actual_loops") or 0,
        node.get("table_name"),
        node.get("heading") if node.get("subquery") else None,
        [_read(child) for child in node.get("inputs", ())],
    )


def _operator(node: _Iterator) -> Operator:
    own_ms = node.total_ms - sum(child.total_ms for child in node.inputs)
    children = tuple(_operator(child) for child in node.inputs)
    name = _DETAIL.split(node.operation, maxsplit=1)[0].strip()
    return Operator(
        kind=_kind(node.operation, children),
        name=name if node.heading is None else f"{name} ({node.heading})",
        rows=round(node.rows * node.loops),
        time_ns=max(0, round(own_ms * _NS_PER_MS)),
        relation=node.table if node.table and not node.table.startswith("<") else None,
        children=children,
        lookups=round(node.loops) if (lookup := _is_lookup(node.operation)) else 0,
        index=_index(node.operation) if lookup else "",
    )


def _index(operation: str) -> IndexKind:
    using = _USING.search(operation)
    if using is None:
        return ""
    if using["index"] == _CLUSTERED:
        return "clustered"
    return "covering" if "covering index" in operation.lower() else "secondary"


def _is_lookup(operation: str) -> bool:
    """Return whether each loop is one lookup. A multi-range lookup's loop is a batch of them."""
    head = _DETAIL.split(operation.lower(), maxsplit=1)[0]
    return " lookup on " in head and not head.startswith("multi-range")


def _kind(operation: str, children: Sequence[Operator]) -> OperatorKind:
    words = operation.lower()
    if words.startswith("filter"):  # on a table's own rows: other engines do it in the scan
        return "scan" if children and children[0].kind == "scan" else "other"
    head = _DETAIL.split(words, maxsplit=1)[0]
    for pattern, kind in _KINDS:
        if pattern.search(head):
            return "other" if kind == "scan" and (children or "<" in head) else kind
    return "other"


def _parse(text: str) -> _Iterator:
    """Return the root of the indented text."""
    above = [_Iterator("Result")]
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:  # the rest of a condition with a line break
            continue
        depth = len(match["indent"]) // _INDENT + 1
        node = _Iterator(match["operation"])
        if match["last"] or match["never"]:
            node.last_row_ms = float(match["last"] or 0)
            node.rows, node.loops = float(match["rows"] or 0), int(match["loops"] or 0)
        if (relation := _RELATION.search(node.operation)) and _kind(node.operation, ()) == "scan":
            node.table = relation["table"]
        del above[depth:]
        above[-1].inputs.append(node)
        above.append(node)
    roots = above[0].inputs
    return roots[0] if len(roots) == 1 else above[0]


# MariaDB's ANALYZE FORMAT=JSON ----------------------------------------------------
#
# MariaDB measures three things, all as wall time: reading each table (``r_table_time_ms``), the
# work on its rows before the next table is read (``r_other_time_ms``: testing conditions and,
# after the last table, building the result, including grouping), and sorts. The first two are
# exclusive and omit what runs in between, such as a subquery. A sort's time includes the reading
# and evaluation of the operators below it; the rest is the sort's own. The remainder of the whole
# statement's ``r_total_time_ms`` is attributed to the query block. So joins and grouping cannot be
# distinguished from testing conditions: all three are in ``other``.

_MARIADB_NOTE = (
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


def explain_mariadb(connection: MySqlConnection, sql: str) -> ExecutedPlan:
    """Execute ``sql`` with profiling and translate its plan."""
    result = connection.execute("ANALYZE FORMAT=JSON " + sql)
    return translate_mariadb(str(result.rows[0][0]), result.duration_ns)


def translate_mariadb(text: str, duration_ns: int) -> ExecutedPlan:
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
        note=_MARIADB_NOTE,
        extra={"engine_duration_ns": total_ns + planning_ns, "planning_ns": planning_ns},
        outside_ns={
            "planning": planning_ns,
            "client": max(0, duration_ns - total_ns - planning_ns),
        },
    )


@dataclass
class _PlanNode:
    """An operator whose times, in ms, are being attributed."""

    kind: OperatorKind
    name: str
    own_ms: float = 0.0
    rows: int = 0
    relation: str | None = None
    lookups: int = 0
    index: IndexKind = ""
    #: A sort's time, including or excluding its inputs.
    sort_ms: float = 0.0
    children: list[_PlanNode] = field(default_factory=list)

    def walk(self) -> Iterator[_PlanNode]:
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
            index=self.index,
        )


def _divide(root: _PlanNode, total_ms: float) -> None:
    """Attribute sorts their own time and the root the remaining time."""
    left = max(0.0, total_ms - sum(node.own_ms for node in root.walk()))
    for node in root.walk():
        if not node.sort_ms:
            continue
        below = sum(n.own_ms for n in node.walk())
        own_ms = node.sort_ms - below if node.sort_ms >= below else node.sort_ms
        node.own_ms = min(own_ms, left)
        left -= node.own_ms
    root.own_ms += left


def _inputs(holder: Mapping[str, Any]) -> list[_PlanNode]:
    """The operators directly below; other keys are searched recursively."""
    nodes: list[_PlanNode] = []
    for key, value in holder.items():
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict):
                continue
            if key == "table":
                nodes.append(_table(item))
            elif key in _NAMED and key != "nested_loop":
                nodes.append(_node(key, item))
            else:
                nodes += _inputs(item)
        if key == "nested_loop" and len(value) > 1:
            joined = nodes[-len(value) :]
            nodes[-len(value) :] = [_PlanNode(*_NAMED[key], children=joined)]
    return nodes


def _node(key: str, holder: Mapping[str, Any]) -> _PlanNode:
    kind, name = _NAMED[key]
    if "select_id" in holder:
        name = f"{name} {holder['select_id']}"
    node = _PlanNode(kind, name, children=_inputs(holder))
    if kind == "sort":
        node.sort_ms = float(holder.get("r_total_time_ms") or 0)
        node.rows = round(float(holder.get("r_output_rows") or 0))
    else:
        node.own_ms = sum(float(holder.get(time) or 0) for time in _OWN_TIMES)
    return node


def _table(table: Mapping[str, Any]) -> _PlanNode:
    """The work on a table's rows, above the reading of the table."""
    name = str(table.get("table_name", "no table"))
    access = str(table.get("access_type", ""))
    loops = float(table.get("r_loops") or 0)
    lookups = round(loops) if access in _LOOKUPS else 0
    if key := table.get("key"):
        access += f" using {key}"
    rows = round(float(table.get("r_rows") or 0) * loops)
    derived = name.startswith("<")
    reading = _PlanNode(
        "other" if derived else "scan",
        f"{access} on {name}" if derived else access,
        own_ms=float(table.get("r_table_time_ms") or 0),
        rows=rows,
        relation=None if derived else name,
        lookups=lookups,
        index=_kind_of_key(table) if lookups else "",
        children=_inputs(table),
    )
    filtered = float(table.get("r_filtered") or 0) / 100
    return _PlanNode(
        "other",
        f"rows of {name}",
        own_ms=float(table.get("r_other_time_ms") or 0),
        rows=round(rows * filtered),
        children=[reading],
    )


def _kind_of_key(table: Mapping[str, Any]) -> IndexKind:
    if table.get("key") == _CLUSTERED:
        return "clustered"
    return "covering" if table.get("using_index") else "secondary"
