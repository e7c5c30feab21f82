"""Datasets: whole or absent, and verified against what was recorded."""

import random

import pytest

from harness.errors import RunFailed, UsageError
from harness.progress import Progress, SilentProgress
from harness.store.datasets import Dataset, DatasetStore, dataset_name, remove_datasets
from harness.supervise.supervisor import Supervisor


@pytest.fixture
def store(tmp_path):
    with Supervisor(tmp_path / "state") as supervisor:
        yield DatasetStore(tmp_path / "golden", supervisor.journal)


def build(store, name, text="rows", **more):
    with store.building(name) as building:
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
    with pytest.raises(ValueError, match="disk"), store.building("tpch-x") as building:
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
        "changed: table/1",
        "missing: link",
        "not in the record: new",
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
    with store.building("tpch-x") as building:
        assert building is None


def test_a_removal_cut_short_leaves_nothing_that_looks_complete(store):
    dataset = build(store, "tpch-x")
    (dataset.directory / "golden.json").unlink()
    assert store.find("tpch-x") is None
    assert build(store, "tpch-x", "more").size_bytes == 4


def test_different_data_have_different_names():
    one, two = dataset_name("tpch-postgres", {"scale": 1}), dataset_name("tpch-postgres", {"a": 2})
    assert one.startswith("tpch-postgres-")
    assert one != two


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
    with store.building("tpch-x"), pytest.raises(UsageError):
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
