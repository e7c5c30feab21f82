"""The settings that the VLDB 2023 paper turns (§5.3.1, §5.3.7), and those of durability, on every
release: refused beforehand where it cannot take them, and seen to hold in the running server.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from lab import Lab

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


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"version": request.param}


def test_every_value_that_a_release_takes_holds(lab: Lab, release: dict[str, str]) -> None:
    for settings in STARTS:
        engine = lab.started("postgres", settings, release)
        config = engine.effective_config()
        for name, value in settings.items():
            assert config[name] == SAME.get(value, value), name
        engine.kill()


def test_a_setting_that_a_dataset_overrides_fails_the_start(lab, release):
    """ALTER DATABASE … SET goes with the data, and the configuration file would say otherwise."""
    engine = lab.started("postgres", {}, release)
    with closing(engine.connect()) as connection:
        connection.execute("alter database harness set synchronous_commit = off")
    engine.stop()
    engine.snapshot(golden := lab.directory("overriding"))
    engine = lab.engine("postgres", {"synchronous_commit": "on"}, release)
    engine.restore(golden, lab.places())
    with pytest.raises(RunFailed, match=r"synchronous_commit=on: the server has off, set for a"):
        engine.start()
    assert engine.processes() == []
    untouched = lab.engine("postgres", {"full_page_writes": "on", "wal_buffers": "-1"}, release)
    untouched.restore(golden, lab.places())
    untouched.start()
    assert untouched.effective_config()["wal_buffers"] != "-1"  # a size left to the server
    untouched.kill()


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
