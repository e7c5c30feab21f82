"""The store: a run without run.json is unfinished, whatever else is there."""

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example_run import SPEC, result

from harness import jsonfile
from harness.errors import RunFailed, UsageError
from harness.store import schemas
from harness.store.checkpoint import steps_kept, under_way
from harness.store.documents import write_json_atomically
from harness.store.runs import Store
from harness.store.spec import RUN_SCHEMA, RunSpec


def test_a_run_is_unfinished_until_its_result_is_written(tmp_path):
    store = Store(tmp_path)
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


def test_a_result_outside_the_contract_is_never_written(tmp_path):
    store = Store(tmp_path)
    writer = store.begin(SPEC)
    with pytest.raises(UsageError, match="status"):
        writer.finish(result(writer, status="great"))
    assert store.runs() == []


def test_a_label_of_any_kind_makes_a_name_that_a_result_may_have(tmp_path):
    spec = RunSpec("tpch", "postgres", None, {"scale": 1}, label="../Lab 3 / räck")
    writer = Store(tmp_path).begin(spec)
    assert writer.directory.parent == tmp_path / "runs"
    writer.finish(replace(result(writer), spec=spec))


def test_runs_are_named_by_beginning_or_end_and_ambiguity_is_refused(tmp_path):
    store = Store(tmp_path)
    writers = [store.begin(SPEC) for _ in range(2)]  # of one second
    for writer in writers:
        writer.finish(result(writer))
    assert store.run(writers[1].run_id).run_id == writers[1].run_id
    for name, reason in ((writers[0].run_id[:4], "2 runs"), ("nothing", "no such")):
        with pytest.raises(UsageError, match=reason):
            store.run(name)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema": 1}', "\x00"])
@pytest.mark.parametrize("file", ["run.json", "manifest.json"])
def test_one_unreadable_run_is_skipped_with_its_remedy(tmp_path, file, damage, capsys):
    store = Store(tmp_path)
    good, bad = store.begin(SPEC), store.begin(SPEC)
    for writer in (good, bad):
        writer.finish(result(writer))
        writer.close()
    (bad.directory / file).write_text(damage)
    for _ in range(2):
        assert [r.run_id for r in store.runs()] == [good.run_id]
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: run-unreadable: ")
    assert f"harness runs rm {bad.run_id}" in warning
    store.remove(store.directory(bad.run_id))
    assert not bad.directory.exists()


def test_a_run_of_another_schema_version_is_skipped(tmp_path, capsys):
    store = Store(tmp_path)
    writer = store.begin(SPEC)
    writer.finish(result(writer))
    path = writer.directory / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": RUN_SCHEMA - 1}))
    assert store.runs() == []
    assert writer.run_id in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", ".", "..", "20", "../results"])
def test_a_piece_of_an_id_names_no_run_to_remove(tmp_path, name):
    store = Store(tmp_path)
    writer = store.begin(SPEC)
    writer.finish(result(writer))
    for piece in (name, writer.run_id[:-1], writer.run_id[1:]):
        with pytest.raises(UsageError):
            store.directory(piece)


def test_only_runs_of_the_store_can_be_removed_also_one_killed_before_its_spec_was_written(
    tmp_path,
):
    store = Store(tmp_path / "results")
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
    """The documents that are validated from now on, by schema."""
    seen = []
    really = schemas.validate

    def noted(document: Any, name: str, source: str) -> None:
        seen.append(name)
        really(document, name, source)

    monkeypatch.setattr(schemas, "validate", noted)
    return seen


def stored(store, count=1):
    """Finished runs."""
    made = []
    for _ in range(count):
        writer = store.begin(SPEC)
        made.append(writer.finish(result(writer)))
        writer.close()
    return made


def cloned(store, count):
    """So many runs, written by somebody else's hand."""
    (one,) = stored(store)
    for number in range(count - 1):
        shutil.copytree(one.directory, f"{one.directory}-{number}")


def test_listing_validates_what_is_new_once_and_nothing_again(tmp_path, validated):
    cloned(Store(tmp_path), 1000)
    validated.clear()
    assert len(Store(tmp_path).runs()) == 1000
    assert len(validated) == 1000
    validated.clear()
    runs = Store(tmp_path).runs()
    assert [run.head.status for run in runs] == ["complete"] * 1000
    assert validated == []


def test_selecting_reads_no_document_and_a_named_run_reads_one(tmp_path, validated, monkeypatch):
    stored(Store(tmp_path), 20)
    Store(tmp_path).runs()
    validated.clear()
    read: list[str] = []
    really = jsonfile.read_bytes

    def noted(path: Path) -> bytes:
        read.append(path.name)
        return really(path)

    monkeypatch.setattr(jsonfile, "read_bytes", noted)
    store = Store(tmp_path)
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
        lambda index: (index.unlink(), index.mkdir()),
    ],
    ids=["removed", "empty", "cut off", "changed", "noise", "a directory"],
)
def test_the_index_may_be_lost_or_damaged_at_any_time(tmp_path, spoil):
    made = stored(Store(tmp_path), 3)
    Store(tmp_path).runs()
    spoil(tmp_path / "runs.index")
    for _ in range(2):
        assert [run.head.status for run in Store(tmp_path).runs()] == ["complete"] * 3
    assert Store(tmp_path).run(made[0].run_id).document["status"] == "complete"


def test_what_is_no_regular_file_makes_no_command_wait(tmp_path):
    (made,) = stored(Store(tmp_path))
    os.mkfifo(tmp_path / "runs.index")
    cut_off = tmp_path / "runs" / "20260101T000000Z-cut-off"
    cut_off.mkdir()
    os.mkfifo(cut_off / "steps.jsonl")
    store = Store(tmp_path)
    assert [run.run_id for run in store.runs()] == [made.run_id]
    assert [steps_kept(path) for path in store.unfinished()] == [0]
    assert not under_way(store.unfinished()[0])
    assert store.resume(SPEC, {}, print) is None
    assert (tmp_path / "runs.index").is_file()


def test_a_document_changed_after_indexing_is_validated_again(tmp_path, capsys):
    good, bad = stored(Store(tmp_path), 2)
    Store(tmp_path).runs()
    for run, status in ((good, "failed"), (bad, "splendid")):
        path = run.directory / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"status": status}))
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
