"""PostgreSQL: its parts, its processes, its end; loading, plans and external servers."""

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab import execute
from open_files import opened
from patience import eventually

from engines._settings import NOT_RECORDED
from engines.postgres import counters, explain
from engines.postgres.engine import ManagedPostgres
from harness.engine import LoadRequest, QueryTimeout
from harness.errors import RunFailed
from harness.monitors import MonitorContext
from harness.monitors.process import ProcessMonitor
from harness.progress import SilentProgress
from harness.supervise.process import alive
from harness.units import GIB, MIB
from harness.workload import Session, with_log_limit

SPILL = "select count(*) from (select md5(i::text) from generate_series(1, 200000) i order by 1) x"


@pytest.fixture
def started(lab):
    return lab.started("postgres", {"work_mem": "64kB"})


@pytest.fixture(scope="module")
def running(module_lab):
    """One server for the tests that do it no harm."""
    return module_lab.started("postgres", {"work_mem": "64kB"})


def open_files(engine) -> set[Path]:
    return opened(*(process.pid for process in engine.processes()))


@pytest.mark.parametrize("release", ["machine", "18.4"])
def test_every_part_lies_where_it_was_placed(lab, release):
    options = {} if release == "machine" else {"version": release}
    engine = lab.started("postgres", {"work_mem": "64kB"}, options, fresh=True)
    places = engine.places
    connection = engine.connect()
    connection.execute("create table t as select generate_series(1, 1000) as i")
    connection.execute("create index t_i on t (i) tablespace harness_index")
    connection.execute("checkpoint")
    connection.execute(SPILL)

    at = dict(
        connection.execute("select spcname, pg_tablespace_location(oid) from pg_tablespace").rows
    )
    assert Path(at["harness_index"]).is_relative_to(places["index"])
    assert Path(at["harness_temp"]).is_relative_to(places["temp"])
    index = connection.execute("select pg_relation_filepath('t_i')").rows[0][0]
    data = places["data"] / "pgdata"
    assert (data / index).resolve().is_relative_to(places["index"])
    assert list(places["temp"].rglob("pgsql_tmp")), "the sort spilled somewhere else"
    assert not list(places["data"].rglob("pgsql_tmp"))
    segments = [f for f in open_files(engine) if f.is_relative_to(places["wal"])]
    assert segments, "no process has a WAL segment open in the WAL's place"
    assert not any(f.is_relative_to(data / "pg_wal") for f in open_files(engine))


