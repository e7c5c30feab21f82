"""The queries over TPC-C's tables: the same rows on every engine, and the rate of a window."""

from contextlib import closing
from dataclasses import replace
from decimal import Decimal

import duckdb
import pytest

from harness.drivers.result import WindowCallbacks
from harness.store.spec import Json
from harness.workloads.htap import tables
from harness.workloads.htap.params import HtapParams
from harness.workloads.htap.queries import (
    ANSWERED_FOR,
    HtapQuery,
    QueryWindow,
    check_answers,
    query_sql,
    recorded_answer,
    stream_queries,
)
from harness.workloads.htap.workload import WORKLOAD
from harness.workloads.kinds import QUERIES
from harness.workloads.query_runs import Execution, execute
from harness.workloads.sql.answers import ExpectedRows, Tolerance, compare_rows
from harness.workloads.sql.ordering import Ordering
from harness.workloads.tpcc.drivers import TpccLoadgen

PARAMS = HtapParams.from_mapping({"warehouses": 1, "users": 4, "ramp_up": "0s", "duration": "1s"})
TABLES = ("warehouse", "district", "customer", "history", "orders", "new_order", "order_line",
          "item", "stock", *tables.row_counts())  # fmt: skip


@pytest.fixture(scope="module")
def postgres(running):
    """A session on loaded data, which tests change in this order."""
    with running("postgres", WORKLOAD, PARAMS) as session:
        yield session


@pytest.fixture(scope="module")
def mariadb(running):
    with running("mariadb", WORKLOAD, PARAMS) as session:
        yield session


def executions(session) -> list[Execution[HtapQuery]]:
    """Each query once, on a session's engine."""
    folder = session.engine.sql("htap")
    with closing(session.engine.connect()) as connection:
        queries = [HtapQuery(number, 1, query_sql(number, folder), 1000) for number in QUERIES]
        results = [(query, execute(connection, query, None)) for query in queries]
    return [
        Execution(
            query,
            result.duration_ns,
            result.rows,
            columns=result.columns,
            left_out=result.left_out,
            checksum=result.checksum,
        )
        for query, result in results
        if result is not None
    ]


def as_expected(rows) -> ExpectedRows:
    """DuckDB's answer: it divides in floating point."""
    close = Tolerance(Decimal("1e-6"), relative=True)
    floats = [
        any(isinstance(value, float) for value in column) for column in zip(*rows, strict=True)
    ]
    texts = [[None if value is None else str(value) for value in row] for row in rows]
    return ExpectedRows(texts, [close if is_float else None for is_float in floats])


def columns_of(connection, table: str) -> dict[str, str]:
    """DuckDB's types of PostgreSQL's columns."""
    rows = connection.execute(
        "SELECT column_name, data_type, numeric_scale FROM information_schema.columns "
        f"WHERE table_name = '{table}' ORDER BY ordinal_position"
    ).rows
    types = {
        "integer": "INTEGER",
        "smallint": "INTEGER",
        "timestamp without time zone": "TIMESTAMP",
    }
    return {
        name: f"DECIMAL(18, {scale})" if kind == "numeric" else types.get(kind, "VARCHAR")
        for name, kind, scale in rows
    }


# Of the others, MySQL runs the same statements as MariaDB.
@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
def test_answers_over_loaded_data_are_those_recorded(request, engine):
    session = request.getfixturevalue(engine)
    done = executions(session)
    checks = list(check_answers([*done, done[0]], ANSWERED_FOR, session.engine.sql("htap")))
    assert len(done) == len(QUERIES)
    assert {check.status for check in checks} == {"passed"}
    answered = [check.labels["query"] for check in checks if check.name == "answer"]
    assert answered == [str(query) for query in QUERIES]
    assert sum(len(recorded_answer(query).rows) > 0 for query in QUERIES) >= 19


def test_another_answer_is_a_failed_check(tmp_path):
    query = HtapQuery(13, 1, "", 1000)
    first = Execution(query, 1, [(0, 25_814), (1, 4_186)], columns=("a", "b"), checksum=1)
    wrong = replace(first, rows=[(0, 25_813), (1, 4_187)], checksum=2)
    of = {c.name: c.status for c in check_answers([wrong, first], ANSWERED_FOR, tmp_path)}
    assert of == {"answer": "failed", "repeated": "failed"}
    assert [c.name for c in check_answers([first, first], (2, 1), tmp_path)] == ["repeated"]


#: Windows of a run. Its queries take a hundredth of them: each ends, however busy the host is.
WINDOWS: dict[str, Json] = {"warehouses": 1, "users": 2, "ramp_up": "0s", "duration": "1s"}


def test_streams_of_another_engine_end_with_the_window(mariadb):
    """PostgreSQL's: cli/test_htap_command.py."""
    params = HtapParams.from_mapping({**WINDOWS, "streams": 2, "queries": [22]})
    outcome = WORKLOAD.measure(params, mariadb)
    assert {check.status for check in outcome.checks} == {"passed"}, outcome.checks
    values = {metric.name: metric.value or 0 for metric in outcome.metrics}
    assert values["together_queries_per_hour"] > 0
    assert values["together_transactions_per_second"] > 0


