"""The store: a run without run.json is unfinished, and which finished steps it keeps."""

import binascii
import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from example_run import SPEC, result
from narrowed import present

from harness import jsonfile, structs
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import Placement, parse_placement
from harness.store import checkpoint as steps_module
from harness.store import index
from harness.store.checkpoint import FILE, Attempt, Checkpoint, steps_kept, under_way
from harness.store.documents import write_json_atomically
from harness.store.index import Index
from harness.store.result import Emulated, Experiment, Failure
from harness.store.run_store import Store
from harness.store.spec import RUN_SCHEMA, RunSpec
from harness.store.transfer import import_runs
from harness.supervise import locks


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def stored(store, count=1):
    writers = [store.begin(SPEC) for _ in range(count)]
    made = [writer.finish(result(writer)) for writer in writers]
    for writer in writers:
        writer.close()
    return made


def change(run, **members):
    path = run.directory / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | members))


def test_a_clock_that_is_set_back_reorders_no_runs(store, monkeypatch):
    made = []
    for hour in (12, 11, 11.5, 13):
        monkeypatch.setattr("harness.store.run_store.time.time", lambda hour=hour: hour * 3600)
        made.append(store.begin(SPEC).run_id)
    assert made == sorted(made)
    assert [name[9:15] for name in made] == ["120000", "120001", "120002", "130000"]


def test_a_clock_that_was_years_ahead_does_not_stay_so(store, monkeypatch):
    (store.runs_folder / "20990101T000000Z-tpch").mkdir(parents=True)
    monkeypatch.setattr("harness.store.run_store.time.time", lambda: 3600.0)
    assert store.begin(SPEC).run_id.startswith("19700101T010000Z-")


def test_a_run_is_unfinished_until_its_result_is_written(store):
    writer = store.begin(SPEC)
    (writer.directory / ".run.json.partial").write_text(json.dumps(result(writer).to_json())[:50])
    assert [path.name for path in store.unfinished()] == [writer.run_id]
    assert store.runs() == []
    with pytest.raises(UsageError, match="unfinished"):
        store.run(writer.run_id)
    writer.finish(result(writer))
    assert [r.run_id for r in store.runs()] == [writer.run_id]
    assert store.unfinished() == []
    assert store.run(writer.run_id).spec == SPEC


def test_a_result_outside_the_contract_is_never_written(store):
    writer = store.begin(SPEC)
    with pytest.raises(UsageError, match="status"):
        writer.finish(result(writer, status="great"))
    assert store.runs() == []


def test_a_label_of_any_kind_makes_a_name_that_a_result_may_have(tmp_path):
    spec = RunSpec("tpch", "postgres", None, {"scale": 1}, label="../Lab 3 / räck")
    writer = Store(tmp_path).begin(spec)
    assert writer.directory.parent == tmp_path / "runs"
    writer.finish(msgspec.structs.replace(result(writer), spec=spec))


def test_runs_are_named_by_beginning_or_end_and_ambiguity_is_refused(store):
    first, second = stored(store, 2)  # of one second
    assert store.run(second.run_id).run_id == second.run_id
    for name, reason in ((first.run_id[:4], "2 runs"), ("nothing", "no such")):
        with pytest.raises(UsageError, match=reason):
            store.run(name)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema": 1}', "\x00"])
@pytest.mark.parametrize("file", ["run.json", "manifest.json"])
def test_one_unreadable_run_is_skipped_with_its_remedy(store, file, damage, capsys):
    good, bad = stored(store, 2)
    (bad.directory / file).write_text(damage)
    for _ in range(2):
        assert [r.run_id for r in store.runs()] == [good.run_id]
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: run-unreadable: ")
    assert f"harness runs rm {bad.run_id}" in warning
    store.remove(store.directory(bad.run_id))
    assert not bad.directory.exists()


def test_a_run_of_another_schema_version_is_skipped(store, capsys):
    (run,) = stored(store)
    change(run, schema=RUN_SCHEMA - 1)
    assert store.runs() == []
    assert run.run_id in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", ".", "..", "20", "../results"])
