"""Changes of a record by several threads at once: none is lost, however they are made."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rocksdb_store import built

THREADS, KEYS, ROUNDS = 4, 3, 2000


@pytest.fixture(scope="session")
def writers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("rocksdb_writers", tmp_path_factory.mktemp("writers"))


def written(lab: Any, writers: Path, verb: str, settings: dict[str, str] | None = None) -> Any:
    """The records after all threads have counted up in their fields."""
    engine = lab.engine("rocksdb")
    engine.initialise(lab.places())
    connection = {**engine.native_connection(), "disable_wal": False, "options": settings or {}}
    request = {
        "connection": connection,
        "verb": verb, "threads": THREADS, "keys": KEYS, "rounds": ROUNDS,
    }  # fmt: skip
    done = subprocess.run(
        [str(writers), json.dumps(request)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


COUNTED = {
    f"key{key}": {f"field{writer}": str(ROUNDS) for writer in range(THREADS)} for key in range(KEYS)
}


@pytest.mark.parametrize("verb", ["modify", "merge"])
def test_no_change_of_a_record_is_lost(lab: Any, writers: Path, verb: str) -> None:
    assert written(lab, writers, verb) == COUNTED


def test_reading_and_writing_with_nothing_in_between_loses_changes(lab: Any, writers: Path) -> None:
    """What the others are measured against: these threads do get in each other's way."""
    tries = 20  # on a busy machine they may run one after the other
    assert any(written(lab, writers, "careless") != COUNTED for _ in range(tries))


@pytest.mark.parametrize(("call", "rows"), [("get :key", 1), ("scan :key :length", 3)])
def test_reading_touches_all_of_a_value(tmp_path: Path, call: str, rows: int) -> None:
    """Whatever holds it is part of the latency, also where no field is verified."""
    program = built("rocksdb_touched", tmp_path, "loadgen.c")
    done = subprocess.run([str(program), call], capture_output=True, text=True, check=True)
    touched, pages = map(int, done.stdout.split())
    assert touched == pages == 8 * rows


def test_merging_is_the_same_when_operands_meet_in_compactions(lab: Any, writers: Path) -> None:
    """Memtables so small that operands are flushed apart and merged by compactions."""
    small = {"write_buffer_size": "65536", "level0_file_num_compaction_trigger": "2"}
    assert written(lab, writers, "merge", small) == COUNTED
