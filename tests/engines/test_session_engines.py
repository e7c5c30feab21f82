"""What a session says of real servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from harness.progress import SilentProgress
from harness.workload import Session

#: On a busy machine a server still does things of its own when it answers already.
TRIES = 20


def is_none(taken: Mapping[str, float]) -> bool:
    files, memory = taken.get("touched_file_bytes"), taken["anonymous_peak_bytes"]
    # A page or two, not catalogs; the connection's, asked once more.
    return files is not None and files < 64 << 10 and memory < 256 << 10


@pytest.mark.parametrize("name", ["postgres", "mysql", "mariadb", "duckdb"])
def test_what_the_harness_itself_reads_is_no_footprint(lab: Any, empty_engines: Any, name: str):
    engine = lab.started(name, empty_engines.data(name))
    session = Session(engine, SilentProgress(), None, drop_caches=False)
    try:
        for _ in range(TRIES):
            session.cold_start("q1")
            connection = engine.connect()
            footprint = session.footprint()
            session.counters("before")  # and then no statement at all
            taken = footprint.taken()
            connection.close()
            if is_none(taken):
                break
    finally:
        engine.kill()
    assert is_none(taken), taken