def test_a_piece_of_an_id_names_no_run_to_remove(store, name):
    (run,) = stored(store)
    for piece in (name, run.run_id[:-1], run.run_id[1:]):
        with pytest.raises(UsageError):
            store.directory(piece)


def test_only_runs_of_the_store_can_be_removed_also_one_killed_before_its_spec(store, tmp_path):
    writer = store.begin(SPEC)
    (other := tmp_path / "other").mkdir()
    writer.close()
    (writer.directory / "spec.json").unlink()
    with pytest.raises(UsageError):
        store.remove(other)
    assert [path.name for path in store.unfinished()] == [writer.run_id]
    store.remove(writer.directory)
    assert other.exists()
    assert store.unfinished() == []


def test_a_full_disk_is_reported_and_leaves_no_partial_file(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunFailed) as refused:
        write_json_atomically(tmp_path / "run.json", {"a": 1})
    assert str(tmp_path) in refused.value.problem
    assert os.strerror(errno.ENOSPC) in refused.value.context
    assert list(tmp_path.iterdir()) == []


# The index ---------------------------------------------------------------------------


@pytest.fixture
def validated(monkeypatch):
    """The types of the documents that are validated from now on."""
    seen = []
    really = structs.convert

    def noted(document: Any, kind: Any, source: str) -> Any:
        seen.append(kind)
        return really(document, kind, source)

    monkeypatch.setattr(structs, "convert", noted)
    return seen


def test_listing_validates_what_is_new_once_and_nothing_again(tmp_path, validated):
    (run,) = stored(Store(tmp_path))
    for number in range(49):  # as if copied by hand
        shutil.copytree(run.directory, f"{run.directory}-{number}")
    for new in (50, 0):
        validated.clear()
        runs = Store(tmp_path).runs()
        assert [run.head.status for run in runs] == ["complete"] * 50
        assert len(validated) == new


def test_a_selection_reads_no_document(store, tmp_path, validated, monkeypatch):
    """But that of a named run."""
    stored(Store(tmp_path), 20)
    Store(tmp_path).runs()
    validated.clear()
    read: list[str] = []
    really = jsonfile.read_bytes

    def noted(path: Path, **options: Any) -> bytes:
        read.append(path.name)
        return really(path, **options)

    monkeypatch.setattr(jsonfile, "read_bytes", noted)
    last = store.runs()[-1]
    assert read == ["runs.index"]
    assert store.run(last.run_id).document["status"] == "complete"
    assert read == ["runs.index", "run.json"]
    assert validated == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda index: index.unlink(),
        lambda index: index.write_text(""),
        lambda index: index.write_bytes(index.read_bytes()[:-40]),
        lambda index: index.write_bytes(index.read_bytes().replace(b"complete", b"failed  ")),
        lambda index: index.write_bytes(b"\xff" * 1000),
        lambda index: index.write_text('{"a run": [[], {}]}'),
        lambda index: (index.unlink(), index.mkdir()),
    ],
    ids=["removed", "empty", "cut off", "changed", "noise", "JSON", "a directory"],
)
def test_the_index_may_be_lost_or_damaged_at_any_time(tmp_path, spoil):
    made = stored(Store(tmp_path), 3)
    Store(tmp_path).runs()
    spoil(tmp_path / "runs.index")
    for _ in range(2):
        assert [run.head.status for run in Store(tmp_path).runs()] == ["complete"] * 3
    assert Store(tmp_path).run(made[0].run_id).document["status"] == "complete"


@pytest.mark.parametrize("head", ["", "5", "[]", "{}", '{"spec": 1}', '{"spec": {}, "status": []}'])
def test_a_head_of_another_shape_is_made_again(tmp_path, head):
    """Even if its line counts, and its run has not changed."""
    stored(Store(tmp_path), 2)
    old = {run.run_id: present(run.entry) for run in Store(tmp_path).runs()}
    (tmp_path / "runs.index").unlink()
    Index(tmp_path).update({i: replace(entry, head=head.encode()) for i, entry in old.items()})
    runs = Store(tmp_path).runs()
    assert [present(run.entry).head for run in runs] == [head.encode()] * 2
    assert [run.head.status for run in runs] == ["complete"] * 2


