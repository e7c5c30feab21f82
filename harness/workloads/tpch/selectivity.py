"""Query 6 with a chosen share of lineitem: the variant of the VLDB 2023 paper's Fig 4.

The paper widens the interval of l_shipdate and keeps nothing else of the query's
predicates, so that the sum runs over 15 to 87 % of the table (§4.2; the dates are those
of its published queries). ``q6_dates: [from, to]`` gives the interval, ``to`` excluded.
What share it selects is measured, never taken from here.

===== ======================= ==========================
paper interval                measured at scale factor 1
===== ======================= ==========================
15 %  1994-01-01, 1995-01-01  15.15 %
30 %  1994-01-01, 1996-01-01  30.40 %
45 %  1994-01-01, 1997-01-01  45.62 %
60 %  1994-01-01, 1998-01-01  60.81 %
72 %  1994-01-01, 1999-01-01  72.25 %
87 %  1993-01-01, 1999-01-01  87.40 %
===== ======================= ==========================
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.engine import RunsSql
from harness.errors import RunFailed
from harness.store.result import Metric
from harness.workloads.tpch.params import VARIANT_QUERY, TpchParams
from harness.workloads.tpch.qgen import Values, parameters
from harness.workloads.tpch.sql import other_sql


def query_values(
    query: int, seed: int | None, scale: float, dates: Sequence[str] | None = None
) -> Values:
    """The parameters of a query as qgen has them; those of the variant for query 6 with dates."""
    if query == VARIANT_QUERY and dates:
        return {"date": dates[0], "until": dates[1]}
    return parameters(query, seed, scale)


def selected_metrics(params: TpchParams, engine: RunsSql) -> list[Metric]:
    """``query_selected_fraction`` of the variant, counted by the engine in its data."""
    dates = params.q6_dates
    if not dates:
        return []
    values = query_values(VARIANT_QUERY, None, params.scale, dates)
    sql = other_sql("q06_selected", values, engine.sql_folder / "tpch")
    connection = engine.connect()
    try:
        [[selected, rows]] = connection.execute(sql).rows
    finally:
        connection.close()
    if not isinstance(rows, int) or not rows:
        raise RunFailed("count the rows of lineitem", f"the engine answered {rows!r}")
    labels = {"query": str(VARIANT_QUERY)}
    fraction = float(str(selected)) / rows
    return [Metric("query_selected_fraction", "1", "none", labels, value=fraction)]
