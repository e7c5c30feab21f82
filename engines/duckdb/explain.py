"""DuckDB's EXPLAIN ANALYZE as neutral operators.

``operator_timing`` (here ``timing``) is an operator's own time, exclusive of its children, summed
over its threads: CPU time rather than wall time (including waits for I/O), so that the sum over
operators is up to the number of threads times the statement's duration. For comparison with wall
times, it is divided by the average number of active threads while the plan ran, which is the sum
divided by the plan's wall time. Below one thread, nothing is divided, and the rest is time without
an active thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness import jsonfile
from harness.engine import SqlConnection
from harness.query_plan import ExecutedPlan, Operator, OperatorKind
from harness.units import NS_PER_S

_PREFIX = "EXPLAIN (ANALYZE, FORMAT json) "
_NOTE = "own times are CPU time (with waiting for I/O) over the {:.2f} threads at work on average"
_KINDS: tuple[tuple[str, OperatorKind], ...] = (
    ("SCAN", "scan"),
    ("READ_", "scan"),
    ("JOIN", "join"),
    ("CROSS_PRODUCT", "join"),
    ("NESTED_LOOP", "join"),
    ("GROUP_BY", "aggregate"),
    ("AGGREGATE", "aggregate"),
    ("WINDOW", "aggregate"),
    ("ORDER_BY", "sort"),
    ("TOP_N", "sort"),
)
#: Operators of EXPLAIN ANALYZE itself, not of the statement.
_WRAPPERS = frozenset({"RESULT_COLLECTOR", "EXPLAIN_ANALYZE"})
#: They read the output of another operator, not a table.
_NOT_TABLES = frozenset(
    {"COLUMN_DATA_SCAN", "CTE_SCAN", "DELIM_SCAN", "DUMMY_SCAN", "EMPTY_RESULT"}
)


def explain(connection: SqlConnection, sql: str) -> ExecutedPlan:
    """Execute ``sql`` under EXPLAIN ANALYZE and translate its plan."""
    result = connection.execute(_PREFIX + sql)
    return translate(str(result.rows[0][1]), result.duration_ns)


def translate(text: str, duration_ns: int) -> ExecutedPlan:
    """An ExecutedPlan from the profiler's JSON (``{"query": …, "operator": [{…}], …}``).

    ``duration_ns`` is the client's, to be compared with that of the statement alone;
    DuckDB's own total is in ``extra``.
    """
    document = jsonfile.parse(text)
    query = document["query"]
    extra = {
        "engine_duration_ns": round(query["total_time"] * NS_PER_S),
        "cpu_ns": round(query["cpu_time"] * NS_PER_S),
        "rows_scanned": int(query["total_rows_scanned"]),
        "row_groups_scanned": int(query["total_row_groups_scanned"]),
        "bytes_read": int(document["io"]["total_bytes_read"]),
        "bytes_written": int(document["io"]["total_bytes_written"]),
        "peak_memory_bytes": int(document["system"]["peak_buffer_memory"]),
        "peak_temp_bytes": int(document["system"]["peak_temp_dir_size"]),
    }
    statement = _statement(document["operator"][0])
    # Parsing is negligible.
    parts = ("planner", "optimizer", "physical_planner")
    planning_ns = round(sum(float(document[part]["total_time"]) for part in parts) * NS_PER_S)
    running_ns = max(0, extra["engine_duration_ns"] - planning_ns)
    busy_ns = round(_timing_s(statement) * NS_PER_S)
    threads = max(1.0, busy_ns / running_ns) if running_ns else 1.0
    return ExecutedPlan(
        operators=_operator(statement, threads),
        duration_ns=duration_ns,
        raw=text,
        note=_NOTE.format(threads),
        clock="scaled",
        extra=extra | {"threads_at_work": threads},
        outside_ns={
            "planning": planning_ns,
            "no thread at work": max(0, running_ns - busy_ns),
            "client": max(0, duration_ns - extra["engine_duration_ns"]),
        },
    )


def _timing_s(node: Mapping[str, Any]) -> float:
    """Seconds of the operator and all operators below it."""
    return float(node["timing"]) + sum(_timing_s(child) for child in node.get("children", ()))


def _statement(node: dict[str, Any]) -> dict[str, Any]:
    while node["type"] in _WRAPPERS and len(node.get("children", ())) == 1:
        node = node["children"][0]
    return node


def _operator(node: dict[str, Any], threads: float) -> Operator:
    table = node.get("extra_info", {}).get("Table")
    return Operator(
        kind=_kind(node["type"]),
        name=_name(node),
        rows=int(node["intermediate_rows"]),
        time_ns=round(node["timing"] * NS_PER_S / threads),
        relation=str(table).rsplit(".", 1)[-1] if table else None,
        children=tuple(_operator(child, threads) for child in node.get("children", ())),
    )


def _kind(operator: str) -> OperatorKind:
    if operator in _NOT_TABLES:
        return "other"
    return next((kind for part, kind in _KINDS if part in operator), "other")


def _name(node: dict[str, Any]) -> str:
    info = node.get("extra_info", {})
    details = [d for key in ("Join Type", "Type") if isinstance(d := info.get(key), str)]
    return str(node["type"]) + (f" ({', '.join(details)})" if details else "")
