"""A measured result is stored whole, whatever the disk does, and never shown in part."""

import errno
import io
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from example_run import SPEC, result
from narrowed import present

from harness import structs
from harness.errors import HarnessError, RunFailed
from harness.execution import run as run_module
from harness.execution.run import Run
from harness.host.facts import host_facts
from harness.progress import SilentProgress
from harness.store import rescue, run_store
from harness.store.calibrations import Canary, CanaryBandwidth, CanaryStore
from harness.store.checkpoint import Attempt, steps_kept
from harness.store.documents import json_bytes
from harness.store.host import HostFacts
from harness.store.result import Check, Experiment, Failure, Metric, Program
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.store.transfer import import_runs
from harness.supervise import linux

CONDITIONS = {"kernel": "6.1"}
ATTEMPT = Attempt(experiment=Experiment("x", "0"))
RESUMABLE = replace(ATTEMPT, conditions=CONDITIONS)
METRIC = Metric("operations_per_second", "1/s", "higher", value=4711.0)
ARTIFACTS: dict[str, Any] = {"timeline": [], "background": {}}
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT)


@pytest.fixture(scope="module")
def env() -> Any:
    """Return the environment that a run needs to be stored."""
    return SimpleNamespace(
        host=structs.convert(host_facts([]), HostFacts, "here"),
        progress=SilentProgress(),
        argv=("harness",),
        tiers={},
    )


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """The state directory; no pause is made, and all runs begin in one second.

    So each run of a case makes the same calls.
    """
    monkeypatch.setattr("harness.store.run_store.time.strftime", lambda *_: "20260101T000000Z")
    monkeypatch.setenv("HARNESS_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(rescue, "PAUSES_S", (0.0,))
    monkeypatch.setattr(rescue, "_rescued", [])
    monkeypatch.setattr(run_store, "RESERVED_BYTES", 1 << 16)
    monkeypatch.setattr(run_module, "uncontrolled", lambda tiers, pinned: [])
    return tmp_path / "state"


def store_run(env: Any, results: Path, attempt: Attempt = ATTEMPT, steps: int = 0) -> Run:
    """Store a run with this number of steps as the runner does, without measuring."""
    run = Run(SPEC, env, attempt, [])
    with run.storing(Store(results)):
        checkpoint = run.folder.checkpoint
        checkpoint.begin(replace(attempt, run_id=run.run_id))
        for number in range(len(checkpoint.finished), steps):
            checkpoint.finish(f"q{number}", number)
        run.program = Program("duckdb", "1", "1-x86_64", "a package")
        run.metrics.append(METRIC)
        run.checks.append(Check("answer", "passed"))
        run.artifacts.update(ARTIFACTS)
    return run


def is_whole(stored: StoredRun) -> bool:
    """Return whether it has all that :func:`store_run` stores."""
    return (
        stored.result.value(METRIC.name) == METRIC.value
        and present(stored.manifest).run_id == stored.result.run_id
        and all(stored.artifact(name) == document for name, document in ARTIFACTS.items())
    )


def files_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


# Faults at every system call that storing a run makes --------------------------------


class Faults:
    """Counts the calls that change files below a folder, and calls ``act`` before each.

    ``act`` receives the number of the call and what a write would write half of.
    """

    def __init__(self, folder: Path, act: Callable[[int], None], patch: pytest.MonkeyPatch) -> None:
        self.folder, self.act, self.calls = str(folder), act, 0
        for name in ("mkdir", "rename", "unlink", "open", "fsync", "pwrite", "ftruncate"):
            patch.setattr(os, name, self._faulty(getattr(os, name), name))
        patch.setattr(run_store, "allocate", self._faulty(linux.allocate, "allocate"))
        patch.setattr(os, "fdopen", self._opened(os.fdopen))

    def _faulty(self, really: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(first: Any, *rest: Any, **options: Any) -> Any:
            reads = name == "open" and not rest[0] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)
            if not reads:
                self.count(first)
            return really(first, *rest, **options)

        return call

    def _opened(self, really: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: int, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if mode != "wb":
                return really(descriptor, mode, *rest, **options)
            return io.BufferedWriter(_FaultyFile(descriptor, self))

        return call

    def count(self, place: Any) -> None:
        if isinstance(place, int):
            place = Path(f"/proc/self/fd/{place}").readlink()
        if str(place).startswith(self.folder):
            self.calls += 1
            self.act(self.calls)


class _FaultyFile(io.FileIO):
    """Writes half of the data before a fault."""

    def __init__(self, descriptor: int, faults: Faults) -> None:
        super().__init__(descriptor, "w")
        self._faults = faults

    def write(self, data: Any) -> int:
        half = len(data) // 2
        super().write(data[:half])
        self._faults.count(self.fileno())
        return half + (super().write(data[half:]) or 0)


def earlier(case: str, env: Any, results: Path) -> None:
    """Store what precedes the run: for ``failed`` a failed run, whose steps it takes over."""
    if case == "failed":
        folder = Store(results).begin(SPEC)
        folder.checkpoint.begin(replace(RESUMABLE, run_id=folder.run_id))
        folder.checkpoint.finish("q0", 0)
        failed = result(folder, "failed")
        folder.finish(msgspec.structs.replace(failed, error=Failure("RunFailed", "a", "b", "")))
        folder.close()


#: Attempt and steps of a run by case.
CASES = {"one window": (ATTEMPT, 0), "steps": (RESUMABLE, 2), "failed": (RESUMABLE, 2)}


def calls_of(case: str, env: Any, results: Path) -> int:
    """The number of calls that storing such a run makes."""
    earlier(case, env, results)
    Store(results).runs()
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(results, lambda number: None, patch)
        store_run(env, results, *CASES[case])
    return faults.calls


def test_a_thousand_faults_are_injected(env, tmp_path):
    calls = sum(calls_of(case, env, tmp_path / case) for case in CASES)
    assert calls * (2 * len(ERRORS) + 1) >= 1000


@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("case", CASES)
def test_a_run_is_stored_whole_whichever_call_fails(env, tmp_path, case, code):
    """Once, or that one and all later ones in the results."""
    for number in range(1, calls_of(case, env, tmp_path / "count") + 1):
        for lasting in (False, True):
            results = tmp_path / f"{number}-{lasting}"
            earlier(case, env, results)
            before = {run.run_id for run in Store(results).runs()}

            def fail(call: int, number: int = number, lasting: bool = lasting) -> None:
                if call == number or (lasting and call > number):
                    raise OSError(code, os.strerror(code))

            with pytest.MonkeyPatch.context() as patch:
                Faults(results, fail, patch)
                try:
                    run = store_run(env, results, *CASES[case])
                except HarnessError:  # before anything was measured
                    assert {run.run_id for run in Store(results).runs()} == before
                    continue
            rescued = rescue.rescue_path(results)
            assert lasting or not rescued.exists()
            finished = [run for run in Store(results).runs() if run.run_id not in before]
            if rescued.exists():
                assert not finished or finished[0].text == run.stored.text
                import_runs(rescued, Store(results))
            (stored,) = (run for run in Store(results).runs() if run.run_id not in before)
            assert stored.run_id == run.run_id and is_whole(stored) and not stored.imported
            shutil.rmtree(results)
            shutil.rmtree(rescued, ignore_errors=True)


@pytest.mark.parametrize("case", CASES)
def test_a_kill_between_any_two_calls_loses_no_step_and_shows_no_part(env, tmp_path, case):
    attempt, steps = CASES[case]
    for number in range(1, calls_of(case, env, tmp_path / "count") + 1):
        results = tmp_path / str(number)
        earlier(case, env, results)
        before = {run.run_id for run in Store(results).runs()}

        def kill(call: int, number: int = number) -> None:
            if call == number:
                os.kill(os.getpid(), signal.SIGKILL)

        if (child := os.fork()) == 0:
            with pytest.MonkeyPatch.context() as patch:
                Faults(results, kill, patch)
                store_run(env, results, attempt, steps)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        for path in files_below(results):
            if path.suffix == ".json" and not path.name.startswith("."):
                json.loads(path.read_text())
        finished = [run for run in Store(results).runs() if run.run_id not in before]
        assert all(is_whole(run) for run in finished)
        counts = [steps_kept(path) for path in results.glob("runs/*")]
        after = store_run(env, results, attempt, steps)
        if not finished and max(counts, default=0):
            assert after.stored.result.resumed[-1].kept_steps == max(counts)
        assert is_whole(after.stored)
        shutil.rmtree(results)


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_stored_whole_whichever_call_is_interrupted(env, tmp_path, case):
    """By Ctrl-C. Before its measured phase has ended, finished steps are kept, and no more."""
    measured = []
    for number in range(1, calls_of(case, env, tmp_path / "count") + 1):
        results = tmp_path / str(number)
        earlier(case, env, results)
        before = {run.run_id for run in Store(results).runs()}

        def interrupt(call: int, number: int = number) -> None:
            if call == number:
                raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            Faults(results, interrupt, patch)
            store_run(env, results, *CASES[case])
        finished = [run for run in Store(results).runs() if run.run_id not in before]
        assert all(is_whole(run) for run in finished)
        measured.append(len(finished))
        shutil.rmtree(results, ignore_errors=True)
    first = measured.index(1)
    assert set(measured[:first]) == {0} and set(measured[first:]) == {1}


# Where a result goes ------------------------------------------------------------------


def test_a_result_that_nothing_takes_is_named_with_its_headline(env, tmp_path, state):
    results = tmp_path / "results"
    run = Run(SPEC, env, ATTEMPT, [])
    state.write_text("no directory")
    with pytest.raises(RunFailed) as lost, run.storing(Store(results)):
        run.metrics.append(METRIC)
        shutil.rmtree(results)
    assert METRIC.name in lost.value.context and "4711" in lost.value.context
    assert not rescue.any_rescued()


def test_a_private_run_stays_private(env, tmp_path):
    results = tmp_path / "results"
    run = Run(SPEC, env, ATTEMPT, [], private=True)
    with run.storing(Store(results)):
        shutil.rmtree(results)
    assert rescue.is_rescued(run.stored.directory)
    (imported,) = import_runs(rescue.rescue_path(results), Store(results)).new
    for stored in (run.stored, imported):
        assert stored.directory.stat().st_mode & 0o777 == 0o700


def test_a_run_is_refused_beforehand_where_its_result_has_no_room(tmp_path, monkeypatch):
    monkeypatch.setattr(run_store, "RESERVED_BYTES", 1 << 60)
    with pytest.raises(HarnessError) as refused:
        Store(tmp_path).begin(SPEC)
    assert refused.value.exit_code == 2
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_document_goes_to_the_state_directory_and_is_copied_back(tmp_path, capsys):
    """Such as a canary, a calibration or a score."""
    results = tmp_path / "results"
    results.write_text("no directory")
    canary = Canary("plan", "host", 1, 2, (CanaryBandwidth("ssd", "read", (1.0,), (2.0,)),))
    CanaryStore(results).write(canary)
    assert rescue.any_rescued()
    results.unlink()
    rescued = rescue.rescue_path(results / "canaries" / "1.json")
    assert rescued.read_bytes() == json_bytes(canary.to_json())
    assert f"cp {rescued} {results / 'canaries' / '1.json'}" in capsys.readouterr().err
