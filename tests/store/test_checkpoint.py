"""Finished steps: what survives a cut, and that no process resumes what another works on."""

import binascii
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from example_run import SPEC, result
from narrowed import present

from harness.errors import UsageError
from harness.experiment.placement import parse_placement
from harness.store import checkpoint as steps_module
from harness.store.checkpoint import FILE, Attempt, Checkpoint, steps_kept, under_way
from harness.store.result import Failure
from harness.store.runs import Store
from harness.store.spec import RunSpec

CONDITIONS = {"kernel": "6.1", "tiers": [["ssd", "block"]]}


def attempt(run_id="r", conditions=CONDITIONS):
    return Attempt(run_id, 1, conditions)


@pytest.fixture
def directory(tmp_path):
    return tmp_path


def opened(directory: Path) -> Checkpoint:
    return present(Checkpoint.open(directory))


def test_what_was_appended_is_there_after_a_cut(directory):
    steps = Checkpoint.create(directory)
    steps.begin(attempt())
    steps.finish("q14", {"rows": [["ä", 1]]})
    steps.close()
    again = opened(directory)
    assert again.finished == ["q14"]
    assert again.document("q14") == {"rows": [["ä", 1]]}
    assert again.document("q2") is None
    assert steps_kept(directory) == 1


@pytest.mark.parametrize("torn", ['{"step": "q2", "docu', '{"step"', "\0\0\0"])
def test_a_torn_last_line_does_not_count_and_does_not_spoil_the_next(directory, torn):
    steps = Checkpoint.create(directory)
    steps.finish("q14", 1)
    steps.close()
    with (directory / FILE).open("a") as stream:
        stream.write(torn)
    again = opened(directory)
    assert again.finished == ["q14"]
    again.finish("q9", 1)
    again.close()
    assert opened(directory).finished == ["q14", "q9"]


@pytest.mark.parametrize(
    "text", ['{"something": "else"}', '{"step": "q14"}', "[]", "null", "[" * 100_000]
)
def test_what_is_no_line_of_a_checkpoint_and_all_after_it_does_not_count(directory, text):
    steps = Checkpoint.create(directory)
    steps.finish("q14", 1)
    steps.finish("q9", 2)
    first, last = (directory / FILE).read_text().splitlines()
    checksum = f"{binascii.crc32(text.encode()):08x}"
    (directory / FILE).write_text(f"{first}\n{checksum} {text}\n{last}\n")
    steps.close()
    assert opened(directory).finished == ["q14"]


def test_a_changed_result_does_not_count(directory):
    steps = Checkpoint.create(directory)
    steps.finish("q14", {"duration_ns": 1234})
    steps.close()
    path = directory / FILE
    path.write_text(path.read_text().replace("1234", "1235"))
    assert opened(directory).finished == []


def test_a_full_disk_is_reported_and_leaves_the_steps_as_they_were(directory):
    """The file is the kernel's own limit on its size: the write is cut short, as on a full disk."""
    program = f"""
import resource, signal
from pathlib import Path
from harness.errors import RunFailed
from harness.store.checkpoint import Checkpoint
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
steps = Checkpoint.create(Path({str(directory)!r}))
steps.finish("q14", 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
try:
    steps.finish("q14", "x" * 1000)
except RunFailed as error:
    print(error.problem)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert str(directory) in done.stdout
    steps = opened(directory)
    assert steps.finished == ["q14"]
    assert (directory / FILE).stat().st_size < 200


def test_only_a_run_whose_process_is_dead_is_resumed(directory):
    program = f"""
