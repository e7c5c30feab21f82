"""Runs of another host are taken over whole, or not at all."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from example_run import SPEC, result

from harness.errors import UsageError
from harness.store import transfer
from harness.store.runs import Store
from harness.store.transfer import import_archive


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """One finished run of another host's store."""
    writer = Store(tmp_path / "there").begin(SPEC)
    writer.write_artifact("answers", {"some": "answer"})
    writer.finish(result(writer))
    writer.close()
    return writer.directory


@pytest.fixture
def here(tmp_path: Path) -> Store:
    return Store(tmp_path / "here")


def packed(tmp_path: Path, *runs: Path) -> Path:
    archive = tmp_path / "runs.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        for one in runs:
            file.add(one, arcname=one.name)
    return archive


def files_of(store: Store) -> list[str]:
    return sorted(str(path.relative_to(store.root)) for path in store.root.rglob("*"))


def zeros(tmp_path: Path, *members: tuple[str, int]) -> Path:
    """An archive of members of these names and sizes that are nothing but zeros."""
    archive = tmp_path / "zeros.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        for name, size in members:
            member = tarfile.TarInfo(name)
            member.size = size
            file.addfile(member, io.BytesIO(bytes(size)))
    return archive


def test_a_run_comes_whole_and_once(tmp_path: Path, run: Path, here: Store) -> None:
    archive = packed(tmp_path, run)
    first = import_archive(archive, here, "optane1")
    assert [stored.run_id for stored in first.new] == [run.name]
    assert here.run(run.name).artifact("answers") == {"some": "answer"}
    again = import_archive(archive, here, "optane1")
    assert (again.new, again.known) == ((), (run.name,))
    assert [stored.run_id for stored in here.runs()] == [run.name]


def test_an_imported_run_says_so_and_cannot_be_resumed(tmp_path, run, here):
    (run / "origin.json").write_text("of the archive")
    (run / "steps.jsonl").write_text("steps")
    (stored,) = import_archive(packed(tmp_path, run), here, "optane1").new
    assert stored.imported
    assert json.loads((stored.directory / "origin.json").read_text()) == {"from": "optane1"}
    assert not (stored.directory / "steps.jsonl").exists()


def test_another_run_of_the_same_name_is_named_by_its_host(tmp_path, run, here):
    import_archive(packed(tmp_path, run), here, "optane1")
    document = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**document, "started_unix_ns": 2}))
    for _ in range(2):  # a second time it is known by that name
        import_archive(packed(tmp_path, run), here, "optane2")
    assert [stored.run_id for stored in here.runs()] == [run.name, f"{run.name}@optane2"]
    (run / "run.json").write_text(json.dumps({**document, "started_unix_ns": 3}))
    with pytest.raises(UsageError) as refused:
        import_archive(packed(tmp_path, run), here, "optane2")
    assert refused.value.problem == f"import {run.name} from optane2"


def broken(run: Path) -> list[Path]:
    other = run.parent / f"{run.name}.1"
    other.mkdir()
    (other / "run.json").write_text('{"schema": 1}')
    return [run, other]


def without_result(run: Path) -> list[Path]:
    (run / "run.json").unlink()
    return [run]


def with_link(run: Path) -> list[Path]:
    (run / "artifacts" / "link.json").symlink_to("/etc/passwd")
    return [run]


@pytest.mark.parametrize("damage", [broken, without_result, with_link])
def test_one_that_is_no_run_keeps_all_out(tmp_path, run, here, damage):
    archive = packed(tmp_path, *damage(run))
    with pytest.raises(UsageError) as refused:
        import_archive(archive, here)
    assert refused.value.problem == f"import {archive}"
    assert files_of(here) == ["runs"]


@pytest.mark.parametrize(
    "name",
    ["../out", "/etc/out", "run/../../out", ".hidden/x", "loose",
     "run/" + "deep/" * 500 + "x", "run/a\0b", "run/" + "long" * 100],
)  # fmt: skip
def test_no_way_out_of_the_store(tmp_path: Path, here: Store, name: str) -> None:
    with pytest.raises(UsageError):
        import_archive(zeros(tmp_path, (name, 4)), here)
    assert files_of(here) == ["runs"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "members",
    [
        [("run/artifacts/zeros.json", 3_000_000)],
        [(f"run/{number}", 0) for number in range(4_000)],
        [("run/" + "long" * 500_000, 0)],
    ],
    ids=["one large file", "many files", "a long name"],
)
def test_an_archive_that_unpacks_to_far_more_is_refused_and_leaves_nothing(tmp_path, here, members):
    archive = zeros(tmp_path, *members)
    with pytest.raises(UsageError) as refused:
        import_archive(archive, here, limit_bytes=1_000_000)
    assert "--max-size" in refused.value.hint
    assert files_of(here) == ["runs"]


def test_what_an_archive_may_unpack_to_follows_its_size(tmp_path, here, monkeypatch):
    monkeypatch.setattr(transfer, "_LIMIT_BYTES", 1000)
    with pytest.raises(UsageError) as refused:
        import_archive(zeros(tmp_path, ("run/zeros.json", 3_000_000)), here)
    assert "--max-size" in refused.value.hint
