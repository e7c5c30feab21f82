"""Warnings from engines' counters and settings: write-back unlike a long run's, lost commits."""

from types import SimpleNamespace
from typing import Any

import pytest
from idle_engine import IdleEngine

from engines._innodb.counters import write_back_warnings as of_innodb
from engines._innodb.durability import lost_without_power
from engines.postgres.checkpoints import write_back_warnings as of_postgres
from engines.rocksdb.background import write_back_warnings as of_rocksdb
from harness.drivers.result import DriverResult, WindowCounters
from harness.drivers.validity import write_back_warnings
from harness.warnings import RunWarning

S = 10**9
MB = 1_000_000


def postgres(
    before: int, within: int, *, window_s: int = 180, interval_s: int = 60, log_mb: int = 2000,
    images: int = 0, requested: int = 0, written_mb: int = 0,
) -> list[str]:  # fmt: skip
    ramp_up = {"postgres_checkpoints_timed_count": before}
    window = {
        "postgres_checkpoints_timed_count": within,
        "postgres_checkpoints_requested_count": requested,
        "postgres_checkpoint_written_bytes": written_mb * MB,
        "postgres_wal_written_bytes": log_mb * MB,
        "postgres_wal_full_page_images_count": images,
    }
    warnings = of_postgres(
        ramp_up, window, window_s * S, interval_s=interval_s, block_bytes=8192
    )  # fmt: skip
    return [warning.code for warning in warnings]


@pytest.mark.parametrize(
    ("counters", "codes"),
    [
        # by default: a checkpoint before the window, and three intervals of a minute in it
        ({"before": 2, "within": 3}, []),
        # checkpoint_timeout as long as servers have it, a window of minutes
        ({"before": 0, "within": 0, "interval_s": 900}, ["no-checkpoint-in-window"]),
        # the one of the window began right before it, the next right after it
        ({"before": 3, "within": 0, "window_s": 60, "written_mb": 300}, []),
        (
            {"before": 3, "within": 0, "window_s": 30, "written_mb": 150},
            ["no-checkpoint-in-window"],
        ),
        ({"before": 0, "within": 3}, ["no-checkpoint-in-ramp-up"]),
        # one and a half intervals: a third of the writes more or less, as it happens
        ({"before": 1, "within": 1, "window_s": 90}, ["checkpoint-cut-off"]),
        ({"before": 1, "within": 1, "window_s": 65}, []),
        # the size of the log spaces them then, whatever the interval
        ({"before": 1, "within": 1, "window_s": 90, "requested": 9}, []),
        ({"before": 2, "within": 3, "images": 200_000}, ["full-page-images"]),
        ({"before": 2, "within": 3, "images": 100_000}, []),
        # reads: there is nothing to write back
        ({"before": 0, "within": 0, "log_mb": 10}, []),
    ],
)
def test_postgresql_s_window_is_a_whole_number_of_checkpoints(counters, codes):
    assert postgres(**counters) == codes


@pytest.mark.parametrize(
    ("checkpointed_mb", "codes"),
    [
        (0, ["redo-checkpoint-not-steady"]),
        (700, ["redo-checkpoint-not-steady"]),
        (900, []),
        (1100, []),
        # dirty pages of the ramp-up are written in the window
        (1300, ["redo-checkpoint-not-steady"]),
    ],
)
def test_innodb_s_checkpoint_moves_on_as_fast_as_its_log_grows(checkpointed_mb, codes):
    window = {
        "innodb_redo_bytes": 1000 * MB,
        "innodb_redo_checkpointed_bytes": checkpointed_mb * MB,
    }
    assert [warning.code for warning in of_innodb(window)] == codes
    little = {"innodb_redo_bytes": 10 * MB, "innodb_redo_checkpointed_bytes": 0}
    assert not list(of_innodb(little))


