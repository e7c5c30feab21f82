"""References computed from the source data leave nothing behind."""

import os
import subprocess
import sys

from patience import eventually

from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.reference import References
from harness.workloads.tpch.statements import Statement

SCALE = 0.01
WAITING = f"""
import sys
from pathlib import Path
from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.reference import References
from harness.workloads.tpch.statements import Statement
with References({SCALE}, "postgres", Path(sys.argv[1])) as references:
    print(references.of(Statement(6, parameters(6, 5, {SCALE}), "")).origin, flush=True)
    sys.stdin.read()
"""


def test_killed_while_computing_it_leaves_no_file(sources, tmp_path):
    source = sources["parquet"].files["region"][0].parents[1]
    temp = tmp_path / "temp"
    temp.mkdir()
    environment = {**os.environ, "HARNESS_DATA": str(tmp_path / "data"), "TMPDIR": str(temp)}
    environment.pop("HARNESS_STATE", None)
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, str(source)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline().startswith("computed by DuckDB")
        (spill,) = (path for path in temp.iterdir() if path.is_dir())
        (spill / "duckdb_temp_storage-0.tmp").write_bytes(bytes(4096))
        process.kill()
    assert eventually(lambda: not list(temp.iterdir()))


def test_computed_ones_are_kept_and_their_spill_is_removed(sources, tmp_path, monkeypatch):
    source = sources["parquet"].files["region"][0].parents[1]
    temp = tmp_path / "temp"
    temp.mkdir()
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("HARNESS_STATE", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    statement = Statement(6, parameters(6, 5, SCALE), "")
    with References(SCALE, "postgres", source) as references:
        computed = references.of(statement)
        assert [path for path in temp.iterdir() if path.is_dir()]
    assert list(temp.iterdir()) == []
    with References(SCALE, "postgres", None) as references:
        assert references.of(statement).answer == computed.answer
