"""Costs of single operators, read from the plans that a run stored: what papers print of them.

The times are those of the profiled execution, as the engine reports them (``harness.query_plan``).
They are only listed next to a paper's numbers: shares of a query's time are in
``reports.query_breakdown``.

======================  ====================================================================
``table_read_ns``       of a relation: reading its rows, without the filter where the engine
                        executes that as an operator of its own (MySQL, MariaDB)
``index_lookup_ns``     of a relation: its index lookups' time over their number, where the
                        engine counts lookups (MySQL, MariaDB)
``plan_behind_scan_ns``  of a query: all operators that are no scan; nothing outside operators
======================  ====================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from harness.store.runs import StoredRun
from reports.values import Quantity, Summary, summarise

TABLE_READ, INDEX_LOOKUP = "table_read_ns", "index_lookup_ns"
BEHIND_SCAN = "plan_behind_scan_ns"
PLAN_METRICS = frozenset({TABLE_READ, INDEX_LOOKUP, BEHIND_SCAN})


def plan_summaries(runs: Iterable[StoredRun], metric: str) -> dict[Quantity, Summary]:
    """Median and range over the runs' plans, of every label set of one of ``PLAN_METRICS``."""
    found: dict[Quantity, list[float]] = {}
    if metric in PLAN_METRICS:
        for run in runs:
            for quantity, value in _of_run(run).items():
                if quantity.name == metric:
                    found.setdefault(quantity, []).append(value)
    return {quantity: one for quantity, v in found.items() if (one := summarise(v))}


@lru_cache(maxsize=64)
def _of_run(run: StoredRun) -> Mapping[Quantity, float]:
    plans: Mapping[str, Any] = run.artifact("plans") or {}
    found: dict[Quantity, float] = {}
    for query, document in plans.items():
        found |= plan_metrics(query, document)
    return found


def plan_metrics(query: str, document: Mapping[str, Any]) -> dict[Quantity, float]:
    """Of a stored plan (``ExecutedPlan.to_json``), in ns."""
    operators = list(_walk(document["operators"]))
    later_ns = sum(one["time_ns"] for one in operators if one["kind"] != "scan")
    found = {Quantity(BEHIND_SCAN, (("query", query),)): float(later_ns)}
    reads: dict[str, float] = {}
    lookups: dict[str, tuple[float, int]] = {}
    for one in operators:
        relation = one["relation"]
        if one["kind"] != "scan" or relation is None:
            continue
        if one["lookups"]:
            time_ns, count = lookups.get(relation, (0.0, 0))
            lookups[relation] = time_ns + one["time_ns"], count + one["lookups"]
        else:
            reads[relation] = reads.get(relation, 0.0) + one["time_ns"]
    for relation, time_ns in reads.items():
        found[_of_relation(TABLE_READ, query, relation)] = time_ns
    for relation, (time_ns, count) in lookups.items():
        found[_of_relation(INDEX_LOOKUP, query, relation)] = time_ns / count
    return found


def _of_relation(name: str, query: str, relation: str) -> Quantity:
    return Quantity(name, (("query", query), ("relation", relation)))


def _walk(operator: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield operator
    for child in operator["children"]:
        yield from _walk(child)
