"""Damaged files: each reader refuses with an error or a warning, and one disables no other.

Seeded mutations of every kind of file that the harness reads. ``DAMAGED_FILES=200`` makes that
many of each kind and reads runs through the commands themselves (reports are slow).
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from example_run import SPEC
from micro_runs import card_run
from report_runs import Case, with_artifacts, write

from harness.cli.app import app
from harness.errors import HarnessError
from harness.experiment.profile import load_profile
from harness.micro.suite import load_suite
from harness.paths import data_folder
from harness.progress import SilentProgress
from harness.store.checkpoint import Attempt
from harness.store.datasets import DatasetStore, remove_datasets
from harness.store.runs import Store, StoredRun
from harness.store.spec import RunSpec
from harness.store.transfer import import_archive
from harness.supervise.journal import Journal, recover
from harness.tiers.hostfile import load_host_file
from reports.micro.configured import settings_of
from reports.micro.points import devices
from reports.published import read_published
from reports.query_breakdown import plan_sums
from reports.values import natural

MANY = int(os.environ.get("DAMAGED_FILES", "0"))
ROUNDS = MANY or 6
PROFILES = data_folder("profiles")
WORDS = ["", "null", "-1", "1e999", "NaN", "[]", "{}", '"x"', "true", "0" * 5000, "\0", "é", "\\",
         "*a", "&a [*a]", "<<", "../..", "[" * 3000]  # fmt: skip
CONDITIONS = {"kernel": "6.1"}
VALUES: list[Any] = [None, [], {}, "", -1, 2**70, 1e308, True, "x" * 300, "a\0b", [[]], {"": {}}]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The file cut, spliced or overwritten somewhere; as JSON also with another shape."""
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if document is not None and rng.random() < 0.6:
        return json.dumps(_reshaped(document, rng)).encode()
    start = rng.randrange(len(content))
    end = min(len(content), start + rng.choice([0, 1, 2, 20, 500]))
    middle = rng.choice(
        [b"", bytes([rng.randrange(256)]), rng.choice(WORDS).encode(), content[start:end] * 2]
    )
    tail = b"" if rng.random() < 0.1 else content[end:]
    return content[:start] + middle + tail


def _reshaped(document: Any, rng: random.Random) -> Any:
    """With one value, anywhere in it, replaced, removed or under another name."""
    if not isinstance(document, dict | list) or not document or rng.random() < 0.1:
        return rng.choice(VALUES)
    if isinstance(document, list):
        place = rng.randrange(len(document))
        return [*document[:place], _reshaped(document[place], rng), *document[place + 1 :]]
    key = rng.choice(sorted(document))
    rest = {name: value for name, value in document.items() if name != key}
    if rng.random() < 0.15:
        return rest | rng.choice([{}, {"": document[key]}, {f"{key}x": document[key]}])
    return document | {key: _reshaped(document[key], rng)}


def mutations(content: bytes, kind: str) -> Iterator[bytes]:
    for number in range(ROUNDS):
        yield damaged(content, random.Random(f"{kind} {number}"))


def refused(read: Callable[[], Any]) -> bool:
    """Whether it was refused in the harness's own words; any other exception is a failure."""
    try:
        read()
    except (HarnessError, SystemExit) as error:
        return not isinstance(error, SystemExit) or bool(error.code)
    return False


def command(*argv: object) -> Callable[[], Any]:
    return lambda: app([str(word) for word in argv])


def test_files_that_a_person_writes(tmp_path: Path) -> None:
    host = tmp_path / "examples-host.yml"
    host.write_text(
        f"schema: 1\ntiers:\n  ssd: {{kind: block, path: {tmp_path}, price_per_gb: 0.1}}\n"
        "  cxl: {kind: numa, node: 2, policy: bind}\n"
    )
    published = PROFILES / "papers" / "nvm-for-databases" / "published.csv"
    readers: dict[Path, Callable[[Path], Any]] = {
        PROFILES / "demo.yml": load_profile,
        PROFILES / "papers" / "nvm-for-databases" / "fig4.yml": load_profile,
        PROFILES / "micro" / "quick.yml": lambda path: load_suite(path, {}),
        host: load_host_file,
        published: read_published,
    }
    for original, read in readers.items():
        outcomes = []
        for content in mutations(original.read_bytes(), original.name):
            path = tmp_path / original.name
            path.write_bytes(content)
            outcomes.append(refused(lambda read=read, path=path: read(path)))
        assert any(outcomes), original.name


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of two queries' runs on two tiers, and one of microbenchmarks."""
    root = tmp_path / "results"
    for placement in ("ssd-both", "pmem-both"):
        for block in range(2):
            run = write(root, Case(placement=placement, block=block, queries=(1, 6)))
            with_artifacts(run, ARTIFACTS)
    microbench = {"spec": {}, "result": {"cpu": {"llc_bytes": 33554432}, "measurements": []}}
    with_artifacts(card_run(root), {"microbench": microbench})
    monkeypatch.setenv("HARNESS_RESULTS", str(root))
    monkeypatch.chdir(tmp_path)
    return root


ARTIFACTS = {
    "accounting": {"1": {"plan_ns": 1, "measured_ns": 3, "why": "it took longer"}, "6": {}},
    "unexplained": {"why": "this engine has no plans"},
}


