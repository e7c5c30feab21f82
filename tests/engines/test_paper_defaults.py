"""``tuning: paper`` gives what the releases of the VLDB 2023 paper had by default.

``paper_defaults.csv``: defaults of PostgreSQL 13.2 and MySQL 8.0.23 (of a buffer pool below 1 GiB)
by their manuals, as the server writes them. What a later release has no setting for is in
docs/papers.md. The paper itself turns the binary log off.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.experiment.tuning import settings_for
from harness.units import GIB

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
    try:
        with closing(server.connect()) as connection:
            rows = connection.execute(SHOW[engine]).rows
    finally:
        server.kill()
    found = {str(row[0]): str(row[1]) for row in rows}
    known = {name: value for name, value in defaults(engine) if name in found}
    assert {name: found[name] for name in known} == known
    assert len(known) > 15
