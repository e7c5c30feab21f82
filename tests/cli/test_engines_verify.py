"""The self-test and ``harness engines verify`` with real engines."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from engines.duckdb.engine import DuckDB
from harness import paths, registry
from harness.cli.app import app
from harness.errors import UsageError
from harness.progress import Progress, progress_on_stderr
from harness.selftest import Result, conformance, results
from harness.selftest import lab as selftest_lab
from harness.selftest.conformance import Conformance
from harness.selftest.effects import trial
from harness.selftest.faults import cases
from harness.selftest.lab import Lab, open_lab
from harness.store.verified import verified
from harness.supervise.supervisor import ProcessStarter

pytestmark = [pytest.mark.system, pytest.mark.slow]


#: Engines that the harness runs itself; a user's server is verified by its DSN. MySQL's code is
#: MariaDB's (engines/_innodb), whose servers take half of the time; Spark's starts take minutes,
#: and engines/test_spark.py makes them once.
OURS = sorted(
    name
    for name, factory in registry.engines().items()
    if factory.kinds != ("external",) and name not in ("mysql", "spark")
)


@pytest.fixture(autouse=True)
def rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the rates of windows, which leaves processors to other tests; they log 1 MiB.

    A client is killed soon, which leaves time before its window's end.
    """
    for workload, rate in (("tpcc", 100), ("ycsb", 2000)):
        given = {**conformance._PARAMS[workload], "rate": rate}
        monkeypatch.setitem(cast("dict[str, Any]", conformance._PARAMS), workload, given)
    monkeypatch.setattr(conformance, "_KILL_AFTER_S", 0.1)


@pytest.mark.parametrize("engine", OURS)
@pytest.mark.usefixtures("in_process")
def test_every_engine_of_the_registry_passes(engine):
    done = CliRunner().invoke(app, ["engines", "verify", engine, "--json"])
    document = json.loads(done.stdout)
    checks = {check["name"]: check for check in document["checks"]}
    assert done.exit_code == 0, [c for c in checks.values() if c["result"] == "failed"]
    assert {"restore", "refusals", "placement", "kill-and-recovery"} <= checks.keys()
    assert sum(check["result"] == "passed" for check in checks.values()) >= 4
    assert verified(engine, registry.engine(engine).available({}, paths.engines_prefix()))


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with open_lab(Progress()) as opened:
        yield opened


def _results(lab: Lab, engine: str, *names: str) -> list[Result]:
    subject = Conformance(lab, registry.engine(engine), {})
    return list(results(case for case in subject.cases() if case.name in names))


def test_a_wrong_answer_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    def without_a_row(engine: DuckDB) -> None:
        with closing(duckdb.connect(str(engine._database))) as database:
            database.execute("DELETE FROM lineitem WHERE rowid = (SELECT min(rowid) FROM lineitem)")

    _after_restore(monkeypatch, without_a_row)
    (answers,) = _results(lab, "duckdb", "tpch-answers")
    assert answers.result == "failed"


def test_a_lost_commit_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    kill = DuckDB.kill

    def forget(engine: DuckDB) -> None:
        if engine._worker is not None:
            with suppress(Exception), closing(engine.connect()) as connection:
                connection.execute("DELETE FROM harness_verify WHERE k = 0")
        kill(engine)

    monkeypatch.setattr(DuckDB, "kill", forget)
    (recovery,) = _results(lab, "duckdb", "kill-and-recovery")
    assert recovery.result == "failed"


def test_a_part_that_is_not_placed_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DuckDB, "_wal_apart", property(lambda engine: False))
    answers, placement = _results(lab, "duckdb", "tpch-answers", "placement")
    assert (answers.result, placement.result) == ("passed", "failed")


def test_a_trace_that_is_not_loaded_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    spawn = ProcessStarter.spawn

    def untraced(starter: ProcessStarter, *args: Any, **options: Any) -> Any:
        return spawn(starter, *args, **{**options, "traced": False})

    monkeypatch.setattr(ProcessStarter, "spawn", untraced)
    answers, trace = _results(lab, "duckdb", "tpch-answers", "io-trace")
    assert (answers.result, trace.result) == ("passed", "failed")


def test_a_restore_that_leaves_a_file_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def leave(engine: DuckDB) -> None:
        for earlier in made:
            (engine._database.parent / earlier.name).touch()
        made.append(Path(f"of-run-{len(made)}"))

    _after_restore(monkeypatch, leave)
    (restore,) = _results(lab, "duckdb", "restore")
    assert restore.result == "failed"


def _after_restore(monkeypatch: pytest.MonkeyPatch, plant: Callable[[DuckDB], None]) -> None:
    restore = DuckDB.restore

    def restored(engine: DuckDB, *args: Any) -> None:
        restore(engine, *args)
        plant(engine)

    monkeypatch.setattr(DuckDB, "restore", restored)


# The self-test's lab with a real engine -------------------------------------------


def test_the_lab_finds_what_is_planted_and_is_removed(in_process):
    """Two faults, and a delay as long as the base: no load of this host hides that."""
    with progress_on_stderr(quiet=True) as progress, open_lab(progress) as lab:
        faults = [
            case
            for case in cases(lab)
            if any(words in case.name for words in ("wrong answer", "lost updates"))
        ]
        for result in results(faults):
            assert result.passed, result.detail
        assert [run.spec.engine for run in lab.store.runs()] == ["duckdb", "rocksdb"]
        effect = trial(lab, 1.0, updates=10)
        assert effect.truth < 1 and effect.estimate.value < 1
    assert not lab.root.exists()
    assert not in_process.settled()


@pytest.mark.parametrize("groups", [["effects"], ["statistics", "faults"]])
def test_an_engine_that_is_missing_is_known_before_the_first_case(in_process, monkeypatch, groups):
    def missing(specs, _):
        raise UsageError(specs[0].engine, "not installed", f"install {specs[0].engine}")

    monkeypatch.setattr(selftest_lab, "prepare_all", missing)
    done = CliRunner().invoke(app, ["selftest", *groups])
    assert isinstance(done.exception, UsageError)
    assert "install rocksdb" in done.exception.hint
    assert ("install duckdb" in done.exception.hint) == ("faults" in groups)
    assert not done.stdout
    assert not in_process.settled()
