"""The settings that the VLDB 2023 paper turns (§5.3.1, §5.3.7), and those of durability, on every
release: refused beforehand where it cannot take them, and seen to hold in the running server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engines.postgres.installation import choose
from harness.errors import RunFailed, UsageError
from harness.paths import engines_prefix

RELEASES = sorted({choose({"version": v}, engines_prefix()).version for v in ("", "18")})
#: Of a kind each: what compresses the log, when checkpoints are, what a commit waits for.
STARTS = (
    {"wal_compression": "on", "checkpoint_timeout": "30s", "max_wal_size": "5GB"},
    {"wal_compression": "pglz", "synchronous_commit": "off", "full_page_writes": "off"},
    {"wal_compression": "off", "synchronous_commit": "local", "wal_sync_method": "open_datasync"},
)
SAME = {"on": "pglz"}


class Kept:
    """Golden data of one release, and servers on copies of them."""

    def __init__(self, version: str, lab: Any, golden: Path) -> None:
        self._version, self._lab, self.golden = version, lab, golden

    def engine(self, settings: dict[str, str], options: dict[str, Any] | None = None) -> Any:
        given = {"version": self._version} | (options or {})
        return self._lab.engine("postgres", settings, given)

    def restored(self, settings: dict[str, str], golden: Path | None = None) -> Any:
        engine = self.engine(settings)
        engine.restore(golden or self.golden, self._lab.places())
        return engine

    def directory(self, name: str) -> Path:
        folder: Path = self._lab.directory(name)
        return folder


@pytest.fixture(scope="module", params=RELEASES)
def kept(request: pytest.FixtureRequest, module_lab: Any, empty_engines: Any) -> Kept:
    return Kept(request.param, module_lab, empty_engines.data("postgres", request.param))


def test_every_value_that_a_release_takes_holds(kept: Kept) -> None:
    for settings in STARTS:
        engine = kept.restored(settings)
        engine.start()
        config = engine.effective_config()
        for name, value in settings.items():
            assert config[name] == SAME.get(value, value), name
        engine.kill()


def test_a_setting_that_a_dataset_overrides_fails_the_start(kept: Kept) -> None:
    """ALTER DATABASE … SET goes with the data, and the configuration file would say otherwise."""
    engine = kept.restored({})
    engine.start()
    connection = engine.connect()
    connection.execute("alter database harness set synchronous_commit = off")
    connection.close()
    engine.stop()
    golden = kept.directory("overriding")
    engine.snapshot(golden)
    engine = kept.restored({"synchronous_commit": "on"}, golden)
    with pytest.raises(RunFailed, match=r"synchronous_commit=on: the server has off, set for a"):
        engine.start()
    assert engine.processes() == []
    untouched = kept.restored({"full_page_writes": "on"}, golden)
    untouched.start()
    untouched.kill()


def test_a_size_left_to_the_server_is_its_own(kept: Kept) -> None:
    engine = kept.restored({"wal_buffers": "-1"})
    engine.start()
    assert engine.effective_config()["wal_buffers"] != "-1"
    engine.kill()


@pytest.mark.parametrize("version", ["18", "15"])
def test_page_checksums_can_be_off(lab: Any, version: str) -> None:
    options = {"version": version, "checksums": "off"}
    engine = lab.engine("postgres", options=options)
    on = lab.engine("postgres", options=options | {"checksums": "on"})
    assert engine.format_options() != on.format_options()
    engine.initialise(lab.places())
    engine.start()
    assert engine.effective_config()["data_checksums"] == "off"
    engine.kill()
    with pytest.raises(UsageError):
        lab.engine("postgres", options=options | {"checksums": "maybe"})
