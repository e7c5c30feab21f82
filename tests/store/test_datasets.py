"""Datasets and runs of another host: whole or absent."""

import io
import json
import os
import random
import tarfile
from pathlib import Path

import pytest
from example_run import SPEC, result

from harness.errors import RunFailed, UsageError
from harness.progress import Progress, SilentProgress
from harness.store import transfer
from harness.store.datasets import Dataset, DatasetStore, dataset_name, remove_datasets
from harness.store.run_store import Store
from harness.store.transfer import import_runs
from harness.supervise.supervisor import Supervisor


@pytest.fixture
def store(tmp_path):
    with Supervisor(tmp_path / "state") as supervisor:
        yield DatasetStore(tmp_path / "golden", supervisor.journal)


def build(store, name, text="rows", **more):
    with store.building(name, SilentProgress()) as building:
        (building.content / "table").mkdir()
        (building.content / "table" / "1").write_text(text)
        (building.content / "link").symlink_to("table/1")
        return building.publish({"scale": 1}, {"rows": {"t": 4}}, SilentProgress(), **more)


def test_a_dataset_appears_whole(store):
    dataset = build(store, "tpch-x")
    assert store.find("tpch-x").fingerprint == {"rows": {"t": 4}}
    assert (dataset.content / "table" / "1").read_text() == "rows"
    assert dataset.size_bytes == 4
    assert dataset.verify(SilentProgress()) == []


def test_what_was_not_published_leaves_nothing(store):
    with (
        pytest.raises(ValueError, match="disk"),
        store.building("tpch-x", SilentProgress()) as building,
    ):
        (building.content / "half").write_text("…")
        raise ValueError("disk full")
    assert store.datasets() == []
    assert [p.name for p in store.root.iterdir()] == [".tpch-x.lock"]


def test_verify_names_what_changed_and_what_is_missing(store):
    dataset = build(store, "tpch-x")
    (dataset.content / "table" / "1").write_text("Rows")
    (dataset.content / "link").unlink()
    (dataset.content / "new").write_text("")
    assert sorted(dataset.verify(SilentProgress())) == [
        "added: new",
        "changed: table/1",
        "missing: link",
    ]


def test_a_flipped_bit_anywhere_is_refused_by_the_name_of_its_file(store):
    dataset = build(store, "tpch-x", "rows" * 1000)
    file = dataset.content / "table" / "1"
    for bit in random.Random(17).sample(range(8 * 4000), 12):
        flip(file, bit)
        with pytest.raises(RunFailed) as refused, dataset.in_use(SilentProgress()):
            pass
        assert "changed: table/1" in refused.value.context
        flip(file, bit)
    with dataset.in_use(SilentProgress()):
        pass


def flip(file, bit):
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def test_a_process_reads_the_files_again_only_where_one_has_changed(store, monkeypatch):
    dataset = build(store, "tpch-x")
    reads: list[str] = []
    verify = Dataset.verify

    def noted(dataset: Dataset, progress: Progress) -> list[str]:
        reads.append(dataset.name)
        return verify(dataset, progress)

    monkeypatch.setattr(Dataset, "verify", noted)
    dataset.require_intact(SilentProgress())  # this process has made it
    assert reads == []
    (dataset.content / "table" / "1").touch()
    for _ in range(2):
        dataset.require_intact(SilentProgress())
    assert reads == ["tpch-x"]


def test_a_dataset_that_is_there_is_not_built_again(store):
    build(store, "tpch-x")
    with store.building("tpch-x", SilentProgress()) as building:
        assert building is None


def test_a_removal_cut_short_leaves_nothing_that_looks_complete(store):
    dataset = build(store, "tpch-x")
    (dataset.directory / "golden.json").unlink()
    assert store.find("tpch-x") is None
    assert build(store, "tpch-x", "more").size_bytes == 4


def test_different_data_have_different_names():
    first, second = (
        dataset_name("tpch-postgres", {"scale": 1}),
        dataset_name("tpch-postgres", {"a": 2}),
    )
    assert first.startswith("tpch-postgres-")
    assert first != second


def test_data_in_use_are_not_removed_and_what_is_recorded_of_them_stays_known(store):
    used, idle = build(store, "tpch-x"), build(store, "tpch-y")
    with (
        used.in_use(SilentProgress()),
        used.in_use(SilentProgress()),  # by two runs at a time
        pytest.raises(UsageError) as refused,
    ):
        remove_datasets([idle.directory, used.directory])
    assert refused.value.problem == "remove tpch-x"
    assert store.datasets() == [used, idle]
    remove_datasets([idle.directory, used.directory])
    assert store.datasets() == []
    assert used.fingerprint == {"rows": {"t": 4}}
    with pytest.raises(RunFailed), used.in_use(SilentProgress()):
        pass


def test_data_being_built_again_are_not_removed(store):
    dataset = build(store, "tpch-x")
    with store.building("tpch-x", SilentProgress()), pytest.raises(UsageError):
        remove_datasets([dataset.directory])
    assert store.find("tpch-x") == dataset


def test_who_waits_for_the_lock_of_data_that_are_removed_waits_for_the_one_lock(store):
    dataset = build(store, "tpch-x")
    lock = store.root / ".tpch-x.lock"
    before = lock.stat().st_ino
    remove_datasets([dataset.directory])
    assert lock.stat().st_ino == before


@pytest.mark.parametrize("damage", ["{", "[]", "{}", '{"schema": 1, "files": 7}', "[" * 100_000])
def test_a_record_that_cannot_be_read_is_reported_and_disables_no_other(store, damage, capsys):
    broken, sound = build(store, "tpch-x"), build(store, "tpch-y")
    (broken.directory / "golden.json").write_text(damage)
    with pytest.raises(UsageError) as refused:
        store.find("tpch-x")
    assert "harness data rm tpch-x" in refused.value.hint
    reader = DatasetStore(store.root)
    assert reader.datasets() == [sound]
    assert capsys.readouterr().err.count("warning: dataset-unreadable: ") == 1
    remove_datasets(reader.directories())
    assert not broken.directory.exists()