@pytest.mark.parametrize(
    ("flushed_mb", "compacted_mb", "behind_mb", "codes"),
    [
        (900, 4000, 1000, []),  # a compaction was due as the window ended
        (0, 0, 0, ["no-flush-in-window"]),
        (256, 0, 0, ["no-compaction-in-window"]),
        (900, 4000, 2100, ["compaction-backlog-grows"]),
    ],
)
def test_rocksdb_flushes_and_compacts_what_is_written(flushed_mb, compacted_mb, behind_mb, codes):
    window = {
        "rocksdb_written_bytes": 1000 * MB,
        "rocksdb_flush_write_bytes": flushed_mb * MB,
        "rocksdb_compact_write_bytes": compacted_mb * MB,
        "rocksdb_pending_compaction_bytes": behind_mb * MB,
    }
    assert [warning.code for warning in of_rocksdb(window)] == codes


class Writer(IdleEngine):
    """An engine that counts what it does, and has seen what it is given."""

    def __init__(self) -> None:
        self.pages = 0

    def write_back_warnings(self, ramp_up, window, window_ns: int):
        return [RunWarning("seen", "seen", f"{ramp_up} {window} {window_ns}")]


def test_an_engine_is_given_what_ramp_up_and_window_added_to_its_counters():
    engine: Any = Writer()
    pages = iter((100, 110, 140))
    session: Any = SimpleNamespace(
        engine=engine, counters=lambda moment="after": {"pages": next(pages)}
    )
    counted = WindowCounters(session)
    counted.begin()
    counted.end()
    driven = DriverResult("loadgen", "1", S, engine_counters={"inside": 7})
    (warning,) = write_back_warnings(engine, driven, counted)
    assert warning.code == "seen"
    assert warning.context == "{'pages': 10} {'pages': 30, 'inside': 7} 1000000000"
    late = DriverResult("ycsb", "1", S, counters_late_ns=S)  # counters are not the window's
    assert not list(write_back_warnings(engine, late, counted))


# Settings by which a loss of power may take acknowledged commits --------------------

RISKY = {
    "postgres": {"synchronous_commit": "off", "fsync": "off", "full_page_writes": "off"},
    "mysql": {
        "innodb_flush_log_at_trx_commit": "2",
        "innodb_flush_method": "O_DIRECT_NO_FSYNC",
        "innodb_doublewrite": "OFF",
        "log_bin": "ON",
        "sync_binlog": "0",
    },
    "mariadb": {
        "innodb_flush_log_at_trx_commit": "0",
        "innodb_flush_method": "O_DIRECT_NO_FSYNC",
        "innodb_doublewrite": "OFF",
        "log_bin": "ON",
        "sync_binlog": "0",
    },
}


def warned_settings(lab, name: str, settings: dict[str, str]) -> set[str]:
    """Names of the settings that a server of the engine reports on restored data."""
    engine = lab.started(name, settings)
    risks = engine.lost_without_power()
    assert set(engine.effective_config()) >= set(engine.durability_settings)
    engine.kill()
    assert all(meaning for meaning in risks.values())
    return {pair.partition("=")[0] for pair in risks}


@pytest.mark.parametrize("name", RISKY)
def test_defaults_keep_acknowledged_commits_and_risks_are_reported(lab, name):
    assert warned_settings(lab, name, {}) == set()
    assert warned_settings(lab, name, RISKY[name]) == set(RISKY[name]) - {"log_bin"}


@pytest.mark.parametrize(
    ("variables", "risks"),
    [
        ({"innodb_flush_log_at_trx_commit": "3"}, set()),
        ({"log_bin": "OFF", "sync_binlog": "0"}, set()),
        ({"log_bin": "ON", "sync_binlog": "100"}, {"sync_binlog=100"}),
        ({"innodb_doublewrite": "DETECT_ONLY"}, {"innodb_doublewrite=DETECT_ONLY"}),
        ({"innodb_doublewrite": "fast"}, {"innodb_doublewrite=fast"}),
    ],
)
def test_a_value_is_a_risk_where_it_has_an_effect(variables, risks):
    assert set(lost_without_power(variables)) == risks
