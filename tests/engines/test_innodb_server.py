"""Managed MySQL and MariaDB: their parts, their settings, their end."""

import errno
import os
import signal
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest
from lab import execute
from patience import eventually

from engines._innodb.cluster import Cluster
from engines._innodb.configuration import open_files, same_value, verify_locations, verify_variables
from engines._innodb.connection import MySqlLogin
from engines._innodb.engine import before_trace
from harness import paths, registry
from harness.errors import RunFailed, UsageError
from harness.execution.runner import data_bytes, part_bytes
from harness.host.process_maps import async_io
from harness.supervise.user_files import regular_bytes

FLAVOURS = ("mysql", "mariadb")
#: More than the sort may hold in memory, with little to compute.
SPILL = (
    "select count(*) from (select a.i, repeat('x', 200) s from n a, n b, n c, n d, n e "
    "order by rand()) x"
)


@pytest.fixture(scope="module", params=FLAVOURS)
def golden(request, module_lab):
    """The engine's name, and golden data of it with one table of ten rows."""
    engine = module_lab.started(request.param)
    execute(
        engine,
        "create table n (i int primary key) engine = innodb",
        "insert into n values (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)",
    )
    return request.param, module_lab.stored(engine)


@pytest.fixture(scope="module")
def running(module_lab, golden):
    """One server for the tests that do it no harm."""
    name, folder = golden
    settings = {"sort_buffer_size": "64K", "innodb_flush_method": "O_DIRECT"}
    engine = module_lab.started(name, settings, dataset=folder)
    yield engine
    engine.kill()


def test_the_redo_log_is_no_data(running):
    places = running.places
    assert regular_bytes(places["wal"], None) >= 1 << 20, "it is preallocated"
    assert data_bytes(part_bytes(places, None)) == regular_bytes(places["data"], None)


def files_of(engine) -> list[Any]:
    return [file for process in engine.processes() for file in open_files(process.pid)]


# Where it lies ------------------------------------------------------------------


def test_the_interface_of_its_io_is_the_one_that_its_log_names(running):
    """A server whose io_uring is refused says so in its log alone."""
    log = running.log.read_text()
    expected = "io_uring" if "InnoDB: Using io_uring" in log else "aio"
    assert async_io(process.pid for process in running.processes()) == expected


def test_every_part_lies_where_it_was_placed(running):
    places = running.places
    files = files_of(running)
    redo = [f.path for f in files if f.path.name.startswith(("ib_logfile", "#ib_redo"))]
    assert redo and all(path.is_relative_to(places["wal"]) for path in redo)
    temporary = [f.path for f in files if f.path.name.startswith(("ibtmp", "temp_"))]
    assert temporary and all(path.is_relative_to(places["temp"]) for path in temporary)
    assert any(f.path == places["data"] / "data/ibdata1" and f.direct for f in files)
    assert list((places["data"] / "data/harness").glob("n.ibd"))
    written = {f.path for f in files if f.writable}
    ours = (places["data"], places["wal"], places["temp"], running._context.scratch, Path("/dev"))
    assert {p for p in written if not any(p.is_relative_to(o) for o in ours)} == set()


def test_a_sort_that_spills_writes_to_temp(running):
    before = spilled_bytes(running)
    with closing(running.connect()) as connection:
        assert connection.execute(SPILL).rows == [(100000,)]
        written = regular_bytes(running.places["temp"], None)
        assert spilled_bytes(running) > before or written > 0


def spilled_bytes(engine) -> float:
    return float(engine.counters().get("spilled_bytes", 0.0))


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("data", "data"),
        ("redo", "redo log"),
        ("tmp", "temporary files"),
        ("temporary_tablespaces", "temporary tablespaces"),
    ],
)
def test_a_part_that_is_elsewhere_is_noticed(running, part, name, tmp_path):
    (process,) = running.processes()
    cluster: Cluster = running._cluster
    verify_locations(process.pid, cluster, (running._context.scratch,))
    elsewhere = object.__new__(Cluster)
    elsewhere.__dict__ = {**cluster.__dict__, part: tmp_path}
    with pytest.raises(RunFailed, match=f": {name} "):
        verify_locations(process.pid, elsewhere, (running._context.scratch,))


