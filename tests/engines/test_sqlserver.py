"""SQL Server, of which there is none here: its SQL as a parser reads it, its DSN, its warning."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from harness import paths, registry
from harness.engine import EngineVersion
from harness.errors import UsageError
from harness.experiment.preflight import _untested
from harness.sql_files import created, statements
from harness.store import verified
from harness.workloads.tpch.qgen import QUERIES, parameters
from harness.workloads.tpch.statements import other_sql, query_sql, variant_values

FACTORY = registry.engine("sqlserver")
FOLDER = Path(__file__).parents[2] / "engines" / "sqlserver" / "sql" / "tpch"
#: What T-SQL does not have.
MISSING = (exp.Interval, exp.Limit, exp.Extract)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_t_sql(query: int) -> None:
    (found,) = sqlglot.parse(query_sql(query, parameters(query, 7, 1), FOLDER), dialect="tsql")
    assert found is not None
    assert not list(found.find_all(*MISSING))


def test_the_variant_and_its_count_are_t_sql() -> None:
    values = variant_values(("1994-01-01", "1995-01-01"))
    for text in (query_sql(6, values, FOLDER), other_sql("q06_selected", values, FOLDER)):
        (found,) = sqlglot.parse(text, dialect="tsql")
        assert found is not None and not list(found.find_all(*MISSING))


def test_the_schema_is_t_sql_and_has_every_table() -> None:
    stems = ("10_tables", "20_keys", "30_indexes", "40_foreign_keys")
    for text in (text for stem in stems for text in statements(FOLDER, stem)):
        (found,) = sqlglot.parse(text, dialect="tsql")
        assert not isinstance(found, exp.Command)
    assert len(created(FOLDER)["table"]) == 8


@pytest.mark.parametrize(
    "dsn",
    [
        "mssql://u:secret@localhost/master",
        "mssql://u@db1/master",
        "mssql://localhost/master",
        "postgres://u@localhost/master",
        "mssql://u@localhost/master?key=x",
        "mssql://u@localhost:port/master",
    ],
)
def test_a_dsn_with_a_password_or_without_encryption_is_refused(dsn: str) -> None:
    with pytest.raises(UsageError) as refused:
        FACTORY.available({"dsn": dsn}, paths.engines_prefix())
    assert "secret" not in str(refused.value)


def test_a_password_comes_from_the_environment_and_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from engines.sqlserver.server import dsn_of

    monkeypatch.setenv("HARNESS_DSN", "mssql://u:p%40ss@db1:1444/x?ca=/etc/ca.pem")
    login = dsn_of({"dsn": "env"})
    assert (login.password, login.port, login.ca) == ("p@ss", 1444, "/etc/ca.pem")
    assert "p@ss" not in f"{login!r} {login.address}"


def test_without_a_server_it_says_how_to_name_one() -> None:
    for attempt in (lambda: FACTORY.available({}, Path()), lambda: FACTORY.make(None)):  # type: ignore[arg-type]
        with pytest.raises(UsageError) as refused:
            attempt()
        assert "--dsn" in refused.value.hint


def test_its_runs_warn_until_this_build_is_verified(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path)
    version = EngineVersion("sqlserver", "16.0.4165.4", "build 1", "DSN host=db1")
    assert [warning.code for warning in _untested(FACTORY, version)] == ["engine-untested"]
    verified.record("sqlserver", version, [])
    assert _untested(FACTORY, version) == []
    other = EngineVersion("sqlserver", "16.0.4165.4", "build 2", "DSN host=db1")
    assert _untested(FACTORY, other)
    assert _untested(registry.engine("duckdb"), other) == []
