"""The statements of a run: which query, with which values, in which stream, in what order.

Clause 5.3.5.4: stream *s* submits the queries in the order of ordered set *s* of Appendix A; set 0
is the power test's. The list has 41 sets and begins again after them, as with qgen's ``-p``.

``queries/qNN.sql.j2`` holds each query once, ``queries/dialect.sql.j2`` macros in standard SQL. An
engine's folder ``sql/tpch/`` may hold a ``dialect.sql.j2`` that replaces macros by name, and, where
the meaning cannot be written otherwise, a whole ``qNN.sql.j2``.

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
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from harness.workloads import query_runs
from harness.workloads.tpch.answers import SHAPES
from harness.workloads.tpch.params import VARIANT_QUERY, TpchParams
from harness.workloads.tpch.qgen import SEEDS, Values, parameters

#: The stream of a power test, and of a run that has only one (clause 5.3.5.2).
STREAM_0 = 0
_QUERIES = Path(__file__).parent / "queries"
_DIALECT = "dialect.sql.j2"

#: Appendix A, one ordered set a line, from set 0.
_ORDERED_SETS: tuple[tuple[int, ...], ...] = (
    (14, 2, 9, 20, 6, 17, 18, 8, 21, 13, 3, 22, 16, 4, 11, 15, 1, 10, 19, 5, 7, 12),
    (21, 3, 18, 5, 11, 7, 6, 20, 17, 12, 16, 15, 13, 10, 2, 8, 14, 19, 9, 22, 1, 4),
    (6, 17, 14, 16, 19, 10, 9, 2, 15, 8, 5, 22, 12, 7, 13, 18, 1, 4, 20, 3, 11, 21),
    (8, 5, 4, 6, 17, 7, 1, 18, 22, 14, 9, 10, 15, 11, 20, 2, 21, 19, 13, 16, 12, 3),
    (5, 21, 14, 19, 15, 17, 12, 6, 4, 9, 8, 16, 11, 2, 10, 18, 1, 13, 7, 22, 3, 20),
    (21, 15, 4, 6, 7, 16, 19, 18, 14, 22, 11, 13, 3, 1, 2, 5, 8, 20, 12, 17, 10, 9),
    (10, 3, 15, 13, 6, 8, 9, 7, 4, 11, 22, 18, 12, 1, 5, 16, 2, 14, 19, 20, 17, 21),
    (18, 8, 20, 21, 2, 4, 22, 17, 1, 11, 9, 19, 3, 13, 5, 7, 10, 16, 6, 14, 15, 12),
    (19, 1, 15, 17, 5, 8, 9, 12, 14, 7, 4, 3, 20, 16, 6, 22, 10, 13, 2, 21, 18, 11),
    (8, 13, 2, 20, 17, 3, 6, 21, 18, 11, 19, 10, 15, 4, 22, 1, 7, 12, 9, 14, 5, 16),
    (6, 15, 18, 17, 12, 1, 7, 2, 22, 13, 21, 10, 14, 9, 3, 16, 20, 19, 11, 4, 8, 5),
    (15, 14, 18, 17, 10, 20, 16, 11, 1, 8, 4, 22, 5, 12, 3, 9, 21, 2, 13, 6, 19, 7),
    (1, 7, 16, 17, 18, 22, 12, 6, 8, 9, 11, 4, 2, 5, 20, 21, 13, 10, 19, 3, 14, 15),
    (21, 17, 7, 3, 1, 10, 12, 22, 9, 16, 6, 11, 2, 4, 5, 14, 8, 20, 13, 18, 15, 19),
    (2, 9, 5, 4, 18, 1, 20, 15, 16, 17, 7, 21, 13, 14, 19, 8, 22, 11, 10, 3, 12, 6),
    (16, 9, 17, 8, 14, 11, 10, 12, 6, 21, 7, 3, 15, 5, 22, 20, 1, 13, 19, 2, 4, 18),
    (1, 3, 6, 5, 2, 16, 14, 22, 17, 20, 4, 9, 10, 11, 15, 8, 12, 19, 18, 13, 7, 21),
    (3, 16, 5, 11, 21, 9, 2, 15, 10, 18, 17, 7, 8, 19, 14, 13, 1, 4, 22, 20, 6, 12),
    (14, 4, 13, 5, 21, 11, 8, 6, 3, 17, 2, 20, 1, 19, 10, 9, 12, 18, 15, 7, 22, 16),
    (4, 12, 22, 14, 5, 15, 16, 2, 8, 10, 17, 9, 21, 7, 3, 6, 13, 18, 11, 20, 19, 1),
    (16, 15, 14, 13, 4, 22, 18, 19, 7, 1, 12, 17, 5, 10, 20, 3, 9, 21, 11, 2, 6, 8),
    (20, 14, 21, 12, 15, 17, 4, 19, 13, 10, 11, 1, 16, 5, 18, 7, 8, 22, 9, 6, 3, 2),
    (16, 14, 13, 2, 21, 10, 11, 4, 1, 22, 18, 12, 19, 5, 7, 8, 6, 3, 15, 20, 9, 17),
    (18, 15, 9, 14, 12, 2, 8, 11, 22, 21, 16, 1, 6, 17, 5, 10, 19, 4, 20, 13, 3, 7),
    (7, 3, 10, 14, 13, 21, 18, 6, 20, 4, 9, 8, 22, 15, 2, 1, 5, 12, 19, 17, 11, 16),
    (18, 1, 13, 7, 16, 10, 14, 2, 19, 5, 21, 11, 22, 15, 8, 17, 20, 3, 4, 12, 6, 9),
    (13, 2, 22, 5, 11, 21, 20, 14, 7, 10, 4, 9, 19, 18, 6, 3, 1, 8, 15, 12, 17, 16),
    (14, 17, 21, 8, 2, 9, 6, 4, 5, 13, 22, 7, 15, 3, 1, 18, 16, 11, 10, 12, 20, 19),
    (10, 22, 1, 12, 13, 18, 21, 20, 2, 14, 16, 7, 15, 3, 4, 17, 5, 19, 6, 8, 9, 11),
    (10, 8, 9, 18, 12, 6, 1, 5, 20, 11, 17, 22, 16, 3, 13, 2, 15, 21, 14, 19, 7, 4),
    (7, 17, 22, 5, 3, 10, 13, 18, 9, 1, 14, 15, 21, 19, 16, 12, 8, 6, 11, 20, 4, 2),
    (2, 9, 21, 3, 4, 7, 1, 11, 16, 5, 20, 19, 18, 8, 17, 13, 10, 12, 15, 6, 14, 22),
    (15, 12, 8, 4, 22, 13, 16, 17, 18, 3, 7, 5, 6, 1, 9, 11, 21, 10, 14, 20, 19, 2),
    (15, 16, 2, 11, 17, 7, 5, 14, 20, 4, 21, 3, 10, 9, 12, 8, 13, 6, 18, 19, 22, 1),
    (1, 13, 11, 3, 4, 21, 6, 14, 15, 22, 18, 9, 7, 5, 10, 20, 12, 16, 17, 8, 19, 2),
    (14, 17, 22, 20, 8, 16, 5, 10, 1, 13, 2, 21, 12, 9, 4, 18, 3, 7, 6, 19, 15, 11),
    (9, 17, 7, 4, 5, 13, 21, 18, 11, 3, 22, 1, 6, 16, 20, 14, 15, 10, 8, 2, 12, 19),
    (13, 14, 5, 22, 19, 11, 9, 6, 18, 15, 8, 10, 7, 4, 17, 16, 3, 1, 12, 2, 21, 20),
    (20, 5, 4, 14, 11, 1, 6, 16, 8, 22, 7, 3, 2, 12, 21, 19, 17, 13, 10, 15, 18, 9),
    (3, 7, 14, 15, 6, 5, 21, 20, 18, 10, 4, 16, 19, 1, 13, 9, 8, 17, 11, 12, 22, 2),
    (13, 15, 17, 1, 22, 11, 3, 4, 7, 20, 14, 21, 9, 8, 2, 18, 16, 6, 10, 12, 5, 19),
)


def query_order(stream: int) -> tuple[int, ...]:
    """The queries 1 … 22 in the order of ``stream`` (0: the power test's)."""
    if stream < 0:
        raise ValueError(f"stream {stream}: streams are counted from 0")
    return _ORDERED_SETS[stream % len(_ORDERED_SETS)]


@dataclass(frozen=True)
class TpchStatement(query_runs.Statement):
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
    def title(self) -> str:
        """``TPC-H query 6 of stream 2``: in errors."""
        return f"TPC-H query {self.name[1:]}"

    @property
    def step(self) -> str:
        """``q6``, or ``s2-q6``: its name among the steps of a run, and in artifacts."""
        return f"q{self.query}" if self.stream is None else f"s{self.stream}-q{self.query}"


def chosen_statements(params: TpchParams, folder: Path) -> list[TpchStatement]:
    """The queries that ``params`` name, in the order they are named, in the engine's dialect."""
    return [_statement(query, params, folder, STREAM_0, None) for query in params.queries]


def power_statements(params: TpchParams, folder: Path) -> list[TpchStatement]:
    """The query stream of a power test: all 22 in the order of stream 0 (clause 5.3.5.2)."""
    return [_statement(query, params, folder, STREAM_0, None) for query in query_order(STREAM_0)]


def stream_statements(params: TpchParams, folder: Path, stream: int) -> list[TpchStatement]:
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
) -> TpchStatement:
    if query == VARIANT_QUERY and params.q6_dates:
        values = variant_values(params.q6_dates)
    else:
        values = parameters(query, stream_seed(params.query_seed, stream), params.scale)
    return TpchStatement(query, values, query_sql(query, values, folder), label)


