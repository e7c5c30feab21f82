"""Mutations of stored files: each reader refuses them with an error or a warning, and no file
disables another one (see mutating.py).
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import os
import shutil
import struct
import tarfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import playbook_modules  # noqa: F401
import pytest
from example_run import SPEC
from micro_runs import card_run
from mutating import COUNT, MANY, Kind, command, mutations, read_mutations, refused
from report_runs import Case, histogram, lognormal, metric, with_artifacts, write

from harness import hdr
from harness.iotrace.page import CELL_FIELDS
from harness.models.curve import shape_of
from harness.progress import SilentProgress
from harness.store.calibrations import Calibration, CalibrationStore, MetricNoise, latest_of
from harness.store.canaries import Canary, CanaryStore, Figure
from harness.store.checkpoint import Attempt
from harness.store.datasets import DatasetStore, remove_datasets
from harness.store.runs import Store, StoredRun
from harness.store.spec import RunSpec
from harness.store.transfer import import_archive
from harness.supervise.journal import Journal, recover
from harness.warnings import RunWarning
from reports.canary import moved_figures
from reports.micro.configured import settings_of
from reports.micro.points import devices
from reports.noise import to_json as calibration_as_json
from reports.query_breakdown import plan_sums
from reports.values import natural

CONDITIONS = {"kernel": "6.1"}


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
            assert building is not None
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
    modes: tuple[Literal["w:gz", "w"], ...] = ("w:gz", "w")
    packed = {mode: io.BytesIO() for mode in modes}
    for mode, buffer in packed.items():
        with tarfile.open(fileobj=buffer, mode=mode) as archive:
            archive.add(run, arcname=run.name)
    here = Store(tmp_path / "here")
    plain = packed["w"].getvalue()
    for content in (
        *mutations(packed["w:gz"].getvalue(), "archive", COUNT // 2),
        *(_zipped(one) for one in mutations(plain, "tar", COUNT // 2)),
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


# One kind after another: made once, then read again with each mutation ---------------------------


def _hdr(tmp_path: Path) -> Kind:
    """A run's histogram, as text and as what is deflated in it."""
    run = _stored(tmp_path)
    return [HISTOGRAM.encode(), b"deflated" + _inflated()], lambda content: _read_hdr(run, content)


def _inflated() -> bytes:
    return zlib.decompress(base64.b64decode(HISTOGRAM)[8:])


def _read_hdr(run: Path, content: bytes) -> None:
    if content.startswith(b"deflated"):
        packed = zlib.compress(content[len(b"deflated") :])
        content = base64.b64encode(struct.pack(">II", 0x1C849314, len(packed)) + packed)
    text = content.decode(errors="replace")
    document = json.loads((run / "run.json").read_text())
    document["metrics"][0]["hdr"] = text
    (run / "run.json").write_text(json.dumps(document))
    with suppress(ValueError):
        hdr.decode(text)
    others = {stored.run_id for stored in Store(run.parents[1]).runs()} - {run.name}
    assert len(others) == 1
    _commands(run, ["runs", "show", run.name], ["runs", "export", "--out", "all.csv"])


HISTOGRAM = lognormal(1e6, seed=1)


def _stored(root: Path) -> Path:
    """The first of two runs with a histogram each."""
    made = metric("operation_duration_ns", HISTOGRAM, "lower")
    first, _ = (write(root, Case(placement="ssd-both", block=n, metrics=[made])) for n in (0, 1))
    return first.directory


def _commands(run: Path, *argvs: list[str]) -> None:
    """In the store of ``run``, if there are many mutations; ``runs list`` never fails."""
    results = run.parents[1]
    os.environ["HARNESS_RESULTS"] = str(results)
    assert not refused(command("runs", "list"))
    for argv in argvs if MANY else ():
        refused(command(*argv))


def _index(tmp_path: Path) -> Kind:
    """``runs.index``, with and without right checksums."""
    run = _stored(tmp_path)
    path = tmp_path / "runs.index"
    assert len(Store(tmp_path).runs()) == 2
    lines = [line for line in path.read_bytes().split(b"\n") if line]

    def read(content: bytes) -> None:
        if content.startswith(b"{"):
            content = b"\n%08x %s\n" % (binascii.crc32(content), content) + lines[1]
        path.write_bytes(content)
        runs = Store(tmp_path).runs()
        assert len(runs) == 2
        for stored in runs:
            assert stored.spec.hash() and stored.head["status"]
        _commands(run, ["compare", "placement=ssd-both", "x=y"])

    return [path.read_bytes(), lines[0][9:]], read