def test_doublewrite_files_follow_the_engine_option(lab):
    options = {"doublewrite": "wal", "version": "9"}
    engine = lab.started("mysql", options=options, fresh=True)
    names = [f.path for f in files_of(engine) if f.path.suffix == ".dblwr"]
    assert names and all(path.is_relative_to(engine.places["wal"]) for path in names)


def test_doublewrite_pages_inside_the_data_cannot_be_placed(lab):
    with pytest.raises(UsageError, match="doublewrite=wal"):
        lab.engine("mariadb", options={"doublewrite": "wal"})


# What is decided for every run ---------------------------------------------------


def test_a_start_is_cold_private_and_without_binary_log(running):
    variables = running._variables()
    assert variables["innodb_buffer_pool_load_at_startup"] == "OFF"
    assert variables["innodb_buffer_pool_dump_at_shutdown"] == "OFF"
    assert variables["log_bin"] == "OFF"
    assert variables["skip_networking"] == "ON"
    assert variables["collation_server"] == "latin1_bin"
    if running.name == "mysql":
        loaded = execute(running, "show plugins")
        assert ("mysqlx", "ACTIVE") not in [(row[0], row[1]) for row in loaded]


def test_a_client_through_a_tunnel_has_rights_on_our_database_alone(running):
    tunnel = running.tunnel("1")
    user, password = tunnel.connection["user"], tunnel.connection["password"]
    with closing(MySqlLogin(user, password, socket=str(tunnel.local)).connect()) as connection:
        connection.query("USE harness")
        for statement in ("CREATE DATABASE other", "SELECT 1 INTO OUTFILE '/tmp/tb-stolen'"):
            with pytest.raises(pymysql.Error, match="denied"):
                connection.query(statement)


# Settings -------------------------------------------------------------------------


def test_a_setting_that_does_not_hold_is_noticed(running):
    (process,) = running.processes()
    variables = running._variables()
    verify_variables(process.pid, variables, running._cluster, {"sort_buffer_size": "64K"})
    for asked in ({"sort_buffer_size": "128K"}, {"innodb_flush_method": "fsync"}):
        with pytest.raises(RunFailed, match="the server has"):
            verify_variables(process.pid, variables, running._cluster, asked)
    with pytest.raises(RunFailed, match=r"innodb_log_group_home_dir=.*the server has"):
        elsewhere = {**variables, "innodb_log_group_home_dir": "./"}
        verify_variables(process.pid, elsewhere, running._cluster, {})


def test_a_pool_that_would_be_another_size_fails_the_start(lab, golden):
    """MySQL rounds it up to whole chunks of 128 MiB, and only says so in a note."""
    name, folder = golden
    settings = {"innodb_buffer_pool_size": "130M"}
    if name == "mariadb":
        engine = lab.started(name, settings, dataset=folder)
        assert engine._variables()["innodb_buffer_pool_size"] == str(130 << 20)
        engine.kill()
        return
    engine = lab.engine(name, settings)
    engine.restore(folder, lab.places())
    with pytest.raises(RunFailed, match="pool_size=130M: the server has 268435456"):
        engine.start()
    assert engine.processes() == []


@pytest.mark.parametrize(
    ("asked", "shown", "same"),
    [
        ("1G", "1073741824", True),
        ("1G", "1.0e9", False),
        ("ON", "1", True),
        ("off", "FALSE", True),
        ("ON", "0", False),
        ("/a/b", "/a/b/", True),
        ("mrr=on", "batched=off,mrr=on", True),
        ("mrr=on", "batched=off,mrr=off", False),
        ("100M", "104M", True),
        ("100M", "106M", False),
        ("65", "64", False),  # threads are not rounded
        ("64", "64.0", True),
    ],
)
def test_two_spellings_of_a_value(asked, shown, same):
    assert same_value(asked, shown) is same


