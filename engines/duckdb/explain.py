"""DuckDB's EXPLAIN ANALYZE as neutral operators.

``operator_timing`` (here ``timing``) is an operator's own time, exclusive of its
children, summed over the threads that worked on it: CPU time rather than wall time,
so the sum over operators may exceed the statement's duration by up to the number of
threads. Waiting for I/O inside an operator is in its time.
"""

from __future__ import annotations

import json
from typing import Any

from harness.engine import SqlConnection
from harness.plan import ExecutedPlan, Operator, OperatorKind

_PREFIX = "EXPLAIN (ANALYZE, FORMAT json) "
_NS_PER_S = 1e9
_NOTE = "own times are summed over DuckDB's threads (CPU time with waiting for I/O inside)"
_KINDS: tuple[tuple[str, OperatorKind], ...] = (
    ("SCAN", "scan"), ("READ_", "scan"), ("JOIN", "join"), ("CROSS_PRODUCT", "join"),
    ("NESTED_LOOP", "join"), ("GROUP_BY", "aggregate"), ("AGGREGATE", "aggregate"),
    ("WINDOW", "aggregate"), ("ORDER_BY", "sort"), ("TOP_N", "sort"),
)  # fmt: skip
#: Operators of EXPLAIN ANALYZE itself, not of the statement.
_WRAPPERS = frozenset({"RESULT_COLLECTOR", "EXPLAIN_ANALYZE"})
#: They read what another operator has made, not a table.
_NOT_TABLES = frozenset({"COLUMN_DATA_SCAN", "DELIM_SCAN", "DUMMY_SCAN", "EMPTY_RESULT"})


def explain(connection: SqlConnection, sql: str) -> ExecutedPlan:
    """Execute ``sql`` under EXPLAIN ANALYZE and translate its plan."""
    result = connection.execute(_PREFIX + sql)
    return translate(str(result.rows[0][1]), result.duration_ns)


def translate(text: str, duration_ns: int) -> ExecutedPlan:
    """An ExecutedPlan from the profiler's JSON (``{"query": …, "operator": [{…}], …}``).

    ``duration_ns`` is the client's, to be compared with that of the statement alone;
    DuckDB's own total is in ``extra``.
    """
    document = json.loads(text)
    query = document["query"]
    extra = {
        "engine_duration_ns": round(query["total_time"] * _NS_PER_S),
        "cpu_ns": round(query["cpu_time"] * _NS_PER_S),
        "rows_scanned": int(query["total_rows_scanned"]),
        "row_groups_scanned": int(query["total_row_groups_scanned"]),
        "bytes_read": int(document["io"]["total_bytes_read"]),
        "bytes_written": int(document["io"]["total_bytes_written"]),
        "peak_memory_bytes": int(document["system"]["peak_buffer_memory"]),
        "peak_temp_bytes": int(document["system"]["peak_temp_dir_size"]),
    }
    return ExecutedPlan(
        root=_operator(_statement(document["operator"][0])),
        duration_ns=duration_ns,
        raw=text,
        note=_NOTE,
        clock="cpu",
        extra=extra,
    )


def _statement(node: dict[str, Any]) -> dict[str, Any]:
    while node["type"] in _WRAPPERS and len(node.get("children", ())) == 1:
        node = node["children"][0]
    return node


def _operator(node: dict[str, Any]) -> Operator:
    table = node.get("extra_info", {}).get("Table")
    return Operator(
        kind=_kind(node["type"]),
        name=_name(node),
        rows=int(node["intermediate_rows"]),
        time_ns=round(node["timing"] * _NS_PER_S),
        relation=str(table).rsplit(".", 1)[-1] if table else None,
        children=tuple(_operator(child) for child in node.get("children", ())),
    )


def _kind(operator: str) -> OperatorKind:
    if operator in _NOT_TABLES:
        return "other"
    return next((kind for part, kind in _KINDS if part in operator), "other")


def _name(node: dict[str, Any]) -> str:
    info = node.get("extra_info", {})
    details = [d for key in ("Join Type", "Type") if isinstance(d := info.get(key), str)]
    return str(node["type"]) + (f" ({', '.join(details)})" if details else "")
