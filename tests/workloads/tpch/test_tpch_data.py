"""The generator's output: whole, counted, in chunks, or a clear failure."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import duckdb
import pytest
from narrowed import present

from harness.errors import RunFailed
from harness.workloads.tpch import data
from harness.workloads.tpch.tables import expected_rows, keys_are_unique

ROWS_001 = {
    "region": 5, "nation": 25, "supplier": 100, "customer": 1_500, "part": 2_000,
    "partsupp": 8_000, "orders": 15_000, "lineitem": 60_175,
}  # fmt: skip


@pytest.mark.parametrize("load_format", ["csv", "tbl", "parquet"])
def test_every_row_is_counted_in_every_format(sources, load_format):
    assert sources[load_format].row_counts == ROWS_001
    assert all(
        file.stat().st_size for files in sources[load_format].files.values() for file in files
    )


def test_generating_again_does_nothing_and_a_partial_folder_is_not_whole(tmp_path, quiet):
    data.generate(0.0031, "tbl", tmp_path, quiet)
    file = data.read_source(tmp_path).files["lineitem"][0]
    before = file.stat().st_mtime_ns
    data.generate(0.0031, "tbl", tmp_path, quiet)
    assert file.stat().st_mtime_ns == before
    whole = file.read_bytes()
    (tmp_path / "source.json").unlink()
    file.write_bytes(whole[:100])  # as a generator that was cut off leaves it
    with pytest.raises(RunFailed, match="not whole"):
        data.read_source(tmp_path)
    data.generate(0.0031, "tbl", tmp_path, quiet)
    assert file.read_bytes() == whole


def test_a_killed_generator_is_a_failed_run(tmp_path, quiet):
    def kill_it():
        while not (children := _generators()):
            time.sleep(0.01)
        os.kill(children[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_it)
    killer.start()
    with pytest.raises(RunFailed, match="killed by signal 9"):
        data.generate(1, "csv", tmp_path, quiet)
    killer.join()
    assert not (tmp_path / "source.json").exists()


def test_a_generator_begins_nothing_once_its_harness_has_ended(tmp_path, quiet, monkeypatch):
    """Killed between its start of the generator and the request to die with it."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: ended.pid)
        with pytest.raises(RunFailed):
            data.generate(0.0031, "csv", tmp_path, quiet)
    assert [path.name for path in tmp_path.iterdir()] == ["generator.log"]


def _generators():
    """Generators among our own children, once they are what they will be (exec)."""
    found = []
    for children in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread or a process of that moment
            for pid in children.read_text().split():
                if b"tpchgen-cli" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]:
                    found.append(int(pid))
    return found


def test_a_generator_that_stops_early_is_not_believed():
    short = ROWS_001 | {"customer": 1_499}
    with pytest.raises(RunFailed, match="customer has 1499 rows, not 1500"):
        data._verify(0.01, short)
    with pytest.raises(RunFailed, match="not 6001215"):
        data._verify(1, {"lineitem": 6_001_214})


def test_cardinalities_are_cut_as_the_generator_cuts_them():
    assert expected_rows("supplier", 0.57) == 5_699  # 0.57 * 10000 is below 5700 in binary
    assert expected_rows("partsupp", 0.29) == 231_996
    assert expected_rows("lineitem", 1) == 6_001_215
    assert expected_rows("lineitem", 0.5) is None


def test_where_keys_are_said_to_be_unique_they_are(tmp_path, quiet):
    data.generate(0.0031, "parquet", tmp_path, quiet)
    assert keys_are_unique(0.0031)
    assert _duplicate_keys(tmp_path) == 0


def _duplicate_keys(folder):
    query = f"""select count(*) - count(distinct (ps_partkey, ps_suppkey))
                from read_parquet('{folder}/partsupp/*.parquet')"""
    return present(duckdb.execute(query).fetchone())[0]
