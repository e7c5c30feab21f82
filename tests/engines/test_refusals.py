"""Settings, options and releases that an engine does not take: an error before anything is made."""

from pathlib import Path

import pytest
from scratch import open_directory

from engines._innodb import installation as innodb
from engines.postgres import installation as postgres
from harness import registry
from harness.errors import UsageError

#: By engine: settings, and what the error names.
REFUSED = {
    "postgres": (
        ({"shared_bufers": "1GB"}, "did you mean 'shared_buffers'"),
        ({"work_mem": "12xx"}, 'invalid value for parameter "work_mem"'),
        ({"listen_addresses": "*"}, "listen_addresses"),
    ),
    "mysql": (
        ({"innodb_bufer_pool_size": "64M"}, "did you mean 'innodb_buffer_pool_size'"),
        ({"innodb-io-capacity": "1000"}, "did you mean 'innodb_io_capacity'"),
        ({"datadir": "/tmp"}, "setting datadir"),
        ({"loose_datadir": "/tmp"}, "setting loose_datadir"),
        ({"innodb_buffer_pool_load_at_startup": "ON"}, "setting innodb_buffer_pool_load"),
        ({"sort_buffer_size": "lots"}, "Unknown suffix 'l'"),
        ({"innodb_io_capacity": "5"}, "innodb_io_capacity=5 would be 100"),
        ({"innodb_flush_method": "nonsense"}, "innodb_flush_method"),
    ),
    "duckdb": (
        ({"memory_limt": "1GiB"}, "did you mean 'memory_limit'"),
        ({"memory_limit": "lots"}, "Memory must have a number"),
        ({"temp_directory": "/tmp"}, "temp_directory"),
    ),
    "rocksdb": (
        ({"write_bufer_size": "1M"}, "did you mean 'write_buffer_size'"),
        ({"write_buffer_size": "much"}, "Error parsing"),
        ({"compression": "kNoSuchCompression"}, "compression"),
        ({"allow_mmap_reads": "true", "use_direct_reads": "true"}, "must be disabled"),
        ({"num_levels": "1"}, "num_levels=1 would be"),
        ({"wal_dir": "/tmp"}, "setting wal_dir"),
        ({"block_based_table_factory": "{block_size=4096}"}, "block_based_table_factory"),
        ({"block_size": "4096;no_block_cache=true"}, "block_size=4096;no_block_cache=true"),
        ({"block_cache": "0.5G"}, "block_cache=0.5G"),
        ({"block_cache": "-1"}, "block_cache=-1"),
        ({"block_cache": "{capacity=64M}"}, "block_cache={capacity=64M}"),
        ({"block_cache": "18446744073709551616"}, "block_cache"),
        ({"no_block_cache": "true"}, "write block_cache=0"),
        ({"write_buffer_size": "0.5G"}, "write_buffer_size=0.5G would be"),
        ({"compression_per_level": "kNoSuch"}, "compression_per_level"),
        ({"sync": "perhaps"}, "sync=perhaps"),
        ({"sync": "true", "disable_wal": "true"}, "sync with disable_wal"),
        ({"row_cache": "0.5G"}, "row_cache=0.5G"),
        ({"row_cache": "-1"}, "row_cache=-1"),
        ({"row_cash": "64M"}, "did you mean 'row_cache'"),
        ({"row_cache": "16M", "info_log_level": "WARN_LEVEL"}, "info_log_level"),
    ),
    "voltdb": (
        ({"sitesperhosts": "2"}, "did you mean 'sitesperhost'"),
        ({"sitesperhost": "two"}, "a whole number"),
        ({"snapshot_frequency": "1"}, "a period such as"),
        ({"snapshot_enabled": "maybe"}, "true or false"),
        ({"java_heap": "512"}, "a size such as"),
    ),
}
SERVERS = ("postgres", "mysql", "voltdb")


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [(name, settings, words) for name, rows in REFUSED.items() for settings, words in rows],
)
def test_a_setting_that_the_engine_does_not_accept(module_lab, name, settings, words):
    with pytest.raises(UsageError) as caught:
        module_lab.engine(name, settings)
    assert words in f"{caught.value} {caught.value.hint}" and caught.value.hint
    assert not any((module_lab.root / f"{module_lab.made}-s").iterdir())


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("option", ["start_timeout_s", "stop_timeout_s"])
def test_a_timeout_that_is_not_a_positive_number(module_lab, name, option):
    assert option in registry.engine(name).options
    for value in ("0", "-1", "soon", "nan", None):
        with pytest.raises(UsageError) as caught:
            module_lab.engine(name, options={option: value})
        assert caught.value.problem == f"engine option {option}={value}"


@pytest.mark.parametrize("name", (*SERVERS, "rocksdb"))
def test_a_release_that_is_not_installed(name, tmp_path):
    with pytest.raises(UsageError, match="installations found") as caught:
        registry.engine(name).available({"version": "99.9"}, tmp_path)
    setup = "make setup" if name == "postgres" else f"harness engines install {name}"
    assert setup in caught.value.hint


# Releases as servers of PostgreSQL's, Oracle's and other vendors print them ---------


def prints(folder: Path, name: str, banner: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{banner}'\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("banner", "release", "numbers"),
    [
        ("18.4", "18.4", (18, 4)),
        ("15.18 (Debian 15.18-0+deb12u1)", "15.18", (15, 18)),
        ("17.5 - Percona Server for PostgreSQL 17.5.3", "17.5", (17, 5)),
        ("18rc1", "18rc1", (18,)),
        ("19beta1 (Debian 19~beta1-1.pgdg13+1)", "19beta1", (19,)),
        ("20devel", "20devel", (20,)),
    ],
)
def test_a_release_of_postgresql(banner, release, numbers):
    with open_directory() as folder:
        prints(folder, "postgres", f"postgres (PostgreSQL) {banner}")
        prints(folder, "initdb", "")
        installation = postgres.choose({"prefix": str(folder)}, folder)
    assert (installation.version, installation.version_tuple) == (release, numbers)
    assert installation.is_release(release) and installation.is_release(str(numbers[0]))
    assert not installation.is_release(str(numbers[0])[:1])


@pytest.mark.parametrize(
    ("banner", "flavour", "release"),
    [
        ("mysqld  Ver 8.4.6-commercial for Linux on x86_64", "mysql", "8.4.6"),
        ("mysqld  Ver 8.0.43-34 for Linux on x86_64 (Percona Server (GPL))", "mysql", "8.0.43"),
        ("mysqld  Ver 8.0.43-0ubuntu0.24.04.1 for Linux", "mysql", "8.0.43"),
        ("mariadbd  Ver 11.8.3-MariaDB-0+deb13u1 for debian-linux-gnu", "mariadb", "11.8.3"),
        ("mysqld  Ver 10.3.39-MariaDB-log for Linux on x86_64", "mariadb", "10.3.39"),
    ],
)
def test_a_release_of_mysql_or_mariadb(banner, flavour, release):
    other: innodb.Flavour = "mysql" if flavour == "mariadb" else "mariadb"
    with open_directory() as folder:
        prints(folder, "mysqld", banner)
        installation = innodb.choose(flavour, {"prefix": str(folder)}, folder)
        assert installation.version == release and banner in installation.build
        with pytest.raises(UsageError, match=release):
            innodb.choose(other, {"prefix": str(folder)}, folder)
