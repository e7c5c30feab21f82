"""pgbench and sysbench on real servers: their own figures, and their failures."""

from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest
from figures import figures_of
from lab import open_lab
from narrowed import present

from harness import hdr
from harness.drivers.client_program import OfferedLoad, Window
from harness.drivers.pgbench import (
    check_not_stepped,
    over_time,
    read_log,
    wall_clock_ahead_ns,
)
from harness.drivers.result import WindowCallbacks
from harness.engine import Engine
from harness.errors import RunFailed, UsageError
from harness.progress import SilentProgress
from harness.store.spec import Json
from harness.workload import Loading, Session
from harness.workloads.sql.clients import PgbenchDriver, SysbenchDriver, measure
from harness.workloads.sql.params import SqlParams

ADD = "\\set id random(1, 100)\nUPDATE account SET balance = balance + 1 WHERE id = :id;\n"
LOOK = "\\set id random(1, 100)\nSELECT balance FROM account WHERE id = :id;\n"
#: A key that is drawn twice, in ramp-up or window, fails its client.
DRAW = "\\set key random(1, 1000000000000000)\nINSERT INTO drawn VALUES (:key);\n"
DRAW_LUA = """
function thread_init() con = sysbench.sql.driver():connect() end
function event()
  local high, low = sysbench.rand.uniform(1, 2 ^ 31 - 1), sysbench.rand.uniform(1, 2 ^ 31 - 1)
  con:query(string.format("INSERT INTO drawn VALUES (%d * 2147483648 + %d)", high, low))
end
"""
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


def drive(driver, engine, clients, read=lambda: None):
    """``read``: called as the window begins and ends, when counters are read."""
    moments: list[str] = []

    def take(moment: str) -> None:
        moments.append(moment)
        read()

    drives = WindowCallbacks(lambda: take("begin"), lambda: take("end"))
    driver.check(engine, {})
    session = Session(engine, SilentProgress(), client_starter=clients, seed=7)
    result = driver.drive(session, drives)
    assert moments == ["begin", "end"]
    assert not list(clients.scratch.iterdir())
    return result


def test_pgbench_runs_scripts_by_weight(accounts, clients, scripted):
    params = scripted({"add.sql": (ADD, 3), "look.sql": (LOOK, 1)}, rate=200)
    result = drive(PgbenchDriver(params), accounts, clients)
    counts = {name: operation.count for name, operation in result.operations.items()}
    done = sum(counts.values())
    assert abs(counts["add"] - 0.75 * done) <= 5 * (0.75 * 0.25 * done) ** 0.5
    assert sum(sum(point.counts.values()) for point in result.series) == done
    with closing(accounts.connect()) as connection:
        balance = connection.execute("SELECT sum(balance) FROM account").rows[0][0]
    assert balance > counts["add"]  # those of the ramp-up, too


@pytest.fixture
def drawn(postgres):
    """Read the sessions of the clients, by process; with a table for the keys that they draw."""
    with closing(postgres.connect()) as connection:
        connection.execute("DROP TABLE IF EXISTS drawn")
        connection.execute(
            "CREATE TABLE drawn (key bigint PRIMARY KEY, "
            "at_us bigint DEFAULT extract(epoch FROM clock_timestamp()) * 1e6)"
        )

    def sessions():
        with closing(postgres.connect()) as connection:
            return connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE query LIKE 'INSERT INTO drawn%' ORDER BY 1"
            ).rows

    return sessions


def test_pgbenchs_sessions_go_on_in_the_window_with_other_keys(postgres, drawn, clients, scripted):
    seen = []
    params = scripted({"draw.sql": (DRAW, 1)}, rate=200)
    result = drive(PgbenchDriver(params), postgres, clients, lambda: seen.append(drawn()))
    begin, end = seen
    assert begin == end and len(begin) == 2
    # By the server's stamps; each user has a transaction under way as the window begins and ends.
    begin_us = (result.series[0].monotonic_ns + wall_clock_ahead_ns()) // 1000
    end_us = begin_us + result.window_ns // 1000
    with closing(postgres.connect()) as connection:
        rows = connection.execute(
            f"SELECT count(*) FROM drawn WHERE at_us BETWEEN {begin_us} AND {end_us}"
        ).rows
    assert result.operations["draw"].count == pytest.approx(rows[0][0], abs=4)


