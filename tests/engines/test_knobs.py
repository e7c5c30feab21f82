"""Settings that the VLDB 2023 paper turns (§5.3), and those of durability, on every release:
refused before anything is made where it cannot take them, else seen to hold in the running server.

What a release takes is written down here (docs/tuning.md has the same table), what it does
is asked of the server and of the kernel.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from lab import execute

from engines._innodb import installation as innodb
from engines._innodb.configuration import _check_redo_size, open_files, verify_variables
from engines.postgres import installation as postgres
from harness.errors import RunFailed, UsageError
from harness.experiment.tuning import settings_for
from harness.paths import engines_prefix
from harness.supervise.user_files import regular_bytes
from harness.units import GIB, MIB

METHODS = ("fsync", "O_DSYNC", "O_DIRECT", "O_DIRECT_NO_FSYNC")


#: All that any release takes, in the order of the message.
DOUBLEWRITE = ("ON", "OFF", "DETECT_AND_RECOVER", "DETECT_ONLY", "FAST")


@dataclass(frozen=True)
class Release:
    engine: innodb.Flavour
    version: str

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(map(int, self.version.split(".")))

    @property
    def doublewrite(self) -> tuple[str, ...]:
        """MySQL from 8.0.30 can find torn pages only; MariaDB 11.4 can leave a flush out."""
        if self.engine == "mysql":
            return DOUBLEWRITE[: 4 if self.number >= (8, 0, 30) else 2]
        return DOUBLEWRITE[:2] + (DOUBLEWRITE[4:] if self.number >= (11, 4) else ())

    @property
    def write_threads(self) -> tuple[str, str]:
        """From, to."""
        return ("1" if self.engine == "mysql" else "2", "64")

    @property
    def redo(self) -> dict[str, str]:
        """A redo log of 96 MiB in all."""
        if self.engine == "mysql" and self.number >= (8, 0, 30):
            return {"innodb_redo_log_capacity": "96M"}
        if self.engine == "mysql":
            return {"innodb_log_file_size": "32M", "innodb_log_files_in_group": "3"}
        return {"innodb_log_file_size": "96M"}


def releases(engine: innodb.Flavour) -> list[Release]:
    """The one that a run would take, and the others of the private prefix."""
    prefix = engines_prefix()
    installations = [innodb.choose(engine, {}, prefix), *innodb._private(engine, prefix)]
    return [Release(engine, version) for version in sorted({i.version for i in installations})]


RELEASES = [*releases("mysql"), *releases("mariadb")]


class ReleaseLab:
    def __init__(self, release: Release, lab) -> None:
        self.release, self._lab = release, lab

    def engine(self, settings: dict[str, str], options: dict[str, Any] | None = None):
        given = {"version": self.release.version} | (options or {})
        return self._lab.engine(self.release.engine, settings, given)

    def started(self, settings: dict[str, str]):
        return self._lab.started(self.release.engine, settings, {"version": self.release.version})


@pytest.fixture(scope="module", params=RELEASES, ids=lambda r: f"{r.engine}-{r.version}")
def release_lab(request, module_lab):
    return ReleaseLab(request.param, module_lab)


def write_threads(engine) -> int:
    """Threads that MySQL itself says write pages."""
    ((count,),) = engine._query(
        "select count(*) from performance_schema.threads "
        "where name = 'thread/innodb/io_write_thread'"
    )
    return int(count)


def tablespace(engine):
    (process,) = engine.processes()
    path = engine.places["data"] / "data/ibdata1"
    (file,) = [f for f in open_files(process.pid) if f.path == path]
    return file


def bypasses_cache(release: Release, method: str) -> bool:
    """Return whether data files are to be opened with O_DIRECT, as also by MariaDB's O_DSYNC."""
    return method.startswith("O_DIRECT") or (release.engine, method) == ("mariadb", "O_DSYNC")


# What holds in the running server -------------------------------------------------