@pytest.mark.parametrize(
    ("settings", "wal_bytes"),
    [
        ({"max_wal_size": "128MB"}, 192 * MIB),
        ({"max_wal_size": "50GB"}, 9 * GIB),
        ({}, 3 * GIB // 2),
    ],
)
def test_the_space_of_the_log_is_by_the_setting_in_force(lab, settings, wal_bytes):
    limit = lab.engine("postgres", settings).log_limit_bytes()
    sizes = with_log_limit({"data": 1, "wal": 9 * GIB}, limit)
    assert sizes == {"data": 1, "wal": wal_bytes}


def test_kill_leaves_no_process_and_no_shared_memory(lab, started):
    processes = list(started.processes())
    maps = Path(f"/proc/{processes[0].pid}/maps").read_text()
    shared = {line.split()[-1] for line in maps.splitlines() if "/dev/shm/PostgreSQL" in line}
    pid_file = next(lab.root.rglob("postmaster.pid"))
    segment = pid_file.read_text().splitlines()[6].split()[1]
    assert shared and segment in [line.split()[1] for line in _segments()]
    started.kill()
    assert [p for p in processes if alive(p)] == []
    assert [path for path in shared if Path(path).exists()] == []
    assert segment not in [line.split()[1] for line in _segments()]


def _segments() -> list[str]:
    return Path("/proc/sysvipc/shm").read_text().splitlines()[1:]


def test_values_come_back_as_python_values(running):
    result = running.connect().execute("select 1, 1.50::numeric, 'x'::char(3), null, 0.5::float8")
    assert result.rows == [(1, Decimal("1.50"), "x  ", None, 0.5)]
    assert result.duration_ns > 0


@pytest.mark.parametrize("keep", [None, 5])
def test_timeout_and_errors_leave_the_connection_usable(running, keep):
    connection = running.connect()
    with pytest.raises(QueryTimeout):
        connection.execute("select pg_sleep(60)", timeout_s=0.05, keep=keep)
    with pytest.raises(RunFailed, match='select nope: column "nope" does not exist'):
        connection.execute("select nope", keep=keep)
    assert connection.execute("select 1").rows == [(1,)]
    assert connection.execute("show statement_timeout").rows == [("0",)]


def test_a_limit_is_that_of_one_statement_and_not_of_our_own(running):
    connection = running.connect()
    connection.execute("select 1", timeout_s=1)
    connection.flush_statistics()
    assert connection.raw.execute("show statement_timeout").fetchone() == ("0",)


def test_settings_counters_and_secrets(running):
    connection = running.connect()
    before = running.counters()
    connection.execute(SPILL)
    after = running.counters()
    written = after["spilled_bytes"] - before["spilled_bytes"]
    assert written > 200_000 * 32  # the sorted texts themselves
    connection.execute("alter system set log_line_prefix = 'hunter2'")
    connection.execute("select pg_reload_conf()")
    assert eventually(lambda: "log_line_prefix" in running.effective_config())
    config = running.effective_config()
    assert config["work_mem"] == "64kB" and config["fsync"] == "on"
    assert not any("password" in name for name in config)
    assert config["log_line_prefix"] == NOT_RECORDED


def test_reading_the_counters_is_not_counted(lab):
    engine = lab.started("postgres", {"autovacuum": "off"})
    connection = engine.connect()
    monitors = [ProcessMonitor(MonitorContext(engine.processes))]
    session = Session(engine, SilentProgress(), None, drop_caches=False, monitors=monitors)
    for _ in range(3):
        for _ in range(5):  # who drops the kernel's caches meanwhile makes the server's code cold
            before = session.counters("before")
            after = session.counters("after")
            if after["io_read_bytes"] == before["io_read_bytes"]:
                break
        assert delta(before, after) == {}
        assert after["io_read_bytes"] == before["io_read_bytes"]
        connection.execute("select 1")
        assert delta(before, session.counters("after"))["postgres_commits_count"] == 1
    another = engine.connect()  # it is calibrated again, which is not counted either
    before = engine.counters()
    another.execute("select 1")
    assert delta(before, engine.counters())["postgres_commits_count"] == 1


def delta(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the changes of the sums that belong to the measured database and its backends."""
    names = [n for n in after if not n.startswith(("postgres_checkpoint", "postgres_wal"))]
    ours = [
        n for n in names if n.startswith("postgres_") and "written" not in n and "fsync" not in n
    ]
    return {n: after[n] - before[n] for n in ours if after[n] != before[n]}


def test_a_release_that_cannot_publish_its_sums_has_none():
    class Old:
        info = SimpleNamespace(server_version=140012)

    old: Any = Old()
    assert counters.read(old, "harness") == {}


# Loading and plans ---------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded(module_lab, tpch_csv):
    engine = module_lab.started("postgres", {"min_parallel_table_scan_size": "0"})
    engine.bulk_load(
        LoadRequest(engine.sql("tpch"), tpch_csv.files, tpch_csv.row_counts, SilentProgress())
    )
    return engine


def test_load_leaves_all_rows_indexes_and_statistics(loaded, tpch_csv):
    connection = loaded.connect()
    for table, rows in tpch_csv.row_counts.items():
        assert connection.execute(f"select count(*) from {table}").rows == [(rows,)]
    indexes = connection.execute(
        "select tablespace, count(*) from pg_indexes where schemaname = 'public' group by 1"
    ).rows
    assert indexes == [("harness_index", 15)]
    keys = connection.execute("select count(*) from pg_constraint where contype = 'f'").rows
    assert keys == [(8,)]
    not_frozen = connection.execute(
        "select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"
        " and (relallvisible < relpages or reltuples < 0)"
    ).rows
    assert not_frozen == []


def test_no_setting_of_the_load_outlives_it(loaded):
    config = loaded.effective_config()
    values = {
        k: config[k] for k in ("fsync", "full_page_writes", "synchronous_commit", "wal_level")
    }
    assert values == dict.fromkeys(values, "on") | {"wal_level": "replica"}
    assert "autovacuum" not in config  # at its default, on


def test_a_load_uses_only_the_profile_s_settings_in_the_dataset_key(lab, tpch_csv, monkeypatch):
    started: list[dict[str, str]] = []
    start = ManagedPostgres._start

    def recorded(server: ManagedPostgres, settings: Mapping[str, str]) -> None:
        started.append(dict(settings))
        start(server, settings)

    monkeypatch.setattr(ManagedPostgres, "_start", recorded)
    profile = {"default_statistics_target": "20", "random_page_cost": "1.1", "work_mem": "1MB"}
    engine = lab.started("postgres", profile, fresh=True)
    assert engine.format_options()["default_statistics_target"] == "20"
    engine.bulk_load(
        LoadRequest(engine.sql("tpch"), tpch_csv.files, tpch_csv.row_counts, SilentProgress())
    )
    bounds = execute(
        engine,
        "select max(cardinality(histogram_bounds::text::text[])) from pg_stats "
        "where tablename = 'lineitem' and attname in ('l_orderkey', 'l_extendedprice')",
    )
    assert bounds == [(21,)]
    golden = lab.stored(engine)
    assert len(started) == 3
    assert {settings["default_statistics_target"] for settings in started} == {"20"}
    assert not any({"random_page_cost", "work_mem"} & set(settings) for settings in started)
    engine.restore(golden, lab.places())
    engine.start()
    assert started[-1] == profile


def test_profiles_that_store_other_statistics_have_other_datasets(lab):
    stored = [
        lab.engine("postgres", settings).format_options()
        for settings in ({}, {"default_statistics_target": "100"}, {"work_mem": "1MB"},
                         {"default_statistics_target": "500"})
    ]  # fmt: skip
    assert stored[0] == stored[1] == stored[2] != stored[3]


def test_a_bad_row_names_table_and_line(lab, tpch_csv):
    bad = lab.directory("bad") / "nation.csv"
    bad.write_text("n_nationkey,n_name,n_regionkey,n_comment\n0,ALGERIA,zero,x\n")
    bad.parent.chmod(0o755)
    engine = lab.started("postgres")
    with pytest.raises(RunFailed, match="invalid input syntax") as caught:
        engine.bulk_load(
            LoadRequest(
                engine.sql("tpch"), tpch_csv.files | {"nation": [bad]}, {}, SilentProgress()
            )
        )
    assert caught.value.problem == "load table nation"
    assert "line 2" in caught.value.hint


QUERIES = {
    "parallel": "select l_returnflag, count(*) from lineitem group by 1 order by 1",
    "initplan": "select count(*) from orders where o_totalprice > (select avg(o_totalprice) "
    "from orders)",
    "cte": "with r as materialized (select l_suppkey s, sum(l_extendedprice) t from lineitem "
    "group by 1) select s from r where t = (select max(t) from r)",
    "subplan": "select count(*) from part p where p_retailprice > "
    "(select avg(ps_supplycost) from partsupp where ps_partkey = p.p_partkey)",
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("workers", [0, 2])
def test_own_times_add_up_to_the_whole(loaded, name, workers):
    connection = loaded.connect()
    connection.execute(f"set max_parallel_workers_per_gather = {workers}")
    connection.execute("set parallel_setup_cost = 0")
    connection.execute("set parallel_tuple_cost = 0")
    plan = loaded.explain(connection, QUERIES[name])
    times = [operator.time_ns for operator in plan.operators.walk()]
    assert min(times) >= 0
    assert plan.duration_ns > plan.extra["engine_duration_ns"] > plan.extra["execution_ns"]
    whole_ns = json.loads(plan.raw)[0]["Plan"]["Actual Total Time"] * 1e6
    assert sum(times) == pytest.approx(whole_ns, rel=0.05)
    if name != "subplan":  # PostgreSQL keeps a correlated one in the leader
        assert ("Gather" in plan.raw) == (workers > 0)
    assert "scan" in plan.time_by_kind_ns()


def test_the_reads_of_all_scans_are_added_up_where_the_release_counts_them(loaded):
    """Not with 18; the fields are those of 19's ``EXPLAIN (ANALYZE, IO)``."""
    plan = loaded.explain(loaded.connect(), "select count(*) from orders o, orders p where false")
    assert "io" not in plan.extra
    scan = {"Node Type": "Seq Scan", "Actual Loops": 1, "Average I/O Size": 15.9}
    scans = [scan | {"I/O Count": 100, "I/O Waits": 10}, scan | {"I/O Count": 7, "I/O Waits": 0}]
    join = {"Node Type": "Nested Loop", "Actual Loops": 1, "Plans": scans}
    newer = explain.translate([{"Plan": join, "Execution Time": 1.0}], 2_000_000)
    assert newer.extra["io"] == {"reads_count": 107, "read_waits_count": 10}


def test_an_initplan_is_not_counted_twice(loaded):
    """The scan that waits for the average must not be charged for computing it."""
    connection = loaded.connect()
    connection.execute("set max_parallel_workers_per_gather = 0")
    sql = "select 1 from nation where (select count(*) from lineitem) > n_nationkey"
    shares = []
    for _ in range(5):  # a scan of 25 rows may wait for a processor, though not each time
        plan = loaded.explain(connection, sql)
        nation = next(o for o in plan.operators.walk() if o.relation == "nation")
        lineitem = next(o for o in plan.operators.walk() if o.relation == "lineitem")
        shares.append(nation.time_ns / lineitem.time_ns)
    assert min(shares) < 1 / 3


def test_a_window_is_compared_with_the_server_s_own_checkpoint_interval(loaded):
    window = {"postgres_wal_written_bytes": 1e9, "postgres_checkpoints_timed_count": 1.0}
    usual = 300 * 10**9
    for window_ns, codes in ((usual, []), (usual // 2, ["checkpoint-cut-off"])):
        warnings = loaded.write_back_warnings(
            {"postgres_checkpoints_timed_count": 1.0}, window, window_ns
        )
        assert [warning.code for warning in warnings] == codes
