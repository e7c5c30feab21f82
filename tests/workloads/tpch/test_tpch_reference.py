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
    answers = tmp_path / "data" / "answers"
    environment = {**os.environ, "HARNESS_DATA": str(tmp_path / "data")}
    environment.pop("HARNESS_STATE", None)
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, str(source)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline().startswith("computed by DuckDB")
        (spill,) = answers.glob("tb-*")
        (spill / "duckdb_temp_storage-0.tmp").write_bytes(bytes(4096))
        process.kill()
    assert eventually(lambda: not spill.exists())


def test_computed_ones_are_kept_and_their_spill_is_removed(sources, tmp_path, monkeypatch):
    source = sources["parquet"].files["region"][0].parents[1]
    answers = tmp_path / "data" / "answers"
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("HARNESS_STATE", raising=False)
    statement = Statement(6, parameters(6, 5, SCALE), "")
    with References(SCALE, "postgres", source) as references:
        computed = references.of(statement)
        assert list(answers.glob("tb-*"))
    assert not list(answers.glob("tb-*"))
    with References(SCALE, "postgres", None) as references:
        assert references.of(statement).answer == computed.answer
