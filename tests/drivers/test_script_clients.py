"""pgbench and sysbench on real servers: their own figures, and their failures."""

from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lab import open_lab

from harness import hdr
from harness.drivers.pgbench import Times, over_time
from harness.drivers.result import WindowCallbacks
from harness.engine import Engine
from harness.errors import RunFailed, UsageError
from harness.later import np
from harness.progress import SilentProgress
from harness.store.spec import Json
from harness.workload import Loading, Session
from harness.workloads.sql.clients import PgbenchDriver, SysbenchDriver, measure
from harness.workloads.sql.params import SqlParams

ADD = "\\set id random(1, 100)\nUPDATE account SET balance = balance + 1 WHERE id = :id;\n"
LOOK = "\\set id random(1, 100)\nSELECT balance FROM account WHERE id = :id;\n"
#: Each transaction reads what the others write: under this isolation level most cannot be kept.
CONFLICT = (
    "BEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT sum(balance) FROM account;\n"
    "\\set id random(1, 100)\nUPDATE account SET balance = balance + 1 WHERE id = :id;\nCOMMIT;\n"
)


@pytest.fixture(scope="module")
def postgres():
    with open_lab() as lab:
        engine = lab.started("postgres")
        yield engine
        engine.kill()


@pytest.fixture
def accounts(postgres):
    """PostgreSQL with a hundred accounts."""
    with closing(postgres.connect()) as connection:
        connection.execute("DROP TABLE IF EXISTS account")
        connection.execute("CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)")
        connection.execute("INSERT INTO account SELECT i, 0 FROM generate_series(1, 100) i")
    return postgres


@pytest.fixture
def scripted(tmp_path):
    """Parameters of a run of these scripts, by name, with their weights."""

    def make(scripts, **given):
        words = []
        for name, (text, weight) in scripts.items():
            (tmp_path / name).write_text(text)
            words.append(f"{tmp_path}/{name}@{weight}")
        defaults: dict[str, Json] = {"users": 2, "ramp_up": "1s", "duration": "1s"}
        return SqlParams.from_mapping({"script": words, **defaults, **given})

    return make


def drive(driver, engine, clients):
    moments: list[str] = []
    drives = WindowCallbacks(lambda: moments.append("begin"), lambda: moments.append("end"))
    driver.check(engine, {})
    session = Session(engine, SilentProgress(), client_starter=clients, seed=7)
    found = driver.drive(session, drives)
    assert moments == ["begin", "end"]
    assert not list(clients.scratch.iterdir())
    return found


def test_pgbench_runs_scripts_by_weight(accounts, clients, scripted):
    params = scripted({"add.sql": (ADD, 3), "look.sql": (LOOK, 1)})
    found = drive(PgbenchDriver(params), accounts, clients)
    counts = {name: one.count for name, one in found.operations.items()}
    done = sum(counts.values())
    assert counts["add"] == pytest.approx(0.75 * done, rel=0.1)
    # Its own figures, within 1 %.
    own = found.notes["own_transactions_per_second"]
    assert done * 1e9 / found.window_ns == pytest.approx(own, rel=0.01)
    times = [hdr.decode(one.latency_hdr) for one in found.operations.values()]
    mean_ms = sum(one.mean * one.total for one in times) / done / 1e6
    assert mean_ms == pytest.approx(found.notes["own_latency_average_ms"], rel=0.01, abs=0.001)
    assert sum(sum(point.counts.values()) for point in found.series) == done
    with closing(accounts.connect()) as connection:
        balance = connection.execute("SELECT sum(balance) FROM account").rows[0][0]
    assert balance > counts["add"]  # those of the ramp-up, too


def test_pgbench_counts_what_it_tries_again_and_gives_up(accounts, clients, scripted):
    params = scripted({"conflict.sql": (CONFLICT, 1)}, users=4, max_tries=2)
    session = Session(accounts, SilentProgress(), client_starter=clients, driver="pgbench", seed=7)
    found = measure(params, session, list)
    counts = {metric.name: metric.value or 0 for metric in found.metrics}
    assert counts["operation_retried_count"] > 0
    assert counts["operation_failed_count"] > 0
    client: Any = found.artifacts["client"]
    by_code = client["failed_by_code"]
    assert by_code["40001"] + by_code["40P01"] == counts["operation_failed_count"]
    assert "failed-transactions" in {warning.code for warning in found.uncontrolled}


