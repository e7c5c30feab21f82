"""Establish the shipped reference answers of one scale.

    scripts/establish_tpch_answers.py --scale 1 --source FOLDER \\
        --dsn "host=/run/postgresql dbname=tpch" --official FOLDER --write

Two independent engines answer the 22 queries with the validation parameters: DuckDB
in this process over the generated files, and a PostgreSQL that holds the same data.
Every value of both is compared with the TPC's own answers where there are some
(``q1.out`` … as they come with dbgen, scale 1) under clause 2.1.3.5, and the two
with each other. Only when all agree is ``answers/sf<scale>.json`` written.

    scripts/establish_tpch_answers.py --scale 1 --after-rf1 --write

Behind RF1 of pair 1, in a power test, there are no official answers. What is shipped for that
state are the references, DuckDB's over the files, that were kept here (``HARNESS_DATA``) when
a power test on PostgreSQL agreed with each of them: ``answers/sf<scale>-rf1.json``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import duckdb
import psycopg

from harness.engine import Scalar
from harness.store.documents import write_json_atomically
from harness.workloads.tpch.answer_checks import sum_tolerance
from harness.workloads.tpch.answers import (
    SHAPES,
    TOLERANT,
    CanonicalAnswer,
    Kind,
    canonical,
    compare,
)
from harness.workloads.tpch.data import generator, read_source
from harness.workloads.tpch.qgen import QUERIES, parameters
from harness.workloads.tpch.reference import References, shipped_file
from harness.workloads.tpch.source_database import LOADED, open_views, rows_of
from harness.workloads.tpch.statements import TpchStatement, query_sql

_CENT = Decimal("0.01")
_Rows = list[tuple[Scalar, ...]]


def official_rows(file: Path) -> list[list[str]]:
    """Rows of one ``qN.out``: fields parted by ``|``, padded with blanks."""
    lines = file.read_text().splitlines()[1:]
    return [line.split("|") for line in lines if line.strip()]


def official_differences(query: int, official: list[list[str]], rows: _Rows) -> list[str]:
    """Values that are not the official ones under clause 2.1.3.5, in words.

    Rows are compared in order; rows that ORDER BY leaves tied, as sets.
    """
    shape = SHAPES[query]
    if len(official) != len(rows):
        return [f"Q{query}: {len(rows)} rows, official {len(official)}"]
    exact = [i for i, column in enumerate(shape.columns) if column.kind not in TOLERANT]
    ties = CanonicalAnswer.of(shape, rows).ties
    expected, actual = list(official), list(rows)
    for start, length in ties:
        part = slice(start, start + length)
        expected[part] = sorted(expected[part], key=lambda row: [row[i].strip() for i in exact])
        actual[part] = sorted(actual[part], key=lambda row: [str(row[i]).strip() for i in exact])
    return [
        f"Q{query}, row {number}, {column.name}: {value!r}, official {field.strip()!r}"
        for number, (fields, row) in enumerate(zip(expected, actual, strict=True), 1)
        for column, field, value in zip(shape.columns, fields, row, strict=True)
        if not official_agrees(column.kind, field, value)
    ]


def official_agrees(kind: Kind, field: str, value: Scalar) -> bool:
    """Return whether ``value`` may stand for the official text under clause 2.1.3.5."""
    computed = canonical(value, kind)
    if computed is None:
        return field.strip() in ("", "NULL")
    if kind in ("char", "text"):  # the files are padded: trailing blanks say nothing
        return computed.rstrip() == field.rstrip()
    if kind not in TOLERANT:
        return computed == canonical(
            field.strip() if kind == "date" else Decimal(field.strip()), kind
        )
    official, number = Decimal(field.strip()), Decimal(computed)
    rounded = number.quantize(_CENT, ROUND_HALF_UP)
    ratio = abs(rounded - official) <= abs(official) / 100
    in_sum = abs(number - official) <= 100
    return {"sum": in_sum, "sum-ratio": in_sum and ratio}.get(kind, ratio)


def answers_of_duckdb(scale: float, source: Path) -> dict[int, _Rows]:
    """Rows of every query, one more than the limit, over the generated files."""
    with tempfile.TemporaryDirectory() as spill:
        connection = open_views(read_source(source), Path(spill))
        return {
            query: rows_of(connection, query_sql(query, parameters(query, None, scale), None, 1))
            for query in QUERIES
        }


def answers_of_postgres(scale: float, dsn: str) -> dict[int, _Rows]:
    """Rows of every query from a PostgreSQL that holds the data."""
    with psycopg.connect(dsn) as connection:
        return {
            query: connection.execute(
                query_sql(query, parameters(query, None, scale)).encode()
            ).fetchall()
            for query in QUERIES
        }


def differences(
    scale: float, duck: Mapping[int, _Rows], postgres: Mapping[int, _Rows], official: Path | None
) -> list[str]:
    """All disagreements among the two engines and the official answers; empty when all agree."""
    problems = []
    for query in QUERIES:
        shape = SHAPES[query]
        answer = CanonicalAnswer.of(shape, duck[query])
        agreement = compare(shape, answer, postgres[query], sum_tolerance(scale))
        if not agreement.agrees:
            problems.append(f"Q{query}, PostgreSQL against DuckDB: {agreement.detail}")
        if official is not None:
            expected = official_rows(official / f"q{query}.out")
            problems += official_differences(query, expected, duck[query][: shape.limit])
            problems += official_differences(query, expected, postgres[query])
    return problems


def document(
    scale: float, duck: Mapping[int, _Rows], versions: Mapping[str, str]
) -> dict[str, object]:
    """The JSON document that is shipped."""
    return {
        "schema": 1,
        "scale": scale,
        "parameters": "validation values, clause 2.4.x.3",
        "generator": generator(),
        "agreed": dict(versions),
        "answers": {
            str(query): CanonicalAnswer.of(SHAPES[query], rows).to_json(SHAPES[query])
            for query, rows in duck.items()
        },
    }


def kept_answers(scale: float, state: int) -> tuple[dict[int, CanonicalAnswer], dict[str, str]]:
    """Answers of power tests that independent engines agreed on; which ones, for each query.

    SystemExit names a query that PostgreSQL has not answered.
    """
    answers, agreed = {}, {}
    references = References(scale, "establish", None)
    for query in QUERIES:
        statement = TpchStatement(query, parameters(query, None, scale), "")
        reference = references.stored(statement, state)
        if reference is None or "postgres" not in reference.agreed:
            raise SystemExit(f"Q{query}: no power test on PostgreSQL has given a right answer here")
        answers[query] = reference.answer
        agreed[f"Q{query}"] = ", ".join([reference.origin, *sorted(reference.agreed)])
    return answers, agreed


def _establish_after_rf1(scale: float, write: bool) -> int:
    state = LOADED + 1
    answers, agreed = kept_answers(scale, state)
    print(f"scale {scale}, after RF1: {len(answers)} answers agreed on: {agreed['Q1']}, …")
    if write:
        target = shipped_file(scale, state)
        texts = {str(query): answer.to_json(SHAPES[query]) for query, answer in answers.items()}
        write_json_atomically(
            target,
            {
                "schema": 1,
                "scale": scale,
                "parameters": "validation values, clause 2.4.x.3; data after RF1 of pair 1",
                "generator": generator(),
                "agreed": agreed,
                "answers": texts,
            },
        )
        print(f"written: {target}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, say what differs, and write the reference when nothing does."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--scale", type=float, required=True)
    parser.add_argument("--source", type=Path, help="folder made by generate")
    parser.add_argument("--dsn", help="PostgreSQL that holds the same data")
    parser.add_argument("--after-rf1", action="store_true", help="from kept answers of power tests")
    parser.add_argument("--official", type=Path, help="folder with q1.out … (scale 1)")
    parser.add_argument("--write", action="store_true", help="write the shipped reference")
    given = parser.parse_args(arguments)
    scale = int(given.scale) if given.scale == int(given.scale) else given.scale
    if given.after_rf1:
        return _establish_after_rf1(scale, given.write)
    if not given.source or not given.dsn:
        parser.error("--source and --dsn are needed")
    duck = answers_of_duckdb(scale, given.source)
    postgres = answers_of_postgres(scale, given.dsn)
    problems = differences(scale, duck, postgres, given.official)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    values = sum(len(rows) * len(SHAPES[query].columns) for query, rows in postgres.items())
    print(f"scale {scale}: {values} values agree{' with the official ones' * bool(given.official)}")
    if given.write:
        with psycopg.connect(given.dsn) as connection:
            release = str(connection.info.parameter_status("server_version"))
        versions = {"DuckDB": duckdb.__version__, "PostgreSQL": release}
        target = shipped_file(scale)
        write_json_atomically(target, document(scale, duck, versions))
        print(f"written: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