def test_an_index_of_a_release_with_other_types_does_not_count(tmp_path, monkeypatch):
    stored(Store(tmp_path), 2)
    Store(tmp_path).runs()
    assert len(Index(tmp_path).entries) == 2
    types = "\n".join(index._types(index.Head, set()))
    for kind in (index.Head, RunSpec, Placement, Experiment, Emulated):
        name = f"{kind.__name__}.{kind.__struct_fields__[0]}: "
        assert name in types
        with monkeypatch.context() as patch:
            patch.setattr(index, "_types", lambda *_, name=name: [types.replace(name, "x")])
            index._release.cache_clear()
            assert Index(tmp_path).entries == {}
    index._release.cache_clear()


def test_an_index_counts_in_another_process(tmp_path):
    stored(Store(tmp_path), 2)
    Store(tmp_path).runs()
    program = (
        "import sys; from pathlib import Path; from harness.store.index import Index; "
        "print(len(Index(Path(sys.argv[1])).entries))"
    )
    argv = [sys.executable, "-c", program, str(tmp_path)]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "2\n"


def test_an_index_of_any_size_counts_and_is_appended_to(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonfile, "MOST_BYTES", 1000)
    run = stored(Store(tmp_path), 20)[0]
    Store(tmp_path).runs()
    before = (tmp_path / "runs.index").read_bytes()
    assert len(before) > 1000 and len(Index(tmp_path).entries) == 20
    stored(Store(tmp_path))
    Store(tmp_path).remove(run.directory)
    assert len(Store(tmp_path).runs()) == 20
    assert (tmp_path / "runs.index").read_bytes().startswith(before)
    for _ in range(130):  # lines that do not count are removed at last
        change(run := Store(tmp_path).runs()[0], started_unix_ns=run.head.started_unix_ns + 1)
    assert len((tmp_path / "runs.index").read_bytes().splitlines()) < 130


def test_what_is_no_regular_file_makes_no_command_wait(store, tmp_path):
    (made,) = stored(Store(tmp_path))
    os.mkfifo(tmp_path / "runs.index")
    cut_off = tmp_path / "runs" / "20260101T000000Z-cut-off"
    cut_off.mkdir()
    os.mkfifo(cut_off / "steps.jsonl")
    assert [run.run_id for run in store.runs()] == [made.run_id]
    assert [steps_kept(path) for path in store.unfinished()] == [0]
    assert not under_way(store.unfinished()[0])
    assert store.resume(SPEC, {}, print) is None
    assert (tmp_path / "runs.index").is_file()


def test_a_document_changed_after_indexing_is_validated_again(tmp_path, capsys):
    good, bad = stored(Store(tmp_path), 2)
    Store(tmp_path).runs()
    change(good, status="failed")
    change(bad, status="splendid")
    (run,) = Store(tmp_path).runs()
    assert (run.run_id, run.head.status) == (good.run_id, "failed")
    assert capsys.readouterr().err.startswith("warning: run-unreadable: ")


@pytest.mark.parametrize("content", ['{"schema": 2}', "[", "[" * 100_000])
@pytest.mark.parametrize("name", ["result", "text"])
def test_a_document_changed_after_it_was_listed_is_validated_when_read(tmp_path, name, content):
    stored(Store(tmp_path))
    Store(tmp_path).runs()
    (run,) = Store(tmp_path).runs()
    (run.directory / "run.json").write_text(content)
    with pytest.raises(UsageError):
        getattr(run, name)


# Finished steps -------------------------------------------------------------------


CONDITIONS = {"kernel": "6.1", "tiers": [["ssd", "block"]]}