def test_pgbench_at_a_rate_counts_from_the_intended_start(accounts, clients, scripted):
    params = scripted({"look.sql": (LOOK, 1)}, rate=200, duration="2s")
    found = drive(PgbenchDriver(params), accounts, clients)
    assert found.operations["look"].count == pytest.approx(400, rel=0.2)


def test_a_rate_that_pgbench_does_not_reach_leaves_a_backlog(accounts, clients, scripted):
    slow = "SELECT pg_sleep(0.1);\n"
    params = scripted({"slow.sql": (slow, 1)}, users=1, rate=50, duration="2s")
    found = drive(PgbenchDriver(params), accounts, clients)
    assert found.offered_count == pytest.approx(100, rel=0.1)
    assert found.backlog_count[1] > 50


def test_a_wrong_script_fails_with_the_servers_words(accounts, clients, scripted):
    params = scripted({"wrong.sql": ("SELECT no_such_column FROM account;\n", 1)})
    with pytest.raises(RunFailed, match="no_such_column"):
        drive(PgbenchDriver(params), accounts, clients)


def test_a_script_that_changed_after_the_plan_is_refused(accounts, scripted, tmp_path):
    params = scripted({"look.sql": (LOOK, 1)})
    (tmp_path / "look.sql").write_text(ADD)
    with pytest.raises(UsageError, match="not those of the run"):
        PgbenchDriver(params).check(accounts, {})


@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_sysbench_prepares_once_and_runs(name, started, clients):
    engine = started(name)
    params = SqlParams.from_mapping(
        {
            "script": "oltp_read_write",
            "define": "tables=2,table_size=500",
            "users": 2,
            "ramp_up": "1s",
            "duration": "1s",
        }
    )
    driver = SysbenchDriver(params)
    driver.check(engine, {})
    driver.load(Loading(engine, "sysbench", None, clients, 2, SilentProgress()))
    with closing(engine.connect()) as connection:
        assert connection.execute("SELECT count(*) FROM sbtest2").rows[0][0] == 500
    found = drive(driver, engine, clients)
    one = found.operations["oltp_read_write"]
    own = found.notes["own_transactions_per_second"]
    assert one.count * 1e9 / found.window_ns == pytest.approx(own, rel=0.01)
    times = hdr.decode(one.latency_hdr)
    assert times.total == pytest.approx(one.count, abs=2)
    assert times.mean / 1e6 == pytest.approx(found.notes["own_latency_average_ms"], rel=0.03)


@pytest.mark.parametrize("option", ["pgsql-host", "mysql_socket", "rand_seed", "db_driver"])
def test_sysbench_connects_where_the_harness_says(option):
    """It takes a hyphen and an underscore in an option's name for the same."""
    params = SqlParams.from_mapping({"script": ["oltp_read_only"], "define": [f"{option}=1"]})
    engine = cast(Engine, SimpleNamespace(name="postgres", kind="managed", sysbench_driver="pgsql"))
    with pytest.raises(UsageError):
        SysbenchDriver(params).check(engine, {})


def test_sysbench_runs_the_users_lua(accounts, clients, scripted):
    lua = (
        "function thread_init() drv = sysbench.sql.driver(); con = drv:connect() end\n"
        "function event() con:query('UPDATE account SET balance = balance + 1 WHERE id = 1') end\n"
    )
    params = scripted({"mine.lua": (lua, 1)}, users=1)
    found = drive(SysbenchDriver(params), accounts, clients)
    assert found.operations["mine"].count > 0


def test_a_series_has_each_transaction_in_its_second():
    times = Times(
        script=np.array([0, 1, 0]),
        duration_ns=np.array([10**6, 2 * 10**6, -1]),
        ended_ns=np.array([10**18, 10**18 + 2 * 10**9, 10**18 + 10**9]),
        lag_ns=np.array([0, 0, 0]),
        retries=np.array([0, 0, 0]),
    )
    series, latencies = over_time(["a", "b"], times, ended_ns=50 * 10**9, window_ns=3 * 10**9)
    assert [point.counts for point in series] == [
        {"a": 0, "b": 0}, {"a": 1, "b": 0}, {"a": 0, "b": 1},
    ]  # fmt: skip
    assert series[0].monotonic_ns == 47 * 10**9
    assert len(latencies) == 3
