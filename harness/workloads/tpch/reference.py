"""Where the right answer of a query comes from, in this order.

1. *Shipped*: ``answers/sf1.json`` and its like, for the validation parameters. Made by
   harness.workloads.tpch.establish from a run whose every value agreed with the
   TPC's own answers.
2. *Kept*: answers computed before for the same scale, generator and statement.
3. *Computed*: by DuckDB in this process from the generated files themselves (views;
   nothing is loaded), which is independent of the engine under test and of its load.

DuckDB cannot vouch for itself: for the engine of that name a kept answer counts only
once another engine's own answer has agreed with it.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from harness.engine import Scalar
from harness.paths import answers_root
from harness.spec import content_hash
from harness.store import write_json_atomically
from harness.supervise.supervisor import Supervisor
from harness.workloads.tpch.answers import SHAPES, Answer
from harness.workloads.tpch.data import Source, generator, read_source
from harness.workloads.tpch.qgen import Values, parameters
from harness.workloads.tpch.sql import query_sql
from harness.workloads.tpch.tables import COLUMNS

#: Name of the engine that computes references.
REFERENCE_ENGINE = "duckdb"
_SHIPPED = Path(__file__).parent / "answers"


class NoReference(Exception):
    """There is nothing independent to compare with; the message says what would help."""


@dataclass(frozen=True)
class Reference:
    """An answer and where it comes from."""

    answer: Answer
    origin: str
    agreed: tuple[str, ...] = ()


def shipped(scale: float) -> dict[int, Answer]:
    """The shipped answers to the validation parameters at ``scale``; empty where there are none."""
    file = _SHIPPED / f"sf{scale!r}.json"
    if not file.exists():
        return {}
    document = json.loads(file.read_text())
    return {int(q): Answer.from_json(entry) for q, entry in document["answers"].items()}


class References:
    """References for one run of ``engine`` over the data in ``source``."""

    def __init__(self, scale: float, seed: int | None, engine: str, source: Path | None) -> None:
        self._scale = scale
        self._seed = seed
        self._engine = engine
        self._source = source
        self._shipped = shipped(scale) if seed is None else {}
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._open = ExitStack()

    def __enter__(self) -> References:
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection = None
        self._open.close()

    def of(self, query: int) -> Reference:
        """The right answer of ``query``; NoReference where nothing can vouch for one."""
        if query in self._shipped:
            return Reference(self._shipped[query], "shipped reference")
        kept = self._kept(query)
        if self._engine == REFERENCE_ENGINE:
            if kept is None or not kept.agreed:
                raise NoReference(self._nothing_independent())
            return replace(kept, origin=f"answer of {', '.join(kept.agreed)}")
        return kept or self._compute(query)

    def agreed(self, query: int, reference: Reference) -> None:
        """Keep that the engine under test has given the same answer by itself."""
        if query in self._shipped or self._engine in (*reference.agreed, REFERENCE_ENGINE):
            return
        self._keep(query, replace(reference, agreed=(*reference.agreed, self._engine)))

    def _nothing_independent(self) -> str:
        what = "the validation parameters" if self._seed is None else f"query_seed {self._seed}"
        return (
            f"no independent reference at scale {self._scale:g} for {what}: run another engine "
            "with the same scale and seed (its answers are checked by DuckDB, and then serve here)"
        )

    def _values(self, query: int) -> Values:
        return parameters(query, self._seed, self._scale)

    def _file(self, query: int) -> Path:
        """Not below the source data: those of one format serve the answers of any."""
        key = content_hash([self._scale, generator(), query_sql(query, self._values(query))])
        return answers_root() / f"tpch-sf{self._scale!r}-{generator()}" / f"q{query:02d}-{key}.json"

    def _kept(self, query: int) -> Reference | None:
        file = self._file(query)
        if not file.exists():
            return None
        document = json.loads(file.read_text())
        answer = Answer.from_json(document["answer"])
        return Reference(answer, document["origin"], tuple(document["agreed"]))

    def _keep(self, query: int, reference: Reference) -> None:
        file = self._file(query)
        document: dict[str, Any] = {
            "scale": self._scale,
            "generator": generator(),
            "parameters": self._values(query),
            "origin": reference.origin,
            "agreed": list(reference.agreed),
            "answer": reference.answer.to_json(SHAPES[query]),
        }
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json_atomically(file, document)
        except OSError:  # a read-only or full place costs computing it again, nothing else
            return

    def _compute(self, query: int) -> Reference:
        if self._source is None:
            raise NoReference(
                "the source data that a reference is computed from are gone: remove the golden "
                "data too (harness data rm) and run again"
            )
        if self._connection is None:
            self._connection = self._open_source(self._source)
        # One row more than the limit shows whether the answer is the only right one.
        rows = rows_of(self._connection, query_sql(query, self._values(query), extra_rows=1))
        answer = Answer.of(SHAPES[query], rows)
        reference = Reference(answer, f"computed by DuckDB {duckdb.__version__}")
        self._keep(query, reference)
        return reference

    def _open_source(self, source: Path) -> duckdb.DuckDBPyConnection:
        """What does not fit into memory spills to a directory that outlives no end of ours."""
        supervisor = self._open.enter_context(Supervisor())
        spill = Path(tempfile.gettempdir()) / f"tb-reference-{secrets.token_hex(4)}"
        supervisor.register_directory(spill)
        connection = open_views(read_source(source), spill)
        self._open.callback(connection.close)
        return connection


def open_views(source: Source, spill: Path) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB with a view over the generated files of every table."""
    connection = duckdb.connect()
    connection.execute("set enable_progress_bar = false")  # it would write over the harness's
    connection.execute(f"set temp_directory = '{spill}'")
    connection.execute(f"set threads = {len(os.sched_getaffinity(0))}")
    for table, columns in COLUMNS.items():
        files = [str(file) for file in source.files[table]]
        names = ", ".join(columns)
        connection.execute(
            f"create view {table} as select {names} from {_reader(source, files, columns)}"
        )
    return connection


def _reader(source: Source, files: Sequence[str], columns: Mapping[str, str]) -> str:
    if source.format == "parquet":
        return f"read_parquet({files!r})"
    if source.format == "csv":
        form = """header = true, delim = ',', quote = '"'"""
    else:
        form = "header = false, delim = '|', quote = ''"
        columns = {**columns, "line_end": "varchar"}  # a line of dbgen's ends in a delimiter
    return f"read_csv({files!r}, {form}, columns = {dict(columns)!r})"


def rows_of(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Scalar, ...]]:
    """All rows of a statement."""
    rows: list[tuple[Scalar, ...]] = connection.execute(sql).fetchall()
    return rows