def test_primary_keys_may_be_secondary_indexes(lab, tmp_path):
    """Rows are in the tree of an invisible key, and a lookup by the primary key goes there."""
    (tmp_path / "10_tables.sql").write_text("create table t (k bigint not null, v bigint);")
    (tmp_path / "20_keys.sql").write_text("alter table t add primary key (k);")
    engine = lab.started("mysql", options={"primary_keys": "secondary"}, fresh=True)
    assert engine.format_options()["primary_keys"] == "secondary"
    with engine._loader().empty_tables(tmp_path, 1000):
        pass
    with closing(engine.connect()) as connection:
        connection.execute("insert into t values (1, 10), (2, 20), (3, 30)")
        rows = connection.execute("show index from t").rows
        unique = {(str(row[2]), int(str(row[1]))) for row in rows}
        assert unique == {("PRIMARY", 0), ("k", 0)}
        assert connection.execute("select * from t where k = 2").rows == [(2, 20)]
        plan = engine.explain(connection, "select * from t where k = 2 or k = 9")
    assert plan.operators.rows == 1
    with pytest.raises(UsageError, match="primary_keys"):
        lab.engine("mariadb", options={"primary_keys": "secondary"})


def test_page_size_is_part_of_the_format(lab):
    engine = lab.started("mariadb", options={"page_size": 4}, fresh=True)
    assert engine.format_options()["innodb_page_size"] == "4096"
    assert engine._variables()["innodb_page_size"] == "4096"
    engine.stop()
    with pytest.raises(UsageError, match="page_size=5"):
        lab.engine("mariadb", options={"page_size": 5})


def test_what_decides_what_is_stored_is_part_of_the_format(lab):
    engine = lab.engine("mysql", {"innodb_stats_persistent_sample_pages": "99"})
    assert engine.format_options()["innodb_stats_persistent_sample_pages"] == "99"
    assert "innodb_io_capacity" not in lab.engine(
        "mysql", {"innodb_io_capacity": "999"}
    ).format_options()  # fmt: skip


# Which server ---------------------------------------------------------------------


def test_the_flavour_is_what_the_server_says(lab, open_path):
    engine = lab.engine("mariadb")
    (open_path / "bin").mkdir()
    (open_path / "bin/mysqld").write_text(
        f'#!/bin/sh\nexec {" ".join(engine._installation.command)} "$@"\n'
    )
    (open_path / "bin/mysqld").chmod(0o755)
    version = registry.engine("mariadb").available(
        {"prefix": str(open_path)}, paths.engines_prefix()
    )
    assert version.version == engine.version().version
    with pytest.raises(UsageError, match="is MariaDB"):
        registry.engine("mysql").available({"prefix": str(open_path)}, paths.engines_prefix())


def test_libraries_other_than_the_pinned_ones_make_another_build(monkeypatch):
    from engines._innodb import installation
    from harness.install import installed

    prefix, moved_on = paths.engines_prefix(), ("libc6 2.44-1",)
    moved = [
        replace(installation, moved_on=moved_on) for installation in installed("mysql", prefix)
    ]
    monkeypatch.setattr(installation, "installed", lambda *_: moved)
    assert installation.choose("mysql", {}, prefix).build.endswith(" with libc6 2.44-1")


# Its end --------------------------------------------------------------------------


def test_the_errors_before_the_stack_trace_are_shown(lab):
    """The server's own handler writes the trace; the error before it is one that we put there."""
    engine = lab.started("mysql")
    with engine.log.open("a") as log:
        log.write("2026-01-01T00:00:00.0Z 0 [ERROR] [InnoDB] No space left on device\n")
    os.kill(engine.processes()[0].pid, signal.SIGABRT)
    assert eventually(lambda: not engine.running)
    with pytest.raises(RunFailed) as failed:
        engine.stop()
    assert os.strerror(errno.ENOSPC) in str(failed.value)
    assert "got signal 6" in str(failed.value)
    for advice in ("stack", "0x", "http"):
        assert advice in engine.log.read_text()
        assert advice not in str(failed.value).replace("before the stack trace", "")


def test_a_log_without_a_trace_is_shown_by_its_end(tmp_path):
    log = tmp_path / "engine.log"
    log.write_text("[ERROR] unknown variable\n[ERROR] Aborting\n")
    assert before_trace(log, None) is None
