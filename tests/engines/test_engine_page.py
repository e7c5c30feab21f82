"""docs/adding-an-engine.md: its example runs, and its names are those of the code."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.engine import LoadRequest
from harness.errors import UsageError
from harness.progress import SilentProgress
from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.statements import query_sql

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/adding-an-engine.md").read_text(encoding="utf-8")
SQL = ROOT / "tests/toy_engines/sqlite/sql"


@pytest.fixture
def engines(open_path, monkeypatch):
    """A folder with the page's engine, which the servers' user can enter."""
    monkeypatch.setenv("HARNESS_ENGINE_PATH", str(open_path / "engines"))
    for module in ("engines.sqlite", "engines.sqlite.engine"):  # of another test's folder
        monkeypatch.delitem(sys.modules, module, raising=False)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    shutil.copytree(SQL, open_path / "engines/sqlite/sql")
    (open_path / "engines/sqlite/engine.py").write_text(example, encoding="utf-8")
    return open_path / "engines"


def test_it_loads_tpch_and_answers_like_duckdb(engines, lab, tpch_csv, tpch_parquet):
    answers: dict[str, list[Any]] = {}
    for name, source in (("sqlite", tpch_csv), ("duckdb", tpch_parquet)):
        engine = lab.started(name, fresh=True)
        engine.bulk_load(
            LoadRequest(engine.sql("tpch"), source.files, source.row_counts, SilentProgress())
        )
        connection = engine.connect()
        for query in (1, 6, 12):
            sql = query_sql(query, parameters(query, None, 0.01), engine.sql_folder / "tpch")
            answers.setdefault(name, []).append(_rounded(connection.execute(sql).rows))
        connection.close()
        engine.stop()
    assert answers["sqlite"] == answers["duckdb"]
    assert len(answers["sqlite"][0]) == 4


def test_it_commits_each_statement_and_has_no_settings(engines, lab):
    engine = lab.started("sqlite", fresh=True)
    for sql in ("create table t (n integer)", "insert into t values (1)"):
        connection = engine.connect()
        connection.execute(sql)
        connection.close()
    assert engine.connect().execute("select n from t").rows == [(1,)]
    with pytest.raises(UsageError):
        lab.engine("sqlite", {"cache_size": "1"})


RUN = "run tpch --engine sqlite --placement ssd-both --scale 0.01 --queries 1,6 --json"


def harness(folder: Path, arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from harness.cli import main; main()", *arguments.split()],
        cwd=folder,
        env=os.environ | {"HARNESS_DATA": str(folder / "data"), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_runs_it_end_to_end(engines):
    done = harness(engines.parent, f"{RUN} --memory-limit 128MiB")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["spec"]["engine"] == "sqlite"
    assert run["part_bytes"]["data"] >= run["data_bytes"] > 0
    assert [check["status"] for check in run["checks"]] == ["passed", "passed"]
    # It works in the harness's own process, which no limit holds.
    assert "memory-limit-not-enforced" in [warning["code"] for warning in run["uncontrolled"]]
    (manifest,) = engines.parent.rglob("manifest.json")
    assert json.loads(manifest.read_text())["memory_cap"]["method"] == "none"


#: The same engine, with a process that listens on a port of the host and does not name it.
LISTENING = """
import dataclasses

PROGRAM = '''
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print("ready", flush=True)
time.sleep(1000)
'''


class Listening(Sqlite):
    def __init__(self, context: EngineContext) -> None:
        super().__init__(context)
        self.context = context

    def start(self) -> None:
        command = ["/usr/bin/python3", "-c", PROGRAM]
        user = self.context.credentials
        self.context.processes.spawn(command, credentials=user, pipes=True).stdout.readline()


ENGINE = dataclasses.replace(ENGINE, make=Listening)
"""


def test_a_run_whose_engine_listens_unannounced_fails(engines):
    with (engines / "sqlite/engine.py").open("a", encoding="utf-8") as file:
        file.write(LISTENING)
    done = harness(engines.parent, f"{RUN} --retries 0")
    assert done.returncode == 1, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["status"] == "failed"
    assert "listens" in run["error"]["problem"]


def test_it_needs_no_sql_of_its_own(engines):
    shutil.rmtree(engines / "sqlite/sql")
    done = harness(engines.parent, "engines list --json")
    assert done.returncode == 0, done.stderr
    assert "sqlite" in done.stdout and "entry-unreadable" not in done.stderr


def _rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(v if isinstance(v, str) else round(float(v), 2) for v in row) for row in rows]
