"""Loading, plans and external servers of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from engines.postgres import explain
from engines.postgres.engine import ManagedPostgres
from harness.errors import RunFailed
from harness.progress import SilentProgress


@pytest.fixture(scope="module")
def loaded(module_lab: Any, tpch_csv: Any) -> Iterator[Any]:
    engine = module_lab.started("postgres", {"min_parallel_table_scan_size": "0"})
    engine.bulk_load(engine.sql("tpch"), tpch_csv.files, tpch_csv.row_counts, SilentProgress())
    yield engine
    engine.kill()


def test_load_leaves_all_rows_indexes_and_statistics(loaded: Any, tpch_csv: Any) -> None:
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


def test_no_setting_of_the_load_outlives_it(loaded: Any) -> None:
    config = loaded.effective_config()
    kept = {k: config[k] for k in ("fsync", "full_page_writes", "synchronous_commit", "wal_level")}
    assert kept == dict.fromkeys(kept, "on") | {"wal_level": "replica"}
    assert "autovacuum" not in config  # at its default, on


def test_a_load_uses_only_the_profile_s_settings_in_the_dataset_key(lab, tpch_csv, monkeypatch):
    started: list[dict[str, str]] = []
    start = ManagedPostgres._start

    def recorded(server: ManagedPostgres, settings: Mapping[str, str]) -> None:
        started.append(dict(settings))
        start(server, settings)

    monkeypatch.setattr(ManagedPostgres, "_start", recorded)
    profile = {"default_statistics_target": "20", "random_page_cost": "1.1", "work_mem": "1MB"}
    engine = lab.engine("postgres", profile)
    assert engine.format_options()["default_statistics_target"] == "20"
    engine.initialise(lab.places())
    engine.start()
    engine.bulk_load(engine.sql("tpch"), tpch_csv.files, tpch_csv.row_counts, SilentProgress())
    bounds = engine.connect().execute(
        "select max(cardinality(histogram_bounds::text::text[])) from pg_stats "
        "where tablename = 'lineitem' and attname in ('l_orderkey', 'l_extendedprice')"
    ).rows  # fmt: skip
    assert bounds == [(21,)]
    engine.stop()
    assert len(started) == 3
    assert {settings["default_statistics_target"] for settings in started} == {"20"}
    assert not any({"random_page_cost", "work_mem"} & set(settings) for settings in started)
    golden = lab.directory("golden")
    engine.snapshot(golden)
    engine.restore(golden, lab.places())
    engine.start()
    assert started[-1] == profile
    engine.stop()


def test_profiles_that_store_other_statistics_have_other_datasets(lab: Any) -> None:
    stored = [
        lab.engine("postgres", settings).format_options()
        for settings in ({}, {"default_statistics_target": "100"}, {"work_mem": "1MB"},
                         {"default_statistics_target": "500"})
    ]  # fmt: skip
    assert stored[0] == stored[1] == stored[2] != stored[3]


def test_a_bad_row_names_table_and_line(lab: Any, tpch_csv: Any) -> None:
    bad = lab.directory("bad") / "nation.csv"
    bad.write_text("n_nationkey,n_name,n_regionkey,n_comment\n0,ALGERIA,zero,x\n")
    bad.parent.chmod(0o755)
    engine = lab.started("postgres")
    with pytest.raises(RunFailed, match="load table nation: invalid input syntax") as caught:
        engine.bulk_load(
            engine.sql("tpch"), tpch_csv.files | {"nation": [bad]}, {}, SilentProgress()
        )
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
def test_own_times_add_up_to_the_whole(loaded: Any, name: str, workers: int) -> None:
    connection = loaded.connect()
    connection.execute(f"set max_parallel_workers_per_gather = {workers}")
    connection.execute("set parallel_setup_cost = 0")
    connection.execute("set parallel_tuple_cost = 0")
    for _ in range(5):  # it may stand still between its operators, though not each time
        plan = loaded.explain(connection, QUERIES[name])
        times = [operator.time_ns for operator in plan.operators.walk()]
        assert min(times) >= 0
        assert plan.duration_ns > plan.extra["engine_duration_ns"] > plan.extra["execution_ns"]
        whole = plan.extra["execution_ns"]
        if 0.7 * whole < sum(times) < 1.05 * whole:
            break
    assert 0.7 * whole < sum(times) < 1.05 * whole
    if name != "subplan":  # PostgreSQL keeps a correlated one in the leader
        assert ("Gather" in plan.raw) == (workers > 0)
    assert "scan" in plan.time_by_kind_ns()


def test_the_reads_of_all_scans_are_added_up_where_the_release_counts_them(loaded: Any) -> None:
    """Not with 18; the fields are those of 19's ``EXPLAIN (ANALYZE, IO)``."""
    plan = loaded.explain(loaded.connect(), "select count(*) from orders o, orders p where false")
    assert "io" not in plan.extra
    scan = {"Node Type": "Seq Scan", "Actual Loops": 1, "Average I/O Size": 15.9}
    scans = [scan | {"I/O Count": 100, "I/O Waits": 10}, scan | {"I/O Count": 7, "I/O Waits": 0}]
    join = {"Node Type": "Nested Loop", "Actual Loops": 1, "Plans": scans}
    newer = explain.translate([{"Plan": join, "Execution Time": 1.0}], 2_000_000)
    assert newer.extra["io"] == {"reads_count": 107, "read_waits_count": 10}


def test_an_initplan_is_not_counted_twice(loaded: Any) -> None:
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


def test_a_window_is_compared_with_the_server_s_own_checkpoint_interval(loaded: Any) -> None:
    window = {"postgres_wal_written_bytes": 1e9, "postgres_checkpoints_timed_count": 1.0}
    usual = 300 * 10**9
    for window_ns, codes in ((usual, []), (usual // 2, ["checkpoint-cut-off"])):
        found = loaded.write_back_warnings(
            {"postgres_checkpoints_timed_count": 1.0}, window, window_ns
        )
        assert [warning.code for warning in found] == codes