def test_every_value_that_a_release_takes_holds(release_lab):
    """Each of them in some start, several settings at a time: a start takes seconds."""
    least, most = release_lab.release.write_threads
    for method, doublewrite, threads, aio in zip_longest(
        METHODS, release_lab.release.doublewrite, (least, "8", most), ("OFF", "ON"), fillvalue=None
    ):
        asked = {
            "innodb_flush_method": method,
            "innodb_doublewrite": doublewrite,
            "innodb_write_io_threads": threads,
            "innodb_use_native_aio": aio,
        }
        settings = {name: value for name, value in asked.items() if value is not None}
        engine = release_lab.started(settings)
        variables, config = engine._variables(), engine.effective_config()
        for name, value in settings.items():
            assert variables[name].casefold() == config[name].casefold() == value.casefold()
        assert tablespace(engine).direct is bypasses_cache(release_lab.release, method or "")
        if threads and release_lab.release.engine == "mysql":  # MariaDB takes them from a pool
            assert write_threads(engine) == int(threads)
        assert variables["log_bin"] == "OFF"
        assert not any((engine.places["wal"] / "binlog").iterdir())
        engine.kill()


def test_the_binary_log_lies_with_the_wal_and_the_redo_log_has_its_size(release_lab):
    engine = release_lab.started({"log_bin": "ON", "sync_binlog": "1", **release_lab.release.redo})
    places = engine.places
    variables = engine._variables()
    assert (variables["log_bin"], variables["sync_binlog"]) == ("ON", "1")
    assert Path(variables["log_bin_basename"]).parent == places["wal"] / "binlog"
    (process,) = engine.processes()
    written = {f.path for f in open_files(process.pid) if f.path.name.startswith("binlog.0")}
    assert {path.parent for path in written} == {places["wal"] / "binlog"}
    before = regular_bytes(places["wal"] / "binlog", None)
    execute(engine, "create table t (a int primary key)", "insert into t values (1), (2)")
    assert regular_bytes(places["wal"] / "binlog", None) > before
    elsewhere = {**variables, "log_bin_basename": str(places["data"] / "data/binlog")}
    with pytest.raises(RunFailed) as failed:
        verify_variables(process.pid, elsewhere, engine._cluster, {})
    assert failed.value.context.endswith(str(places["data"] / "data"))
    assert str(places["wal"] / "binlog") in failed.value.problem
    engine.stop()
    assert regular_bytes(places["wal"] / "redo", None) == pytest.approx(96 * MIB, rel=0.02)


# What is refused before anything is made ------------------------------------------


def refused(release_lab: ReleaseLab, settings: dict[str, str]) -> UsageError:
    with pytest.raises(UsageError) as caught:
        release_lab.engine(settings)
    return caught.value


def test_the_size_of_a_redo_file_with_that_of_the_whole_log_is_refused():
    """MySQL 8.0.30 to 8.4 know both and ignore the file's: by their settings' names."""
    variables = {"innodb_redo_log_capacity", "innodb_log_file_size", "innodb_log_files_in_group"}
    profile = {"loose_innodb_redo_log_capacity": "1G", "loose_innodb_log_file_size": "512M"}
    _check_redo_size("MySQL 8.4.0", profile, variables)
    _check_redo_size("MySQL 8.0.15", profile | {"innodb_log_file_size": "1G"}, variables - {
        "innodb_redo_log_capacity"
    })  # fmt: skip
    with pytest.raises(UsageError, match="innodb_log_file_size"):
        _check_redo_size("MySQL 8.4.0", profile | {"innodb_log_file_size": "1G"}, variables)


def test_a_place_of_the_binary_log_is_refused(release_lab):
    assert "log_bin=/tmp/binlog" in refused(release_lab, {"log_bin": "/tmp/binlog"}).context
    assert "log_bin_index" in refused(release_lab, {"log_bin_index": "/tmp/index"}).problem


def test_the_page_size_is_an_engine_option_since_it_is_the_data_s_format(release_lab):
    error = refused(release_lab, {"innodb_page_size": "4096"})
    assert "engine option page_size" in error.hint
    assert release_lab.engine({}, {"page_size": 4}).format_options()["innodb_page_size"] == "4096"


def test_a_start_lasts_until_the_redo_log_has_its_new_size(release_lab, monkeypatch):
    if (release_lab.release.engine, release_lab.release.number) < ("mysql", (8, 0, 30)):
        return  # the size is that of the files, which are made before the server answers
    engine = release_lab.started({"innodb_redo_log_capacity": "16M"})
    config = engine.effective_config()
    assert config["innodb_redo_log_capacity_resized"] == str(16 * MIB)
    assert config["innodb_redo_log_resize_status"] == "OK"
    assert {"gtid_mode", "enforce_gtid_consistency"} <= config.keys()  # both ON since 9.7

    states = ["OK", "Resizing down", "Resizing down"]
    status = "innodb_redo_log_resize_status"
    monkeypatch.setattr(engine, "_redo_size", lambda: {status: states.pop()})
    engine._await_redo_size()
    assert states == []
    monkeypatch.setattr(engine, "_redo_size", lambda: {status: "Resizing down"})
    monkeypatch.setenv("HARNESS_SILENCE", "start=0.1")
    with pytest.raises(RunFailed, match="Resizing down"):
        engine._await_redo_size()
    engine.kill()