def test_sysbench_draws_other_keys_in_the_window(postgres, drawn, clients, scripted):
    seen = []
    params = scripted({"draw.lua": (DRAW_LUA, 1)}, rate=200)
    drive(SysbenchDriver(params), postgres, clients, lambda: seen.append(drawn()))
    assert len(seen[0]) == 2  # are connected as the window begins


def test_a_key_that_is_drawn_twice_fails_at_once(postgres, drawn, clients, scripted):
    params = scripted({"same.sql": ("INSERT INTO drawn VALUES (1);\n", 1)}, duration="1h")
    with pytest.raises(RunFailed, match="duplicate key"):
        drive(PgbenchDriver(params), postgres, clients)


def test_pgbench_counts_what_it_tries_again_and_gives_up(accounts, clients, scripted):
    params = scripted({"conflict.sql": (CONFLICT, 1)}, users=4, max_tries=2)
    session = Session(accounts, SilentProgress(), client_starter=clients, driver="pgbench", seed=7)
    outcome = measure(params, session, list)
    counts = {metric.name: metric.value or 0 for metric in outcome.metrics}
    assert counts["operation_retried_count"] > 0
    assert counts["operation_failed_count"] > 0
    client: Any = outcome.artifacts["client"]
    by_code = client["failed_by_code"]
    assert by_code["40001"] + by_code["40P01"] == counts["operation_failed_count"]
    assert "failed-transactions" in {warning.code for warning in outcome.uncontrolled}


def test_pgbench_at_a_rate_counts_from_the_intended_start(accounts, clients, scripted):
    params = scripted({"look.sql": (LOOK, 1)}, rate=200, duration="2s")
    result = drive(PgbenchDriver(params), accounts, clients)
    # Starts come at random moments; some are late, for the window or for the ramp-up.
    assert 0 < result.operations["look"].count < 2 * present(result.offered_count)


def test_a_rate_that_pgbench_does_not_reach_leaves_a_backlog(accounts, clients, scripted):
    slow = "SELECT pg_sleep(0.1);\n"
    params = scripted({"slow.sql": (slow, 1)}, users=1, rate=50, duration="2s")
    result = drive(PgbenchDriver(params), accounts, clients)
    assert result.offered_count == pytest.approx(100, rel=0.1)
    assert result.backlog_count[1] > 50


def test_a_wrong_script_fails_with_the_servers_words(accounts, clients, scripted):
    params = scripted({"wrong.sql": ("SELECT no_such_column FROM account;\n", 1)})
    with pytest.raises(RunFailed, match="no_such_column"):
        drive(PgbenchDriver(params), accounts, clients)


def test_a_script_that_changed_after_the_plan_is_refused(accounts, scripted, tmp_path):
    params = scripted({"look.sql": (LOOK, 1)})
    (tmp_path / "look.sql").write_text(ADD)
    with pytest.raises(UsageError) as refused:
        PgbenchDriver(params).check(accounts, {})
    assert "look" in refused.value.problem and "new run" in refused.value.hint


@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_sysbench_prepares_once_and_runs(name, started, clients):
    engine = started(name)
    params = SqlParams.from_mapping(
        {
            "script": "oltp_read_write",
            "define": "tables=2,table_size=500",
            "users": 2,
            "rate": 50,
            "ramp_up": "1s",
            "duration": "1s",
        }
    )
    driver = SysbenchDriver(params)
    driver.check(engine, {})
    driver.load(Loading(engine, "sysbench", None, clients, 2, SilentProgress()))
    with closing(engine.connect()) as connection:
        assert connection.execute("SELECT count(*) FROM sbtest2").rows[0][0] == 500
    result = drive(driver, engine, clients)
    operation = result.operations["oltp_read_write"]
    reported = result.notes["own_transactions_per_second"]
    assert operation.count * 1e9 / result.window_ns == pytest.approx(reported, rel=0.01)
    times = hdr.decode(operation.latency_hdr)
    # It sets its figures back one after the other, while transactions end.
    assert times.total == pytest.approx(operation.count, rel=0.5, abs=4)
    assert times.mean / 1e6 == pytest.approx(result.notes["own_latency_average_ms"], rel=0.5)