def test_a_window_without_each_query_has_no_rate_of_queries(postgres):
    given: dict[str, Json] = {**WINDOWS, "queries": [13, 22], "query_timeout": 1e-6}
    outcome = WORKLOAD.measure(HtapParams.from_mapping(given), postgres)
    assert not [check for check in outcome.checks if check.status == "failed"]
    unknown = [check.labels for check in outcome.checks if check.status == "unknown"]
    assert unknown == [{"phase": "alone"}, {"phase": "together"}]
    named = {metric.name for metric in outcome.metrics}
    assert "together_transactions_per_second" in named
    assert not named & {"together_queries_per_hour", "queries_retained_share"}


def test_after_transactions_duckdb_gives_the_same_rows(postgres, tmp_path):
    TpccLoadgen(PARAMS.transactions).drive(postgres, WindowCallbacks())
    done = executions(postgres)
    with closing(postgres.engine.connect()) as connection:
        columns = {table: columns_of(connection, table) for table in TABLES}
        for table in TABLES:
            rows = f"COPY (SELECT {', '.join(columns[table])} FROM {table}) TO STDOUT (FORMAT csv)"
            with (
                connection.raw.cursor().copy(rows) as copied,
                (tmp_path / f"{table}.csv").open("wb") as file,
            ):
                file.writelines(copied)
    with duckdb.connect() as other:
        for table in TABLES:
            source = (
                f"read_csv('{tmp_path}/{table}.csv', header = false, columns = {columns[table]})"
            )
            other.execute(f"CREATE TABLE {table} AS FROM {source}")
        for execution in done:
            sql = query_sql(execution.statement.query)
            expected = as_expected(other.execute(sql).fetchall())
            if not expected.rows:
                assert not execution.rows
                continue
            ordering = Ordering.of(sql, False)
            compared = compare_rows(expected, execution.columns, execution.rows, ordering)
            assert compared.status == "passed", (execution.statement.name, compared.values)
    assert sum(any(any(row) for row in execution.rows) for execution in done) >= 19


def test_a_stream_repeats_its_queries_in_its_own_order(tmp_path):
    first, second = (stream_queries(QUERIES, stream, tmp_path) for stream in (1, 2))
    queries = [next(first) for _ in range(44)]
    assert all(query.keep for query in queries[:22])
    assert not any(query.keep for query in queries[22:])  # a checksum is enough
    of_first = [query.query for query in queries]
    assert sorted(of_first[:22]) == list(QUERIES) and of_first[22:] == of_first[:22]
    assert [next(second).query for _ in range(22)] != of_first[:22]
    assert next(stream_queries((6, 1), 1, tmp_path)).query in (1, 6)


def test_an_engine_may_have_a_query_in_its_own_dialect(tmp_path):
    (tmp_path / "q06.sql").write_text("-- Ours.\nselect 1\n")
    assert query_sql(6, tmp_path) == "select 1"
    assert query_sql(1, tmp_path) == query_sql(1)


def window(*ended: tuple[int, int, int]) -> QueryWindow:
    """Of two streams: query, beginning and end in seconds; the window is from 10 s to 20 s."""
    return QueryWindow(
        [
            Execution(HtapQuery(query, 1, ""), int((end - begin) * 1e9),
                      submitted_ns=int(begin * 1e9), ended_ns=int(end * 1e9))
            for query, begin, end in ended
        ],
        2, int(10e9), int(20e9),
    )  # fmt: skip


def test_the_rate_is_that_of_whole_sets_whatever_the_window_ends_with():
    # 1 s and 3 s on average: both streams do two queries in 4 s.
    measured = window((1, 10, 11), (6, 11, 14), (1, 14, 15), (6, 15, 18), (1, 18, 19))
    assert measured.per_hour((1, 6)) == pytest.approx(2 * 2 * 3600 / 4)
    assert [m.samples for m in measured.metrics("alone")] == [(1e9, 1e9, 1e9), (3e9, 3e9)]


def test_there_is_no_rate_where_a_query_did_not_end_in_the_window():
    measured = window((1, 9, 11), (1, 12, 13), (6, 18, 21))
    assert measured.per_hour((1,)) == pytest.approx(2 * 3600)
    assert measured.per_hour((1, 6)) is None
    assert measured.missing((1, 6)) == [6]


def test_added_tables_have_a_nation_for_each_character(tmp_path):
    tables.write(tmp_path, 1)
    with duckdb.connect() as connection:
        for name, rows in tables.row_counts().items():
            file = tables.files(tmp_path)[name][0]
            connection.execute(f"CREATE TABLE {name} AS FROM read_csv('{file}')")
            assert connection.execute(f"SELECT count(*) FROM {name}").fetchone() == (rows,)
        keys = connection.execute("SELECT n_nationkey FROM nation").fetchall()
        assert sorted(chr(key) for (key,) in keys) == sorted(tables._CHARACTERS)
        (orphans,) = connection.execute(
            "SELECT count(*) FROM supplier ANTI JOIN nation ON n_nationkey = su_nationkey"
        ).fetchone() or (None,)
        assert orphans == 0
    first = (tmp_path / "supplier.csv").read_bytes()
    tables.write(tmp_path, 1)
    assert (tmp_path / "supplier.csv").read_bytes() == first
    tables.write(tmp_path, 2)
    assert (tmp_path / "supplier.csv").read_bytes() != first