def attempt(run_id="r", conditions=CONDITIONS):
    return Attempt(run_id, 1, conditions)


def left(folder, **finished):
    """Store what a process leaves that has finished these steps."""
    steps = Checkpoint.create(folder)
    for name, document in finished.items():
        steps.finish(name, document)
    steps.close()


def opened(folder: Path) -> Checkpoint:
    return present(Checkpoint.open(folder))


def test_what_was_appended_is_there_after_a_cut(tmp_path):
    steps = Checkpoint.create(tmp_path)
    steps.begin(attempt())
    steps.finish("q14", {"rows": [["ä", 1]]})
    steps.close()
    again = opened(tmp_path)
    assert again.finished == ["q14"]
    assert again.document("q14") == {"rows": [["ä", 1]]}
    assert again.document("q2") is None
    assert steps_kept(tmp_path) == 1


@pytest.mark.parametrize("torn", ['{"step": "q2", "docu', '{"step"', "\0\0\0"])
def test_a_torn_last_line_does_not_count_and_does_not_spoil_the_next(tmp_path, torn):
    left(tmp_path, q14=1)
    with (tmp_path / FILE).open("a") as stream:
        stream.write(torn)
    again = opened(tmp_path)
    assert again.finished == ["q14"]
    again.finish("q9", 1)
    again.close()
    assert opened(tmp_path).finished == ["q14", "q9"]


@pytest.mark.parametrize(
    "text", ['{"something": "else"}', '{"step": "q14"}', "[]", "null", "[" * 100_000]
)
def test_what_is_no_line_of_a_checkpoint_and_all_after_it_does_not_count(tmp_path, text):
    left(tmp_path, q14=1, q9=2)
    first, last = (tmp_path / FILE).read_text().splitlines()
    checksum = f"{binascii.crc32(text.encode()):08x}"
    (tmp_path / FILE).write_text(f"{first}\n{checksum} {text}\n{last}\n")
    assert opened(tmp_path).finished == ["q14"]


def test_a_changed_result_does_not_count(tmp_path):
    left(tmp_path, q14={"duration_ns": 1234})
    path = tmp_path / FILE
    path.write_text(path.read_text().replace("1234", "1235"))
    assert opened(tmp_path).finished == []


def test_steps_that_a_full_disk_does_not_take_are_written_with_the_next_one(tmp_path):
    """The file is the kernel's own limit on its size: the write is cut short, as on a full disk."""
    program = f"""
import os, resource, signal
from pathlib import Path
from harness.store.checkpoint import FILE, Checkpoint
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
steps = Checkpoint.create(Path({str(tmp_path)!r}))
steps.finish("q14", 1)
whole = os.path.getsize(steps.path)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
steps.finish("q2", "x" * 1000)
print(steps.finished == ["q14", "q2"], os.path.getsize(steps.path) == whole)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
steps.finish("q9", 1)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True True\n"
    assert done.stderr.startswith("warning: steps-not-stored: ")
    assert opened(tmp_path).finished == ["q14", "q2", "q9"]


def test_only_a_run_whose_process_is_dead_is_resumed(tmp_path):
    program = f"""
