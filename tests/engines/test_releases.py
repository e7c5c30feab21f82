"""Releases as servers of PostgreSQL's, Oracle's and other vendors print them."""

from __future__ import annotations

from pathlib import Path

import pytest
from scratch import open_directory

from engines._innodb import installation as innodb
from engines.postgres import installation as postgres
from harness.errors import UsageError


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
def test_a_release_of_postgresql(banner: str, release: str, numbers: tuple[int, ...]) -> None:
    with open_directory() as folder:
        prints(folder, "postgres", f"postgres (PostgreSQL) {banner}")
        prints(folder, "initdb", "")
        found = postgres.choose({"prefix": str(folder)}, folder)
    assert (found.version, found.version_tuple) == (release, numbers)
    assert found.is_release(release) and found.is_release(str(numbers[0]))
    assert not found.is_release(str(numbers[0])[:1])


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
def test_a_release_of_mysql_or_mariadb(banner: str, flavour: innodb.Flavour, release: str) -> None:
    other: innodb.Flavour = "mysql" if flavour == "mariadb" else "mariadb"
    with open_directory() as folder:
        prints(folder, "mysqld", banner)
        found = innodb.choose(flavour, {"prefix": str(folder)}, folder)
        assert found.version == release and banner in found.build
        with pytest.raises(UsageError, match=release):
            innodb.choose(other, {"prefix": str(folder)}, folder)
