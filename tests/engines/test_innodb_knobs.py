"""The settings that the VLDB 2023 paper turns (§5.3), on every release: refused beforehand
where it cannot take them, and seen to hold in the running server where it can.

What a release takes is written down here (docs/tuning.md has the same table), what it does
is asked of the server and of the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from lab import empty

from engines._innodb.configuration import _check_redo_size
from engines._innodb.installation import Flavour, _private, choose
from engines._innodb.verify import open_files, verify_variables
from harness.errors import RunFailed, UsageError
from harness.paths import engines_prefix
from harness.supervise.user_files import regular_bytes
from harness.units import MIB

METHODS = ("fsync", "O_DSYNC", "O_DIRECT", "O_DIRECT_NO_FSYNC")


#: All that any release takes, in the order of the message.
DOUBLEWRITE = ("ON", "OFF", "DETECT_AND_RECOVER", "DETECT_ONLY", "FAST")


@dataclass(frozen=True)
class Release:
    engine: Flavour
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


def releases(engine: Flavour) -> list[Release]:
    """The one that a run would take, and the others of the private prefix."""
    prefix = engines_prefix()
    found = [choose(engine, {}, prefix), *_private(engine, prefix)]
    return [Release(engine, version) for version in sorted({i.version for i in found})]


RELEASES = [*releases("mysql"), *releases("mariadb")]


class Kept:
    """Golden data of one release, and servers on copies of them."""

    def __init__(self, release: Release, lab: Any, golden: Path) -> None:
        self.release = release
        self._lab, self._golden = lab, golden

    def engine(self, settings: dict[str, str], options: dict[str, Any] | None = None) -> Any:
        given = {"version": self.release.version} | (options or {})
        return self._lab.engine(self.release.engine, settings, given)

    def started(self, settings: dict[str, str]) -> tuple[Any, Any]:
        """A server with these settings, and its places."""
        engine, places = self.engine(settings), self._lab.places()
        engine.restore(self._golden, places)
        engine.start()
        return engine, places


@pytest.fixture(scope="module", params=RELEASES, ids=lambda r: f"{r.engine}-{r.version}")
def kept(request: pytest.FixtureRequest, module_lab: Any) -> Kept:
    release = request.param
    return Kept(release, module_lab, empty(release.engine, {"version": release.version}))


def write_threads(engine: Any) -> int:
    """Threads that MySQL itself says write pages."""
    ((count,),) = engine._query(
        "select count(*) from performance_schema.threads "
        "where name = 'thread/innodb/io_write_thread'"
    )
    return int(count)


def tablespace(engine: Any, places: Any) -> Any:
    (process,) = engine.processes()
    (found,) = [f for f in open_files(process.pid) if f.path == places["data"] / "data/ibdata1"]
    return found


def bypasses_cache(release: Release, method: str) -> bool:
    """Whether data files are to be opened with O_DIRECT: MariaDB's O_DSYNC does that, too."""
    return method.startswith("O_DIRECT") or (release.engine, method) == ("mariadb", "O_DSYNC")


# What holds in the running server -------------------------------------------------


def test_every_value_that_a_release_takes_holds(kept: Kept) -> None:
    """Each of them in some start, several settings at a time: a start takes seconds."""
    least, most = kept.release.write_threads
    for method, doublewrite, threads, aio in zip_longest(
        METHODS, kept.release.doublewrite, (least, "8", most), ("OFF", "ON"), fillvalue=None
    ):
        asked = {
            "innodb_flush_method": method,
            "innodb_doublewrite": doublewrite,
            "innodb_write_io_threads": threads,
            "innodb_use_native_aio": aio,
        }
        settings = {name: value for name, value in asked.items() if value is not None}
        engine, places = kept.started(settings)
        found, config = engine._variables(), engine.effective_config()
        for name, value in settings.items():
            assert found[name].casefold() == config[name].casefold() == value.casefold()
        assert tablespace(engine, places).direct is bypasses_cache(kept.release, method or "")
        if threads and kept.release.engine == "mysql":  # MariaDB takes them from a pool
            assert write_threads(engine) == int(threads)
        assert found["log_bin"] == "OFF"
        assert not any((places["wal"] / "binlog").iterdir())
        engine.kill()