import sys
from pathlib import Path
from harness.store.checkpoint import Checkpoint
steps = Checkpoint.create(Path({str(tmp_path)!r}))
steps.finish("q14", 1)
print("held", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert present(process.stdout).readline() == "held\n"
        assert under_way(tmp_path)
        assert Checkpoint.open(tmp_path) is None
        process.kill()
    assert not under_way(tmp_path)
    assert opened(tmp_path).finished == ["q14"]


def test_attempts_list_the_steps_that_were_finished_when_they_began(tmp_path):
    steps = Checkpoint.create(tmp_path)
    steps.begin(attempt())
    steps.finish("rf1-1", 1)
    steps.finish("q14", 1)
    steps.begin(attempt())
    assert [list(attempt.finished) for attempt in steps.attempts] == [[], ["rf1-1", "q14"]]


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
    writer.finish(msgspec.structs.replace(result(writer, "failed"), error=error))
    writer.close()
    return writer


def test_the_same_run_is_resumed_and_keeps_its_name(store):
    cut = cut_off(store, "q14")
    assert not store.interrupted(SPEC)  # it is under way
    cut.close()
    assert store.interrupted(SPEC)
    again = present(store.resume(SPEC, CONDITIONS, print))
    assert (again.run_id, present(again.checkpoint).finished) == (cut.run_id, ["q14"])


def test_a_run_under_way_or_without_a_step_or_of_another_spec_is_not_resumed(store):
    cut_off(store, "q14")  # its lock is still held
    cut_off(store).close()
    cut_off(store, "q14", spec=RunSpec("tpch", "duckdb", parse_placement("ssd-both"), {})).close()
    assert store.resume(SPEC, CONDITIONS, print) is None


def test_a_run_of_another_host_is_neither_resumed_nor_touched(store):
    """Hosts may share results without seeing each other's locks."""
    here, there = ({**CONDITIONS, "host": host} for host in ("here", "there"))
    theirs = cut_off(store, "q14", conditions=there)
    theirs.close()
    steps = theirs.directory / FILE
    with steps.open("ab") as stream:
        stream.write(b"a line that they are writing")
    content = steps.read_bytes()
    messages: list[str] = []
    assert store.resume(SPEC, here, messages.append) is None
    assert (steps.read_bytes(), messages) == (content, [])
    assert store.interrupted(SPEC, "there") and not store.interrupted(SPEC, "here")


def test_a_file_system_without_locks_takes_imported_runs_only(store, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    elsewhere = Store(store.root.with_name("local"))
    writer = elsewhere.begin(SPEC)
    writer.finish(result(writer))
    writer.close()
    monkeypatch.setattr(locks, "try_lock", refuse)
    with pytest.raises(RunFailed, match=os.strerror(errno.ENOSYS)):
        store.begin(SPEC)
    assert len(import_runs(elsewhere.root, store).new) == 1


def test_other_conditions_are_reported_and_the_run_is_left_alone(store):
    cut = cut_off(store, "q14")
    cut.close()
    messages: list[str] = []
    assert store.resume(SPEC, {**CONDITIONS, "kernel": "6.2"}, messages.append) is None
    assert messages == [f"not resuming {cut.run_id}: changed since: kernel"]
    assert present(store.resume(SPEC, CONDITIONS, messages.append)).run_id == cut.run_id


@pytest.mark.parametrize("status", ["complete", "failed"])  # failed: by its answers
def test_a_run_with_a_result_has_no_steps_left(store, status):
    writer = cut_off(store, "q14")
    writer.finish(result(writer, status))
    assert sorted(path.name for path in writer.directory.iterdir()) == ["run.json", "spec.json"]
    assert store.resume(SPEC, CONDITIONS, print) is None


@pytest.mark.parametrize("what", ["finished", "killed after its result", "resumed by another"])
def test_a_run_that_another_finishes_meanwhile_is_not_resumed(store, monkeypatch, what):
    """Between the opening of its steps and the lock on them."""
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
def test_a_damaged_result_is_not_resumed_and_stops_no_other_run(store, content):
    damaged = failed(store, "q14")
    (damaged.directory / "run.json").write_text(content)
    assert store.resume(SPEC, CONDITIONS, print) is None
    other = cut_off(store, "q2")
    other.close()
    assert present(store.resume(SPEC, CONDITIONS, print)).run_id == other.run_id


def test_the_steps_of_a_failed_run_go_to_one_run_and_to_no_second(store):
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


def test_a_run_under_way_cannot_be_removed(store):
    writer = cut_off(store, "q14")
    with pytest.raises(UsageError, match="under way"):
        store.remove(writer.directory)
    (path,) = store.unfinished()
    assert (under_way(path), steps_kept(path)) == (True, 1)
    writer.close()
    store.remove(writer.directory)
    assert store.unfinished() == []