# SQL text ---------------------------------------------------------------------


def query_sql(query: int, values: Values, folder: Path | None = None, extra_rows: int = 0) -> str:
    """The statement of ``query`` (1 … 22) with the parameters ``values``, without a semicolon.

    ``folder``: an engine's ``sql/tpch/``; None for standard SQL. ``extra_rows`` lets a
    query with a row limit (clause 2.1.2.9) return that many more.
    """
    limit = SHAPES[query].limit
    row_limit = None if limit is None else limit + extra_rows
    template = _environment(folder).get_template(f"q{query:02d}.sql.j2")
    return template.render(**values, row_limit=row_limit).strip()


def other_sql(name: str, values: Values, folder: Path | None = None) -> str:
    """Another statement, from ``queries/<name>.sql.j2``, in the engine's dialect."""
    return _environment(folder).get_template(f"{name}.sql.j2").render(**values).strip()


@cache
def _environment(folder: Path | None) -> jinja2.Environment:
    folders = [_QUERIES] if folder is None else [folder, _QUERIES]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=False,
    )
    for source in reversed(folders):
        if (source / _DIALECT).exists():
            environment.globals.update(_macros(environment, source / _DIALECT))
    return environment


def _macros(environment: jinja2.Environment, file: Path) -> dict[str, Any]:
    """The macros of a dialect; it may use those of the dialects before it."""
    module = environment.from_string(file.read_text()).module
    return {name: macro for name, macro in vars(module).items() if not name.startswith("_")}
