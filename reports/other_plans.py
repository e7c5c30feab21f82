"""Queries that were executed by another plan on each side of a comparison.

A query whose plan differs is not the same work on both sides: its ratio is of the plans, too. Plans
are compared by what their operators are and what they read, in their order: times, and numbers of
rows and of workers, vary from run to run. A side that chose several plans has another plan where it
shares none of them with the other side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from harness.query_plan import Operator
from harness.store.runs import StoredRun, once_a_run
from reports.labels import query_name
from reports.values import natural

#: Kind, name and relation of an operator, the index that it uses, and its inputs.
_Shape: TypeAlias = tuple[str, str, str | None, str, tuple["_Shape", ...]]
#: Most queries that are named.
_MOST_NAMED = 8


def other_plans(a: Sequence[StoredRun], b: Sequence[StoredRun]) -> tuple[str, ...]:
    """Return the queries of which no run of B has a plan that a run of A has.

    None of different engines, whose operators have other names.
    """
    if len({run.spec.engine for run in (*a, *b)}) != 1:
        return ()
    of_a, of_b = _by_query(a), _by_query(b)
    return tuple(q for q in sorted(of_a.keys() & of_b.keys(), key=natural) if not of_a[q] & of_b[q])


def other_plans_text(queries: Sequence[str]) -> str:
    """``other plan in Q9``, ``other plans in Q9 and Q18``; empty without any."""
    if not queries:
        return ""
    names = [query_name(query) for query in queries[:_MOST_NAMED]]
    if more := len(queries) - len(names):
        names.append(f"{more} more")
    noun = "plan" if len(queries) == 1 else "plans"
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"other {noun} in {listed}"


def _by_query(runs: Sequence[StoredRun]) -> Mapping[str, set[_Shape]]:
    shapes: dict[str, set[_Shape]] = {}
    for run in runs:
        for query, shape in _shapes(run).items():
            shapes.setdefault(query, set()).add(shape)
    return shapes


@once_a_run
def _shapes(run: StoredRun) -> Mapping[str, _Shape]:
    return {
        query: _shape(msgspec.convert(document["operators"], Operator))
        for query, document in (run.artifact("plans") or {}).items()
    }


def _shape(operator: Operator) -> _Shape:
    below = tuple(map(_shape, operator.children))
    return operator.kind, operator.name, operator.relation, operator.index, below
