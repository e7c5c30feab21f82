"""References computed from the source data leave nothing behind."""

import os
import subprocess
import sys

import pytest
from narrowed import present
from patience import eventually

from harness.store.datasets import DatasetStore
from harness.supervise.supervisor import Supervisor
from harness.workloads.tpch import data
from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.reference import NoReference, References, read_kept
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
        assert present(process.stdout).readline().startswith("computed by DuckDB")
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


@pytest.mark.parametrize("content", ["", "{", "5", "{}", '{"totals": NaN}', "[" * 10_000])
def test_a_damaged_file_of_what_was_computed_is_left_out_by_name(tmp_path, capsys, content):
    file = tmp_path / f"kept-{len(content)}.json"
    assert read_kept(file, lambda document: document["totals"]["lineitem"]) is None
    assert capsys.readouterr().err == ""
    file.write_text(content)
    assert read_kept(file, lambda document: document["totals"]["lineitem"]) is None
    warned = capsys.readouterr().err
    assert warned.startswith("warning: answer-unreadable: ") and str(file) in warned


def test_nothing_is_computed_from_files_that_have_changed(tmp_path, monkeypatch, quiet):
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    statement = Statement(6, parameters(6, 5, 0.001), "")
    with Supervisor(tmp_path / "state") as supervisor:
        store = DatasetStore(tmp_path / "source", supervisor.journal)
        with store.building("tpch") as building:
            assert building is not None
            data.generate(0.001, "parquet", building.content, quiet)
            source = building.publish({}, {}, quiet).content
        file = source / "nation" / "nation.1.parquet"
        file.write_bytes(file.read_bytes()[:-1] + b"x")
        with (
            References(0.001, "postgres", source) as references,
            pytest.raises(NoReference, match=file.name),
        ):
            references.of(statement)