def test_a_link_is_not_removed_with_what_it_names(store, tmp_path):
    dataset, other = build(store, "tpch-x"), build(store, "tpch-y")
    dataset.directory.rename(tmp_path / "elsewhere")
    dataset.directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError) as refused:
        remove_datasets([other.directory, dataset.directory])
    assert refused.value.hint.endswith(f"rm {dataset.directory}")
    assert (tmp_path / "elsewhere" / "golden.json").exists()
    assert store.datasets() == [dataset, other]


# Runs of another host are taken over whole, or not at all -------------------------


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """One finished run of another host's store."""
    writer = Store(tmp_path / "there").begin(SPEC)
    writer.finish(result(writer), artifacts={"answers": {"some": "answer"}})
    writer.close()
    return writer.directory


@pytest.fixture
def here(tmp_path: Path) -> Store:
    return Store(tmp_path / "here")


def packed(tmp_path: Path, *runs: Path) -> Path:
    archive = tmp_path / "runs.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        for run in runs:
            file.add(run, arcname=run.name)
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
    first = import_runs(archive, here, "optane1")
    assert [stored.run_id for stored in first.new] == [run.name]
    assert here.run(run.name).artifact("answers") == {"some": "answer"}
    again = import_runs(archive, here, "optane1")
    assert (again.new, again.present) == ((), (run.name,))
    assert [stored.run_id for stored in here.runs()] == [run.name]


def test_an_imported_run_says_so_and_cannot_be_resumed(tmp_path, run, here):
    (run / "origin.json").write_text("of the archive")
    (run / "steps.jsonl").write_text("steps")
    (stored,) = import_runs(packed(tmp_path, run), here, "optane1").new
    assert stored.imported
    assert json.loads((stored.directory / "origin.json").read_text()) == {"from": "optane1"}
    assert not (stored.directory / "steps.jsonl").exists()


def test_another_run_of_the_same_name_is_named_by_its_host(tmp_path, run, here):
    import_runs(packed(tmp_path, run), here, "optane1")
    document = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**document, "started_unix_ns": 2}))
    for _ in range(2):  # a second time it is known by that name
        import_runs(packed(tmp_path, run), here, "optane2")
    assert [stored.run_id for stored in here.runs()] == [run.name, f"{run.name}@optane2"]
    (run / "run.json").write_text(json.dumps({**document, "started_unix_ns": 3}))
    with pytest.raises(UsageError) as refused:
        import_runs(packed(tmp_path, run), here, "optane2")
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
        import_runs(archive, here)
    assert refused.value.problem == f"import {archive}"
    assert files_of(here) == ["runs"]


@pytest.mark.parametrize(
    "name",
    ["../out", "/etc/out", "run/../../out", ".hidden/x", "loose",
     "run/" + "deep/" * 500 + "x", "run/a\0b", "run/a\nb", "run/" + "long" * 100],
)  # fmt: skip
def test_no_way_out_of_the_store(tmp_path: Path, here: Store, name: str) -> None:
    with pytest.raises(UsageError):
        import_runs(zeros(tmp_path, (name, 4)), here)
    assert files_of(here) == ["runs"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("origin", ["/../../x", "..", "", "a/b", "a b", "a\nb", "a" * 300])
def test_an_origin_that_is_no_plain_name_is_refused(tmp_path, run, here, origin):
    with pytest.raises(UsageError) as refused:
        import_runs(packed(tmp_path, run), here, origin)
    assert refused.value.problem == f"--from {origin!r}"
    assert not here.root.exists()


@pytest.mark.parametrize("suffix", [" x", "\x1b[2J", "'"])
def test_a_run_whose_name_is_no_plain_one_is_refused(tmp_path, run, here, suffix):
    run = run.rename(f"{run}{suffix}")
    for source in (packed(tmp_path, run), run.parents[1]):
        with pytest.raises(UsageError):
            import_runs(source, here)
        assert files_of(here) == ["runs"]


def test_runs_of_another_results_directory_come_as_those_of_an_archive(tmp_path, run, here):
    (run / "observers").mkdir()
    (run / "observers" / "link").symlink_to("/etc/passwd")
    Store(run.parents[1]).begin(SPEC).close()
    (stored,) = import_runs(run.parents[1], here, "optane1").new
    assert stored.run_id == run.name and stored.imported
    assert stored.artifact("answers") == {"some": "answer"}
    assert import_runs(run.parents[1], here, "optane1").present == (run.name,)
    assert run.exists()


@pytest.mark.parametrize("damage", [with_link, lambda run: os.mkfifo(run / "artifacts" / "x.json")])
def test_a_results_directory_with_what_is_no_file_keeps_all_out(run, here, damage):
    damage(run)
    with pytest.raises(UsageError):
        import_runs(run.parents[1], here)
    assert files_of(here) == ["runs"]


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
        import_runs(archive, here, limit_bytes=1_000_000)
    assert "--max-size" in refused.value.hint
    assert files_of(here) == ["runs"]


def test_what_an_archive_may_unpack_to_follows_its_size(tmp_path, here, monkeypatch):
    monkeypatch.setattr(transfer, "_LIMIT_BYTES", 1000)
    with pytest.raises(UsageError) as refused:
        import_runs(zeros(tmp_path, ("run/zeros.json", 3_000_000)), here)
    assert "--max-size" in refused.value.hint
