"""Tuning profiles: settings from cores and memory."""

import math
from collections.abc import Iterator

import pytest

from engines._innodb.installation import Flavour
from harness.experiment.tuning import settings_for, tunings
from harness.units import GIB

HOST = {"memory": 16.0 * GIB, "cores": 8.0, "scale": math.nan, "connections": 0.0,
        "window": 60.0, "data": 0.0}  # fmt: skip


def test_computed_from_memory_and_cores() -> None:
    settings = settings_for("computed", "postgres", HOST)
    assert settings["shared_buffers"] == "4194304kB"  # a quarter of 16 GiB
    assert settings["max_parallel_workers"] == "8"
    duckdb = settings_for("computed", "duckdb", HOST)
    assert duckdb == {"threads": "8", "memory_limit": "13421772KiB"}


@pytest.mark.parametrize(
    ("window_s", "interval"),
    # 20 s cannot hold an interval: 30 s is the least that PostgreSQL takes
    [(1, 30), (20, 30), (45, 45), (60, 60), (90, 45), (180, 60), (200, 50), (540, 60), (7200, 60)],
)
def test_a_window_holds_a_whole_number_of_checkpoints(window_s: float, interval: int) -> None:
    settings = settings_for("computed", "postgres", HOST | {"window": window_s})
    assert settings["checkpoint_timeout"] == str(interval)


def test_the_paper_s_settings() -> None:
    """VLDB 2023 §3.1: 16 GB of buffers on a socket with 64 GB; checkpoints at 30 s or 5 GB."""
    settings = settings_for("paper", "postgres", HOST | {"memory": 64.0 * GIB, "cores": 48.0})
    assert settings["shared_buffers"] == f"{16 * 1024 * 1024}kB"
    assert (settings["checkpoint_timeout"], settings["max_wal_size"]) == ("30s", "5GB")
    assert settings["max_parallel_workers_per_gather"] == "24"
    assert (settings["work_mem"], settings["effective_cache_size"]) == ("17476kB", "50331648kB")


def test_the_paper_s_settings_for_rocksdb() -> None:
    """YCSB 0.17.0's binding: optimizeLevelStyleCompaction, 2 × processors compactions."""
    settings = settings_for("paper", "rocksdb", HOST | {"cores": 48.0})
    assert (settings["max_background_jobs"], settings["max_background_compactions"]) == ("96", "96")
    levels = settings["compression_per_level"].split(":")
    assert levels == ["kNoCompression"] * 2 + ["kLZ4Compression"] * 5
    assert settings["level_compaction_dynamic_level_bytes"] in ("false", "False", "off")
    assert settings["block_cache"] == str(8 << 20)
    assert settings["write_buffer_size"] == str(128 << 20)


def test_memory_mode_keeps_the_buffers_of_the_other_modes() -> None:
    """VLDB 2023 §3.1: 16 GB of buffers, beside 64 GB of DRAM or in 256 GB of Memory Mode."""
    for engine in ("postgres", "duckdb", "mysql", "mariadb"):
        dram = settings_for("paper", engine, HOST | {"memory": 64.0 * GIB})
        mode = settings_for("paper-memory-mode", engine, HOST | {"memory": 256.0 * GIB})
        assert mode == dram


def test_the_paper_s_settings_for_tpcc() -> None:
    """VLDB 2023 §3.1: 48 GB of buffers for 1000 warehouses; checkpoints at 30 s or 5 GB."""
    host = HOST | {"memory": 64e9, "cores": 24.0, "scale": 1000.0, "connections": 128.0}
    postgres = settings_for("paper-tpcc", "postgres", host)
    assert postgres["shared_buffers"] == f"{48 * 10**9 // 1024}kB"
    assert (postgres["checkpoint_timeout"], postgres["max_wal_size"]) == ("30s", "5GB")
    mysql = settings_for("paper-tpcc", "mysql", host)
    assert mysql["innodb_buffer_pool_size"] == f"{48 * 10**9 // 2**20}M"
    assert mysql["innodb_flush_method"] == "fsync" and "log_bin" not in mysql
    tenth = settings_for("paper-tpcc", "postgres", host | {"scale": 10.0, "memory": 2e9})
    assert tenth["shared_buffers"] == f"{48 * 10**7 // 1024}kB"


@pytest.mark.parametrize("tuning", tunings())
@pytest.mark.parametrize("engine", ["postgres", "mysql", "mariadb"])
def test_there_are_connections_for_every_user_and_for_who_watches(tuning: str, engine: str) -> None:
    defaults = {"postgres": 100, "mysql": 151, "mariadb": 151}
    for connections in (0, 1, 128, 1000):
        host = HOST | {"scale": 10.0, "connections": float(connections)}
        settings = settings_for(tuning, engine, host)
        most = int(settings.get("max_connections", defaults[engine]))
        assert most >= connections + 20, (connections, settings)


def test_overrides_win() -> None:
    settings = settings_for("computed", "postgres", HOST, {"shared_buffers": "1GB", "jit": "off"})
    assert settings["shared_buffers"] == "1GB" and settings["jit"] == "off"


#: Small, ordinary and large: memory in GiB, scale, connections.
HOSTS = ((0.25, 1.0, 0.0), (4.0, 10.0, 8.0), (64.0, 1000.0, 128.0), (1024.0, 10000.0, 1000.0))


def settings_of_every_profile(engine: str) -> Iterator[dict[str, str]]:
    for tuning in tunings():
        for memory, scale, connections in HOSTS:
            values = {"memory": memory * GIB, "scale": scale, "connections": connections}
            yield settings_for(tuning, engine, HOST | values)


@pytest.mark.system
def test_every_profile_gives_settings_that_postgresql_takes() -> None:
    from engines.postgres.configuration import check_settings
    from engines.postgres.installation import choose
    from harness.paths import engines_prefix

    for version in ("", "18.4"):
        installation = choose({"version": version}, engines_prefix())
        for settings in settings_of_every_profile("postgres"):
            check_settings(installation, settings)


@pytest.mark.system
@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_every_profile_gives_settings_that_innodb_s_servers_take(flavour: Flavour) -> None:
    """Check all releases in the private prefix: settings that one of them lacks are ``loose_``."""
    from engines._innodb.configuration import check_settings
    from engines._innodb.installation import _private, choose
    from harness.paths import engines_prefix

    prefix = engines_prefix()
    for installation in {choose(flavour, {}, prefix), *_private(flavour, prefix)}:
        for settings in settings_of_every_profile(flavour):
            check_settings(installation, settings)