@pytest.mark.parametrize(
    "option", ["pgsql-host", "mysql_socket", "rand_seed", "db_driver", "report_csv"]
)
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
    result = drive(SysbenchDriver(params), accounts, clients)
    assert result.operations["mine"].count > 0


def test_a_script_has_the_files_that_it_reads_and_no_reports_of_its_own(
    accounts, clients, scripted, tmp_path
):
    """Its hooks would print the window's rates in a form of their own, and no summary."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/bank.lua").write_text("dofile('./bank_common.lua')\n")
    (tmp_path / "bank_common.lua").write_text(
        "local ffi = require('ffi')\n"
        "sysbench.cmdline.options = { account = {'Account', 1} }\n"
        "function thread_init() con = sysbench.sql.driver():connect() end\n"
    )
    lua = (
        "#!/usr/bin/env sysbench\nrequire 'lib.bank'\n"
        "function event()\n"
        "  local sql = 'UPDATE account SET balance = balance + 1 WHERE id = %d'\n"
        "  con:query(sql:format(sysbench.opt.account))\n"
        "end\n"
        "function sysbench.hooks.report_intermediate(stat) print(stat.events) end\n"
        "function sysbench.hooks.report_cumulative(stat) print(stat.events) end\n"
    )
    params = scripted({"bank.lua": (lua, 1)}, users=1, define=["account=2"], duration="2s")
    result = drive(SysbenchDriver(params), accounts, clients)
    assert sum(point.counts["bank"] for point in result.series) > 0
    (script,) = SysbenchDriver(params).scripts()
    assert {*script.files} == {"lib/bank.lua", "bank_common.lua"}
    (tmp_path / "bank_common.lua").write_text("con = nil\n")
    with pytest.raises(UsageError) as changed:
        SysbenchDriver(params).check(accounts, {})
    assert "new run" in changed.value.hint


@pytest.mark.parametrize("call", ["dofile('/tmp/x.lua')", "dofile(path .. '../x.lua')"])
def test_a_script_reads_no_file_elsewhere(scripted, call):
    with pytest.raises(UsageError):
        scripted({"mine.lua": (f"{call}\n", 1)})


def test_a_window_has_the_transactions_that_ended_in_it(tmp_path):
    """The log of two threads; the wall clock was 1000 s ahead when pgbench started."""
    (tmp_path / "log.9").write_text(
        "0 1 500 0 1002 1\n"  # µs: before the window
        "0 2 700 0 1003 0\n"  # with its last moment before
        "0 3 900 1 1003 1\n"
        "0 4 deadlock 0 1004 500000\n"
    )
    (tmp_path / "log.9.1").write_text("1 1 800 0 1006 0\n1 2 800 0 1006 1\n")
    load = OfferedLoad(2, 2, 10**9, 3 * 10**9, None, {}, "simple", 1, 7)
    S = 10**9
    (first, second) = sorted(
        read_log(tmp_path, None, load, ahead_ns=1000 * S), key=lambda times: -len(times.ended_ns)
    )
    assert list(first.between(3 * S, 6 * S).duration_ns) == [900_000, -2]
    assert list(second.between(3 * S, 6 * S).ended_ns) == [6 * S]
    window = Window(3 * S, 6 * S, None, ())
    series, latencies = over_time(["a", "b"], first.between(3 * S, 6 * S), window)
    assert [point.counts for point in series] == [
        {"a": 0, "b": 1}, {"a": 0, "b": 0}, {"a": 0, "b": 0},
    ]  # fmt: skip
    series, _ = over_time(["a", "b"], second.between(3 * S, 6 * S), window)
    assert [point.counts["a"] for point in series] == [0, 0, 1]
    assert series[0].monotonic_ns == 3 * S
    assert len(latencies) == 3


def test_a_step_of_the_wall_clock_as_pgbench_starts_fails_the_run():
    check_not_stepped("pgbench", moved_ns=5_000_000, elapsed_ns=10**9)
    with pytest.raises(RunFailed, match="wall clock") as failed:
        check_not_stepped("pgbench", moved_ns=-(10**9), elapsed_ns=10**9)
    assert figures_of(failed.value.context) == [1]  # second