# PostgreSQL ------------------------------------------------------------------------

POSTGRES_RELEASES = sorted(
    {postgres.choose({"version": v}, engines_prefix()).version for v in ("", "18")}
)
#: Of a kind each: what compresses the log, when checkpoints are, what a commit waits for.
STARTS = (
    {"wal_compression": "on", "checkpoint_timeout": "30s", "max_wal_size": "5GB"},
    {"wal_compression": "pglz", "synchronous_commit": "off", "full_page_writes": "off"},
    {"wal_compression": "off", "synchronous_commit": "local", "wal_sync_method": "open_datasync"},
)
SAME = {"on": "pglz"}


@pytest.fixture(scope="module", params=POSTGRES_RELEASES)
def release(request):
    return {"version": request.param}


def test_every_value_that_a_release_of_postgresql_takes_holds(lab, release):
    for settings in STARTS:
        engine = lab.started("postgres", settings, release)
        config = engine.effective_config()
        for name, value in settings.items():
            assert config[name] == SAME.get(value, value), name
        engine.kill()


def test_a_setting_that_a_dataset_overrides_fails_the_start(lab, release):
    """ALTER DATABASE … SET goes with the data, and the configuration file would say otherwise."""
    engine = lab.started("postgres", {}, release)
    execute(engine, "alter database harness set synchronous_commit = off")
    overriding = lab.stored(engine)
    engine = lab.engine("postgres", {"synchronous_commit": "on"}, release)
    engine.restore(overriding, lab.places())
    with pytest.raises(RunFailed) as failed:
        engine.start()
    assert failed.value.problem.endswith("synchronous_commit=on")
    assert " off, set for" in failed.value.context
    assert engine.processes() == []
    other = {"full_page_writes": "on", "wal_buffers": "-1"}
    untouched = lab.started("postgres", other, release, dataset=overriding)
    assert untouched.effective_config()["wal_buffers"] != "-1"  # a size left to the server


@pytest.mark.parametrize("version", ["18", "15"])
def test_page_checksums_can_be_off(lab, version):
    options = {"version": version, "checksums": "off"}
    engine = lab.started("postgres", options=options, fresh=True)
    on = lab.engine("postgres", options=options | {"checksums": "on"})
    assert engine.format_options() != on.format_options()
    assert engine.effective_config()["data_checksums"] == "off"
    engine.kill()
    with pytest.raises(UsageError):
        lab.engine("postgres", options=options | {"checksums": "maybe"})


# ``tuning: paper`` ------------------------------------------------------------------
#
# ``paper_defaults.csv``: defaults of PostgreSQL 13.2 and MySQL 8.0.23 (of a buffer pool below
# 1 GiB) by their manuals, as the server writes them. What a later release has no setting for is
# in docs/papers.md. The paper itself turns the binary log off.

HOST = {"memory": 2.0 * GIB, "cores": 2.0, "scale": 1.0, "connections": 8.0, "window": 60.0}
SHOW = {"postgres": "SHOW ALL", "mysql": "SHOW GLOBAL VARIABLES"}


def defaults(engine: str) -> Iterator[tuple[str, str]]:
    with Path(__file__).with_name("paper_defaults.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            if row["engine"] == engine:
                yield row["setting"], row["default"]


@pytest.mark.parametrize(
    ("engine", "version"),
    [("postgres", "15"), ("postgres", "17"), ("postgres", "18"), ("mysql", "8.0.15"),
     ("mysql", "9.7.4")],
)  # fmt: skip
def test_a_server_has_the_defaults_of_the_paper_s_release(lab, engine, version):
    server = lab.started(engine, settings_for("paper", engine, HOST), {"version": version})
    values = {str(row[0]): str(row[1]) for row in execute(server, SHOW[engine])}
    server.kill()
    expected = {name: value for name, value in defaults(engine) if name in values}
    assert {name: values[name] for name in expected} == expected
    assert len(expected) > 15