def _calibrations(tmp_path: Path) -> Kind:
    store = CalibrationStore(tmp_path)
    runs = [write(tmp_path, Case(placement="ssd-both", block=n)) for n in range(2)]
    noise = MetricNoise("queries_geomean_ns", "ns", "lower", {}, (0.1, -0.1, 0.02))
    names = (("a", "b"),) * 3
    made = Calibration(
        "20260101T000000Z-a", 1, "h", runs[0].spec, names, 9, 0, (noise,), (WARNING,)
    )
    for one in (made, replace(made, calibration_id="20260101T000000Z-b")):
        store.write(one)
    path = store.folder / "20260101T000000Z-a.json"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        found = store.all()
        assert "20260101T000000Z-b" in [one.calibration_id for one in found]
        for one in found:
            calibration_as_json(one, resolve=0.1)
            latest_of(found, "h", one.spec)
        _commands(runs[0].directory, ["compare", runs[0].run_id, runs[1].run_id])

    return [path.read_bytes()], read


WARNING = RunWarning("other-load", "other programs run", "load average 3", "stop them")


def _canaries(tmp_path: Path) -> Kind:
    store = CanaryStore(tmp_path)
    runs = [write(tmp_path, Case(placement="ssd-both", block=n)) for n in range(2)]
    figure = Figure("dram", "read", (1.0, 2.0, 3.0), (1.0, 2.0, 3.0))
    for began in (1, 2):
        store.write(Canary("plan", "host", began, 9, (figure,)))
    path = store.folder / "1.json"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        found = store.all()
        assert 2 in [one.began_unix_ns for one in found]
        for one in found:
            moved_figures(one, found)
        _commands(runs[0].directory, ["compare", runs[0].run_id, runs[1].run_id])

    return [path.read_bytes()], read


def _steps(tmp_path: Path) -> Kind:
    """A line with a right checksum; others are in ``test_steps_of_an_interrupted_run``."""
    store = Store(tmp_path)
    writer = store.begin(SPEC)
    writer.checkpoint.begin(Attempt(writer.run_id, 1, CONDITIONS, [WARNING]))
    writer.checkpoint.finish("q14", {"rows": [[1, "x"]]})
    writer.close()
    path = writer.directory / "steps.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)

    def read(content: bytes) -> None:
        with suppress(ValueError):
            line = json.loads(content)
            if isinstance(line, dict):
                line.pop("crc32", None)
                content = json.dumps(line, ensure_ascii=False).encode(errors="replace")
                line["crc32"] = binascii.crc32(content)
                content = json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n"
        path.write_bytes(whole[0] + content + whole[1])
        if again := store.resume(SPEC, CONDITIONS, lambda _: None):
            assert [one.run_id for one in again.checkpoint.attempts]
            assert again.checkpoint.finished
            again.checkpoint.collected("residency")
            again.close()
        _commands(writer.directory)

    return whole, read


def _io_operations(tmp_path: Path) -> Kind:
    made = metric("io_duration_ns", histogram([4e5] * 90), part="wal", operation="sync")
    run = write(tmp_path, Case(placement="ssd-both", metrics=[made]))
    cell = dict.fromkeys(CELL_FIELDS, 0) | {"role": "foreground", "calls": 90, "timed": 90}
    moved = {"bytes": 90 * 8192, "ns": 9_000_000, "sizes": {"8192": 90}}
    cells = [cell | {"part": part, "operation": operation} | moved
             for part in ("data", "wal") for operation in ("read", "write", "sync")]  # fmt: skip
    with_artifacts(run, {"io-operations": cells})
    path = run.directory / "artifacts" / "io-operations.json"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        shape_of(Store(tmp_path).run(run.run_id), "wal")

    return [path.read_bytes()], read


KINDS: dict[str, Callable[[Path], Kind]] = {
    "HDR strings": _hdr,
    "runs.index": _index,
    "calibrations": _calibrations,
    "canaries": _canaries,
    "steps.jsonl": _steps,
    "io-operations": _io_operations,
}


@pytest.mark.parametrize("kind", KINDS)
def test_mutations(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_RESULTS", str(tmp_path))
    read_mutations(kind, KINDS[kind](tmp_path), capfd)