def test_the_binary_log_lies_with_the_wal_and_the_redo_log_has_its_size(kept: Kept) -> None:
    engine, places = kept.started({"log_bin": "ON", "sync_binlog": "1", **kept.release.redo})
    found = engine._variables()
    assert (found["log_bin"], found["sync_binlog"]) == ("ON", "1")
    assert Path(found["log_bin_basename"]).parent == places["wal"] / "binlog"
    (process,) = engine.processes()
    written = {f.path for f in open_files(process.pid) if f.path.name.startswith("binlog.0")}
    assert {path.parent for path in written} == {places["wal"] / "binlog"}
    before = regular_bytes(places["wal"] / "binlog", None)
    connection = engine.connect()
    connection.execute("create table t (a int primary key)")
    connection.execute("insert into t values (1), (2)")
    connection.close()
    assert regular_bytes(places["wal"] / "binlog", None) > before
    elsewhere = {**found, "log_bin_basename": str(places["data"] / "data/binlog")}
    with pytest.raises(RunFailed, match="the server has it in"):
        verify_variables(process.pid, elsewhere, engine._cluster, {})
    engine.stop()
    assert regular_bytes(places["wal"] / "redo", None) == pytest.approx(96 * MIB, rel=0.02)


# What is refused before anything is made ------------------------------------------


def refused(kept: Kept, settings: dict[str, str]) -> UsageError:
    with pytest.raises(UsageError) as caught:
        kept.engine(settings)
    return caught.value


def test_the_size_of_a_redo_file_with_that_of_the_whole_log_is_refused() -> None:
    """MySQL 8.0.30 to 8.4 know both and ignore the file's: by their settings' names."""
    known = {"innodb_redo_log_capacity", "innodb_log_file_size", "innodb_log_files_in_group"}
    profile = {"loose_innodb_redo_log_capacity": "1G", "loose_innodb_log_file_size": "512M"}
    _check_redo_size("MySQL 8.4.0", profile, known)
    _check_redo_size("MySQL 8.0.15", profile | {"innodb_log_file_size": "1G"}, known - {
        "innodb_redo_log_capacity"
    })  # fmt: skip
    with pytest.raises(UsageError, match="innodb_log_file_size"):
        _check_redo_size("MySQL 8.4.0", profile | {"innodb_log_file_size": "1G"}, known)


def test_a_place_of_the_binary_log_is_refused(kept: Kept) -> None:
    assert "log_bin=/tmp/binlog" in refused(kept, {"log_bin": "/tmp/binlog"}).context
    assert "log_bin_index" in refused(kept, {"log_bin_index": "/tmp/index"}).problem


def test_the_page_size_is_an_engine_option_since_it_is_the_data_s_format(kept: Kept) -> None:
    error = refused(kept, {"innodb_page_size": "4096"})
    assert "engine option page_size" in error.hint
    assert kept.engine({}, {"page_size": 4}).format_options()["innodb_page_size"] == "4096"


def test_a_start_lasts_until_the_redo_log_has_its_new_size(kept, monkeypatch):
    if (kept.release.engine, kept.release.number) < ("mysql", (8, 0, 30)):
        return  # the size is that of the files, which are made before the server answers
    engine, _ = kept.started({"innodb_redo_log_capacity": "16M"})
    found = engine.effective_config()
    assert found["innodb_redo_log_capacity_resized"] == str(16 * MIB)
    assert found["innodb_redo_log_resize_status"] == "OK"
    assert {"gtid_mode", "enforce_gtid_consistency"} <= found.keys()  # both ON since 9.7

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
