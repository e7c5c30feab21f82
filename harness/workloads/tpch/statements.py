"""The statements of a run: which query, with which values, in which stream, in what order.

Query 6 has a variant with a chosen share of lineitem: that of the VLDB 2023 paper's Fig 4. The
paper widens the interval of l_shipdate and keeps nothing else of the query's predicates, so that
the sum runs over 15 to 87 % of the table (§4.2; the dates are those of its published queries).
``q6_dates: [from, to]`` gives the interval, ``to`` excluded. What share it selects is measured,
never taken from here.

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

from dataclasses import dataclass
from pathlib import Path

from harness.workloads.tpch.ordering import query_order
from harness.workloads.tpch.params import VARIANT_QUERY, TpchParams
from harness.workloads.tpch.qgen import SEEDS, Values, parameters
from harness.workloads.tpch.sql import query_sql

#: The stream of a power test, and of a run that has only one (clause 5.3.5.2).
STREAM_0 = 0


@dataclass(frozen=True)
class Statement:
    """One query of the run.

    ``stream``: its query stream where several run at the same time (1 … S), None in a
    run, or the part of it, that has only one.
    """

    query: int
    values: Values
    sql: str
    stream: int | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Labels of its metrics and checks."""
        stream = {} if self.stream is None else {"stream": str(self.stream)}
        return {"query": str(self.query), **stream}

    @property
    def name(self) -> str:
        """``Q6``, or ``Q6 of stream 2``: for a person."""
        return f"Q{self.query}" + (f" of stream {self.stream}" if self.stream is not None else "")

    @property
    def step(self) -> str:
        """``q6``, or ``s2-q6``: its name among the steps of a run, and in artifacts."""
        return f"q{self.query}" if self.stream is None else f"s{self.stream}-q{self.query}"


def chosen_statements(params: TpchParams, folder: Path) -> list[Statement]:
    """The queries that ``params`` name, in the order they are named, in the engine's dialect."""
    return [_statement(query, params, folder, STREAM_0, None) for query in params.queries]


def power_statements(params: TpchParams, folder: Path) -> list[Statement]:
    """The query stream of a power test: all 22 in the order of stream 0 (clause 5.3.5.2)."""
    return [_statement(query, params, folder, STREAM_0, None) for query in query_order(STREAM_0)]


def stream_statements(params: TpchParams, folder: Path, stream: int) -> list[Statement]:
    """Query stream 1 … S of a throughput test: its own order and its own values."""
    return [_statement(query, params, folder, stream, stream) for query in query_order(stream)]


def stream_seed(seed: int | None, stream: int) -> int | None:
    """The seed of a stream's values: seed + stream (clause 2.1.3.3), in the range of qgen's.

    Without a seed stream 0 has the validation values and stream s those of ``qgen -r s``:
    streams with equal values would find each other's pages and answers (the clause's
    comment 1).
    """
    if stream == STREAM_0:
        return seed
    return SEEDS[((seed or 0) + stream - 1) % len(SEEDS)]


def variant_values(dates: tuple[str, str]) -> Values:
    """The parameters of query 6 with a chosen interval of l_shipdate."""
    return {"date": dates[0], "until": dates[1]}


def _statement(
    query: int, params: TpchParams, folder: Path, stream: int, label: int | None
) -> Statement:
    if query == VARIANT_QUERY and params.q6_dates:
        values = variant_values(params.q6_dates)
    else:
        values = parameters(query, stream_seed(params.query_seed, stream), params.scale)
    return Statement(query, values, query_sql(query, values, folder), label)
