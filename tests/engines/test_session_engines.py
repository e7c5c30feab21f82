"""What a session says of real servers."""

from __future__ import annotations

from typing import Any

import pytest

from harness.progress import SilentProgress
from harness.session import RunSession


@pytest.mark.parametrize("name", ["postgres", "mysql", "mariadb", "duckdb"])
def test_what_the_harness_itself_reads_is_no_footprint(lab: Any, name: str):
    engine = lab.engine(name)
    engine.initialise(lab.places())
    engine.start()
    session = RunSession(engine, SilentProgress(), None, drop_caches=False)
    try:
        session.cold_start("q1")
        connection = engine.connect()
        footprint = session.footprint()
        session.counters("before")  # and then no statement at all
        taken = footprint.taken()
        connection.close()
    finally:
        engine.kill()
    assert taken["touched_file_bytes"] < 64 << 10  # a page or two, not catalogs
    assert taken["anonymous_peak_bytes"] < 256 << 10  # the connection's, asked once more
