"""Settings of another server's file. The files here are written by hand."""

from pathlib import Path
from typing import Any

import pytest

from harness import paths, registry
from harness.engine import ServerFile
from harness.errors import UsageError

POSTGRES = """\
# a production server's
data_directory = '/var/lib/postgresql/15/main'\t# use data in another directory
listen_addresses = '*'
port = 5433
include_dir = 'conf.d'
Shared_Buffers = 64MB
work_mem '8MB'   # without an equals sign
work_mem = 16MB
default_text_search_config = 'pg_catalog.english'
application_name = 'it''s # no comment'
archive_mode = on
archive_command = 'cp %p /archive/%f'
ssl_key_file = '/etc/ssl/private/key.pem'
unix_socket_directories = '/run/postgresql'
lc_messages = 'de_DE.UTF-8'
TimeZone = 'Europe/Berlin'
pg_stat_statements.track = all
"""
POSTGRES_LEFT_OUT = (2, 3, 4, 5, 11, 12, 13, 14, 15, 16)
INNODB = """\
[client]
port = 3306
[mysqld_safe]
malloc-lib = /usr/lib/libjemalloc.so
[mysqld]
; a comment
user = mysql
datadir=/var/lib/mysql
socket = /run/mysqld/mysqld.sock
skip-external-locking
skip-name-resolve
innodb-buffer-pool-size = 256M  # in the middle of a line
max_connections = "300"
log_bin = /var/log/mysql/mysql-bin.log
sort_buffer_size=1M
bind-address = 0.0.0.0
slow_query_log_file = '/var/log/slow.log'
loose-no_such_setting = 1
!includedir /etc/mysql/conf.d/
"""
INNODB_NOTED = (1, 3, 7, 8, 9, 11, 14, 16, 17, 18, 19)


def read(engine: str, text: str, file: str = "its.cnf") -> ServerFile:
    reader = registry.engine(engine, "sql").read_server_file
    assert reader is not None
    return reader({}, paths.engines_prefix(), file, text)


def lines_of(notes: Any) -> list[int]:
    return [int(note.partition(":")[0].rpartition(" ")[2]) for note in notes]


def test_a_postgresql_conf_is_taken_and_what_names_its_server_left_out() -> None:
    of_file = read("postgres", POSTGRES)
    assert of_file.values == {
        "shared_buffers": "64MB", "work_mem": "16MB", "pg_stat_statements.track": "all",
        "default_text_search_config": "pg_catalog.english", "application_name": "it's # no comment",
    }  # fmt: skip
    assert lines_of(of_file.notes) == list(POSTGRES_LEFT_OUT)


@pytest.mark.parametrize("engine", ["mysql", "mariadb"])
def test_a_my_cnf_is_taken_and_what_names_its_server_left_out(engine: str) -> None:
    of_file = read(engine, INNODB)
    assert of_file.values == {
        "external_locking": "OFF", "innodb_buffer_pool_size": "256M", "max_connections": "300",
        "log_bin": "ON", "sort_buffer_size": "1M",
    }  # fmt: skip
    assert lines_of(of_file.notes) == list(INNODB_NOTED)


def test_the_whole_redo_log_is_what_mysql_computes() -> None:
    text = "[mysqld]\ninnodb_log_file_size = 1G\ninnodb_log_files_in_group = 4\n"
    assert read("mysql", text).values == {"innodb_redo_log_capacity": str(4 << 30)}
    text += "innodb_redo_log_capacity = 2G\n"
    assert read("mysql", text).values == {"innodb_redo_log_capacity": "2G"}


@pytest.mark.parametrize(
    ("engine", "text", "line"),
    [
        ("postgres", "work_mem = 4MB\nshared_bufers = 1GB\n", 2),
        ("postgres", "work_mem\n", 1),
        ("mysql", "[mysqld]\nquery_cash_size = 0\n", 2),
        ("mysql", "max_connections = 10\n", 1),
    ],
)
def test_what_is_no_setting_is_an_error_of_its_line(engine: str, text: str, line: int) -> None:
    with pytest.raises(UsageError) as refused:
        read(engine, text)
    assert refused.value.problem.startswith(f"its.cnf, line {line}")


def test_the_command_line_wins_over_a_file(loaded: Any, tmp_path: Path) -> None:
    file = tmp_path / "postgresql.conf"
    file.write_text("work_mem = 8MB\nrandom_page_cost = 1.5\nport = 5433\n")
    size = ("--records", "500", "--operations", "300", "--ramp-up", "0s", "--threads", "2")
    command = ("run", "ycsb", "--engine", "postgres", "--placement", "ssd-both", *size)
    done = loaded(*command, "--set-file", file, "--set", "work_mem=6MB", "--json")
    (run,) = done.json["runs"]
    assert run["spec"]["settings"] == {"work_mem": "6MB", "random_page_cost": "1.5"}
    assert f"{file}, line 3" in done.err
    refused = loaded("run", "ycsb", "--engine", "rocksdb", "--set-file", file)
    assert refused.code == 2 and str(file) in refused.err