def read_results(changed: Path) -> None:
    """What commands do first with all runs; with many mutations, the commands themselves.

    ``changed``: the run that was; where it cannot be read it is in none of them.
    """
    store = Store(changed.parents[1])
    spec = RunSpec.from_json(json.loads((changed / "spec.json").read_text()))
    assert store.resume(spec, {}, print) is None
    runs = store.runs()
    for stored in runs:
        assert stored.run["run_id"]
        assert stored.spec.hash()
        plan_sums(stored)
        settings_of(stored, "sequential-read")
    if micro := [stored for stored in runs if stored.spec.workload == "micro"]:
        assert all(device.llc_bytes >= 0 for device in devices(micro))
    assert not refused(command("runs", "list"))
    if MANY and len(runs) == 5:
        refused(command("runs", "export", "--out", "all.csv"))
        refused(command("compare", "placement=ssd-both", "placement=pmem-both", "--anyway"))
        refused(
            command("report", "workload=tpch", "--anyway")
            if spec.workload == "tpch"
            else command("card")
        )


@pytest.mark.parametrize("file", ["run.json", "manifest.json", "artifacts"])
def test_documents_of_runs(results: Path, file: str, capfd: pytest.CaptureFixture[str]) -> None:
    runs = sorted((results / "runs").iterdir())
    for run in [next(run for run in runs if what in run.name) for what in ("tpch", "micro")]:
        for path in sorted((run / "artifacts").iterdir()) if file == "artifacts" else [run / file]:
            original = path.read_bytes()
            for content in mutations(original, f"{run.name[17:]} {path.name}"):
                path.write_bytes(content)
                read_results(run)
                refused(command("runs", "show", run.name))
                capfd.readouterr()
            path.write_bytes(original)


def test_steps_of_an_interrupted_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path)
    writer = store.begin(SPEC)
    steps = {f"q{number}": {"rows": [[number, "ä"]]} for number in (14, 2, 9)}
    writer.checkpoint.begin(Attempt(writer.run_id, 1, CONDITIONS))
    for name, document in steps.items():
        cold = {"label": name, "resident_bytes": 0, "total_bytes": 1, "note": ""}
        writer.checkpoint.finish(name, document, [cold])
    writer.close()
    path = writer.directory / "steps.jsonl"
    original = path.read_bytes()
    kept = set()
    for content in mutations(original, "steps"):
        path.write_bytes(content)
        assert not refused(command("runs", "list", "--results", tmp_path))
        capfd.readouterr()
        if again := store.resume(SPEC, CONDITIONS, print):
            finished = again.checkpoint.finished
            assert {name: again.checkpoint.document(name) for name in finished} == dict(
                list(steps.items())[: len(finished)]
            )
            kept.add(len(finished))
            again.close()
    assert len(kept) > 1


def test_golden_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    class Keeper:
        def register_directory(self, path: Path, credentials: Any = None, mode: int = 0) -> Path:
            path.mkdir()
            return path

        def release_directory(self, path: Path) -> None: ...
        def remove_directory(self, path: Path) -> None: ...

    store = DatasetStore(tmp_path, Keeper())
    for name in ("tpch-broken", "tpch-sound"):
        with store.building(name) as building:
            (building.content / "table").write_text("rows")
            building.publish({"data": {"scale": 1}}, {"rows": {}}, SilentProgress())
    path = tmp_path / "tpch-broken" / "golden.json"
    for content in mutations(path.read_bytes(), "golden.json"):
        path.write_bytes(content)
        found = store.datasets()
        assert "tpch-sound" in [dataset.name for dataset in found]
        for dataset in found:
            assert dataset.size_bytes >= 0
            dataset.verify(SilentProgress())
        refused(lambda: store.find("tpch-broken"))
    assert path.parent in store.directories()
    remove_datasets([path.parent])


def test_journals(tmp_path: Path) -> None:
    state = tmp_path / "state"
    for number, content in enumerate([b"", *mutations(a_journal(state, tmp_path), "journal")]):
        (tmp_path / "work").mkdir(exist_ok=True)
        (state / f"1-{number}.journal").write_bytes(content)
        recover(state, wait_s=0)
        for path in state.glob("*.journal"):
            path.unlink()


def a_journal(state: Path, tmp_path: Path) -> bytes:
    journal = Journal(state)
    journal.register_directory(tmp_path / "other")
    journal.note_cgroup(tmp_path / "never-made")
    journal.release_directory(journal.register_directory(tmp_path / "kept"))
    journal.register_directory(tmp_path / "work")
    journal.close()
    content = journal.path.read_bytes()
    recover(state)
    return content


def test_archives(results: Path, tmp_path: Path) -> None:
    run = next((results / "runs").iterdir())
    packed = {mode: io.BytesIO() for mode in ("w:gz", "w")}
    for mode, buffer in packed.items():
        with tarfile.open(fileobj=buffer, mode=mode) as archive:
            archive.add(run, arcname=run.name)
    here = Store(tmp_path / "here")
    plain = packed["w"].getvalue()
    for content in (
        *mutations(packed["w:gz"].getvalue(), "archive"),
        *(_zipped(one) for one in mutations(plain, "tar")),
    ):
        (tmp_path / "runs.tar.gz").write_bytes(content)
        if refused(lambda: import_archive(tmp_path / "runs.tar.gz", here)):
            assert not list(here.root.glob(".import-*"))
        for stored in here.runs():
            here.remove(stored.directory)
        assert all(isinstance(stored, StoredRun) for stored in here.runs())
    shutil.rmtree(here.root)


def _zipped(content: bytes) -> bytes:
    import gzip

    return gzip.compress(content, 1)


def test_labels_are_ordered_by_their_numbers_of_any_length() -> None:
    ordered = ["q2", "q10", "q" + "9" * 5000, "q²"]
    shuffled = ordered[::-1]
    assert sorted(shuffled, key=natural) == ordered
