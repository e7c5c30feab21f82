"""Metrics of stored query plans that papers print; all times are those of the profiled execution.

=======================  ===================================================================
``table_read_ns``        of a relation: reading its rows, without the filter where the engine
                         executes that as an operator of its own (MySQL, MariaDB)
``index_lookup_ns``      of a relation: its index lookups' time over their number, where the
                         engine counts lookups (MySQL, MariaDB), by kind of the index
``index_lookup_rows``    of a relation: the rows that its index lookups return, over their number
``plan_behind_scan_ns``  of a query: all operators that are no scan; nothing outside operators
=======================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from harness.query_plan import Operator
from harness.store.runs import StoredRun, once_a_run
from reports.values import Quantity, Summary, summarise

TABLE_READ, INDEX_LOOKUP, LOOKUP_ROWS = "table_read_ns", "index_lookup_ns", "index_lookup_rows"
BEHIND_SCAN = "plan_behind_scan_ns"
PLAN_METRICS = frozenset({TABLE_READ, INDEX_LOOKUP, LOOKUP_ROWS, BEHIND_SCAN})


def plan_summaries(runs: Iterable[StoredRun], metric: str) -> dict[Quantity, Summary]:
    """Median and range over the runs' plans, of every label set of one of ``PLAN_METRICS``."""
    values: dict[Quantity, list[float]] = {}
    if metric in PLAN_METRICS:
        for run in runs:
            for quantity, value in _of_run(run).items():
                if quantity.name == metric:
                    values.setdefault(quantity, []).append(value)
    return {quantity: summary for quantity, v in values.items() if (summary := summarise(v))}


@once_a_run
def _of_run(run: StoredRun) -> Mapping[Quantity, float]:
    metrics: dict[Quantity, float] = {}
    for query, document in (run.artifact("plans") or {}).items():
        metrics |= plan_metrics(query, msgspec.convert(document["operators"], Operator))
    return metrics


def plan_metrics(query: str, root: Operator) -> dict[Quantity, float]:
    """Return the metrics of an executed plan; times in ns."""
    operators = list(root.walk())
    later_ns = sum(operator.time_ns for operator in operators if operator.kind != "scan")
    metrics = {Quantity(BEHIND_SCAN, (("query", query),)): float(later_ns)}
    reads: dict[str, float] = {}
    lookups: dict[tuple[str, str], tuple[float, int, int]] = {}
    for operator in operators:
        relation = operator.relation
        if operator.kind != "scan" or relation is None:
            continue
        if operator.lookups:
            by = relation, operator.index
            time_ns, rows, count = lookups.get(by, (0.0, 0, 0))
            lookups[by] = (
                time_ns + operator.time_ns,
                rows + operator.rows,
                count + operator.lookups,
            )
        else:
            reads[relation] = reads.get(relation, 0.0) + operator.time_ns
    for relation, time_ns in reads.items():
        metrics[_of_relation(TABLE_READ, query, relation)] = time_ns
    for (relation, index), (time_ns, rows, count) in lookups.items():
        metrics[_of_relation(INDEX_LOOKUP, query, relation, index)] = time_ns / count
        metrics[_of_relation(LOOKUP_ROWS, query, relation, index)] = rows / count
    return metrics


def _of_relation(name: str, query: str, relation: str, index: str = "") -> Quantity:
    kind = (("index", index),) if index else ()
    return Quantity(name, (*kind, ("query", query), ("relation", relation)))