import sys
from pathlib import Path
from harness.store.checkpoint import Checkpoint
steps = Checkpoint.create(Path({str(directory)!r}))
steps.finish("q14", 1)
print("held", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert present(process.stdout).readline() == "held\n"
        assert under_way(directory)
        assert Checkpoint.open(directory) is None
        process.kill()
    assert not under_way(directory)
    assert opened(directory).finished == ["q14"]


def test_attempts_list_the_steps_that_were_finished_when_they_began(directory):
    steps = Checkpoint.create(directory)
    steps.begin(attempt())
    steps.finish("rf1-1", 1)
    steps.finish("q14", 1)
    steps.begin(attempt())
    assert [list(one.kept) for one in steps.attempts] == [[], ["rf1-1", "q14"]]


# The store: which run is resumed ----------------------------------------------


def cut_off(store, *names, spec=SPEC, conditions=CONDITIONS):
    writer = store.begin(spec)
    writer.checkpoint.begin(attempt(writer.run_id, conditions))
    for name in names:
        writer.checkpoint.finish(name, 1)
    return writer


def failed(store, *names):
    """A run that failed after these steps."""
    writer = cut_off(store, *names)
    error = Failure("RunFailed", "a", "No space left", "")
    writer.finish(replace(result(writer, "failed"), error=error))
    writer.close()
    return writer


def test_the_same_run_is_resumed_and_keeps_its_name(tmp_path):
    store = Store(tmp_path)
    cut = cut_off(store, "q14")
    assert not store.interrupted(SPEC)  # it is under way
    cut.close()
    assert store.interrupted(SPEC)
    again = present(store.resume(SPEC, CONDITIONS, print))
    assert (again.run_id, present(again.checkpoint).finished) == (cut.run_id, ["q14"])


def test_a_run_under_way_or_without_a_step_or_of_another_spec_is_not_resumed(tmp_path):
    store = Store(tmp_path)
    cut_off(store, "q14")  # its lock is still held
    cut_off(store).close()
    cut_off(store, "q14", spec=RunSpec("tpch", "duckdb", parse_placement("ssd-both"), {})).close()
    assert store.resume(SPEC, CONDITIONS, print) is None


def test_other_conditions_are_reported_and_the_run_is_left_alone(tmp_path):
    store = Store(tmp_path)
    cut = cut_off(store, "q14")
    cut.close()
    messages: list[str] = []
    assert store.resume(SPEC, {**CONDITIONS, "kernel": "6.2"}, messages.append) is None
    assert messages == [f"not resuming {cut.run_id}: changed since: kernel"]
    assert present(store.resume(SPEC, CONDITIONS, messages.append)).run_id == cut.run_id


@pytest.mark.parametrize("status", ["complete", "failed"])  # failed: by its answers
def test_a_run_with_a_result_has_no_steps_left(tmp_path, status):
    store = Store(tmp_path)
    writer = cut_off(store, "q14")
    writer.finish(result(writer, status))
    assert sorted(path.name for path in writer.directory.iterdir()) == ["run.json", "spec.json"]
    assert store.resume(SPEC, CONDITIONS, print) is None


@pytest.mark.parametrize("what", ["finished", "killed after its result", "resumed by another"])
def test_a_run_that_another_finishes_meanwhile_is_not_resumed(tmp_path, monkeypatch, what):
    """Between the opening of its steps and the lock on them."""
    store = Store(tmp_path)
    owner = failed(store, "q14") if what == "resumed by another" else cut_off(store, "q14")
    lock = steps_module._lock

    def lock_late(descriptor):
        monkeypatch.undo()
        if what == "killed after its result":
            monkeypatch.setattr(owner.checkpoint, "remove", owner.checkpoint.close)
        resumed = what == "resumed by another"
        by = present(store.resume(SPEC, CONDITIONS, print)) if resumed else owner
        by.finish(result(by))
        lock(descriptor)

    monkeypatch.setattr(steps_module, "_lock", lock_late)
    assert store.resume(SPEC, CONDITIONS, print) is None
    assert len(store.runs()) == (2 if what == "resumed by another" else 1)
    assert store.unfinished() == []


@pytest.mark.parametrize("content", ["[]", "null", "1", '"x"', "{}", "[" * 100_000, ""])
def test_a_damaged_result_is_not_resumed_and_stops_no_other_run(tmp_path, content):
    store = Store(tmp_path)
    damaged = failed(store, "q14")
    (damaged.directory / "run.json").write_text(content)
    assert store.resume(SPEC, CONDITIONS, print) is None
    other = cut_off(store, "q2")
    other.close()
    assert present(store.resume(SPEC, CONDITIONS, print)).run_id == other.run_id


def test_the_steps_of_a_failed_run_go_to_one_run_and_to_no_second(tmp_path):
    store = Store(tmp_path)
    first = failed(store, "q14", "q2")
    again = present(store.resume(SPEC, CONDITIONS, print))
    assert again.run_id != first.run_id
    steps = present(again.checkpoint)
    assert steps.finished == ["q14", "q2"]
    assert steps.attempts[0].run_id == first.run_id
    assert not (first.directory / FILE).exists()
    assert under_way(again.directory)
    assert store.run(first.run_id).document["status"] == "failed"
    assert store.resume(SPEC, CONDITIONS, print) is None


def test_a_run_under_way_cannot_be_removed(tmp_path):
    store = Store(tmp_path)
    writer = cut_off(store, "q14")
    with pytest.raises(UsageError, match="under way"):
        store.remove(writer.directory)
    (path,) = store.unfinished()
    assert (under_way(path), steps_kept(path)) == (True, 1)
    writer.close()
    store.remove(writer.directory)
    assert store.unfinished() == []
