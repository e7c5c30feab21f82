"""Each reader of a file, or of what a program prints, refuses damage with an error or a warning,
and no stored file disables another one.
"""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import playbook_modules  # noqa: F401
import pytest
from example_run import SPEC
from mutating import mutations, refused
from recorded import Answers, optane, recording
from report_runs import Case, histogram, lognormal, metric, with_artifacts, write
from tierbench.changes import plan_changes
from tierbench.desired_state import DesiredState
from tierbench.ipmctl import Goal, current_goal, ratio_note, read_goals
from tierbench.ndctl import parse_daxctl, parse_ndctl
from tierbench.state import State as HostState

from engines.rocksdb.installation import read_options_file
from harness.cli.app import app
from harness.experiment.profile import load_profile
from harness.host.dimms import parse_ndctl_dimms
from harness.host.memory_mode import parse_memory_resources
from harness.iotrace.page import CELL_FIELDS
from harness.micro import fio
from harness.micro.fio import Fio, sample_of
from harness.micro.suite import load_suite
from harness.models.curve import shape_of
from harness.paths import data_folder
from harness.progress import SilentProgress
from harness.store.calibrations import (
    Calibration,
    CalibrationStore,
    Canary,
    CanaryBandwidth,
    CanaryStore,
    MetricNoise,
    latest_of,
)
from harness.store.checkpoint import Attempt
from harness.store.datasets import DatasetStore
from harness.store.run_store import Store
from harness.store.spec import Json
from harness.store.transfer import import_runs
from harness.supervise.journal import Journal, recover
from harness.tiers.hostfile import load_host_file
from harness.workloads.ycsb.params import YcsbParams
from reports.basis import moved_figures
from reports.noise import to_json as calibration_as_json
from reports.published import read_published
from reports.query_breakdown import plan_sums

COUNT = 25
HERE = {"cpus": 2.0, "llc": float(1 << 20), "memory": 4e9}
PROFILES = data_folder("profiles")
RECORDINGS = Path(__file__).parents[1]

#: Valid content, and what reads it or a mutation of it.
Kind = tuple[bytes, Callable[[bytes], object]]


def in_file(path: Path, read: Callable[[Path], object], content: bytes | None = None) -> Kind:
    """A reader of files; ``content``: where the path has none."""

    def reader(mutation: bytes) -> object:
        path.write_bytes(mutation)
        return read(path)

    return content or path.read_bytes(), reader


def copied(original: Path, read: Callable[[Path], object]) -> Callable[[Path], Kind]:
    return lambda folder: in_file(folder / original.name, read, original.read_bytes())


def command(*argv: object) -> Callable[[], object]:
    return lambda: app([str(word) for word in argv])


# Files that a person writes, and what programs print -----------------------------------


def host_file(folder: Path) -> Kind:
    text = (
        f"schema: 1\ntiers:\n  ssd: {{kind: block, path: {folder}, price_per_gb: 0.1}}\n"
        "  cxl: {kind: numa, node: 2, policy: bind}\n"
    )
    return in_file(folder / "host.yml", load_host_file, text.encode())


def ycsb_properties(folder: Path) -> Kind:
    text = (
        "# Yahoo! Cloud System Benchmark\nrecordcount=1000\noperationcount=1000\n"
        "workload=site.ycsb.workloads.CoreWorkload\nreadallfields=true\nreadproportion=0.5\n"
        "updateproportion=0.5\nscanproportion=0\ninsertproportion=0\nrequestdistribution=zipfian\n"
    )

    def read(path: Path) -> None:
        params, _ = YcsbParams.from_text({}, [path])
        YcsbParams.from_mapping(params).resolve()

    return in_file(folder / "workload.properties", read, text.encode())


def fio_result(folder: Path) -> Kind:
    lat = {"mean": 9.0, "N": 3, "bins": {"9": 1, "19": 2}}
    side = {"bw_bytes": 9, "iops": 1.5, "total_ios": 3, "lat_ns": lat}
    job = {"error": 0, "write": side, "sync": {"lat_ns": lat}}
    measured: Json = {"operation": "write", "pattern": "random", "access": 4096,
                      "sync": "fdatasync"}  # fmt: skip
    (configured,) = Fio.from_mapping({"measurements": {"w": measured}}).jobs

    def read(content: bytes) -> None:
        document, _ = fio.document_of(content.decode(errors="replace"))
        sample = sample_of(document, configured)
        assert 0 < sample.operations < 1e18 and sample.bytes_per_second >= 0

    return json.dumps({"fio version": "fio-3.33", "jobs": [job]}).encode(), read


def ndctl(folder: Path) -> Kind:
    def read(content: bytes) -> None:
        text = content.decode(errors="replace")
        parse_ndctl_dimms(text)
        with suppress(ValueError):  # how the parser refuses
            state = HostState(inventory=parse_ndctl(text))
            for mode in ("appdirect", "devdax", "system-ram", "teardown"):
                plan_changes(state, DesiredState(mode))

    return recording("everything").encode(), read


def daxctl(folder: Path) -> Kind:
    device = {"chardev": "dax1.0", "size": 1 << 30, "target_node": 1, "mode": "devdax",
              "online_memblocks": 1, "total_memblocks": 8, "movable": True}  # fmt: skip

    def read(content: bytes) -> None:
        with suppress(ValueError):
            parsed = parse_daxctl(content.decode(errors="replace"))
            devices = tuple(replace(each, origin="cxl") for each in parsed)
            plan_changes(HostState(dax=devices), DesiredState("system-ram", (), devices=None))

    return json.dumps([device]).encode(), read


def ipmctl(folder: Path) -> Kind:
    def read(content: bytes) -> None:
        text = content.decode(errors="replace")
        goals = read_goals(Answers(0, text))
        assert current_goal(goals) != ""
        Goal("AppDirect").is_met(goals)
        ratio_note(goals, 100)
        parse_memory_resources(text)

    return optane("resources-app-direct").encode(), read


# Stored files ---------------------------------------------------------------------------


def stored_run(root: Path) -> Path:
    """The first of two runs with a histogram each; its directory."""
    made = metric("operation_duration_ns", lognormal(1e6, seed=1), "lower")
    cell = dict.fromkeys(CELL_FIELDS, 0) | {"role": "foreground", "calls": 90, "timed": 90}
    cell |= {"bytes": 90 * 8192, "ns": 9_000_000, "sizes": {"8192": 90}}
    cells = [cell | {"part": part, "operation": operation}
             for part in ("data", "wal") for operation in ("read", "write", "sync")]  # fmt: skip
    calls = {"role": "foreground", "operation": "read", "calls": 9, "bytes": 9, "ns": 9}
    relation = {"kind": "table", "name": "hot", "table": "hot", "bytes": 9, "io": [calls]}
    artifacts = {
        "accounting": {"1": {"plan_ns": 1, "measured_ns": 3, "why": "it took longer"}, "6": {}},
        "io-operations": cells,
        "io-relations": [relation],
    }
    syncs = metric("io_duration_ns", histogram([4e5] * 90), part="wal", operation="sync")
    cases = [Case(placement="ssd-both", block=n, metrics=[made, syncs]) for n in range(2)]
    first, _ = (with_artifacts(write(root, case), artifacts) for case in cases)
    return first.directory


def document(name: str) -> Callable[[Path], Kind]:
    """A document of a run: the others are read as ever."""

    def made(folder: Path) -> Kind:
        run = stored_run(folder)

        def read(path: Path) -> None:
            store = Store(folder)
            runs = store.runs()
            assert [stored.run_id for stored in runs if stored.directory != run]
            for stored in runs:
                assert stored.spec.hash() and stored.head.status
                plan_sums(stored)
                shape_of(stored, "wal")
            assert not refused(command("runs", "list"))
            refused(command("runs", "show", run.name))

        return in_file(run / name, read)

    return made


def run_index(folder: Path) -> Kind:
    stored_run(folder)
    path = folder / "runs.index"
    assert len(Store(folder).runs()) == 2

    def read(content: bytes) -> None:
        path.write_bytes(content)
        assert all(stored.spec.hash() for stored in Store(folder).runs())
        assert len(Store(folder).runs()) == 2

    return path.read_bytes(), read


def calibrations(folder: Path) -> Kind:
    store = CalibrationStore(folder)
    run = write(folder, Case(placement="ssd-both"))
    noise = MetricNoise("queries_geomean_ns", "ns", "lower", {}, (0.1, -0.1, 0.02))
    first = "20260101T000000Z-a"
    made = Calibration(first, 1, "h", run.spec, (("a", "b"),) * 3, 9, 0, (noise,), ())
    for each in (made, msgspec.structs.replace(made, calibration_id="20260101T000000Z-b")):
        store.write(each)

    def read(path: Path) -> None:
        stored = store.all()
        assert "20260101T000000Z-b" in [each.calibration_id for each in stored]
        for each in stored:
            calibration_as_json(each, resolve=0.1)
            latest_of(stored, "h", each.spec)

    return in_file(store.folder / f"{first}.json", read)


def canaries(folder: Path) -> Kind:
    store = CanaryStore(folder)
    figure = CanaryBandwidth("dram", "read", (1.0, 2.0, 3.0), (1.0, 2.0, 3.0))
    for began in (1, 2):
        store.write(Canary("plan", "host", began, 9, (figure,)))

    def read(path: Path) -> None:
        stored = store.all()
        assert 2 in [each.began_unix_ns for each in stored]
        for each in stored:
            moved_figures(each, stored)

    return in_file(store.folder / "1.json", read)


def steps(folder: Path) -> Kind:
    """Steps of an interrupted run: as many are read as are whole."""
    store, conditions = Store(folder), {"kernel": "6.1"}
    writer = store.begin(SPEC)
    writer.checkpoint.begin(Attempt(writer.run_id, 1, conditions))
    documents = {f"q{number}": {"rows": [[number, "ä"]]} for number in (14, 2, 9)}
    for name, each in documents.items():
        writer.checkpoint.finish(name, each)
    writer.close()

    def read(path: Path) -> None:
        assert not refused(command("runs", "list"))
        if again := store.resume(SPEC, conditions, print):
            finished = again.checkpoint.finished
            restored = {name: again.checkpoint.document(name) for name in finished}
            assert restored == dict(list(documents.items())[: len(finished)])
            again.close()

    return in_file(writer.directory / "steps.jsonl", read)


def dataset(folder: Path) -> Kind:
    class Keeper:
        def register_directory(self, path: Path, credentials: Any = None, mode: int = 0) -> Path:
            path.mkdir()
            return path

        def release_directory(self, path: Path) -> None: ...
        def remove_directory(self, path: Path) -> None: ...

    store = DatasetStore(folder, cast(Journal, Keeper()))
    for name in ("tpch-broken", "tpch-sound"):
        with store.building(name, SilentProgress()) as building:
            assert building is not None
            (building.content / "table").write_text("rows")
            building.publish({"data": {"scale": 1}}, {"rows": {}}, SilentProgress())

    def read(path: Path) -> None:
        stored = store.datasets()
        assert "tpch-sound" in [each.name for each in stored]
        for each in stored:
            assert each.size_bytes >= 0
            each.verify(SilentProgress())
        refused(lambda: store.find("tpch-broken"))

    return in_file(folder / "tpch-broken" / "golden.json", read)


def journal(folder: Path) -> Kind:
    state = folder / "state"
    made = Journal(state)
    made.note_cgroup(folder / "never-made")
    made.release_directory(made.register_directory(folder / "kept"))
    made.register_directory(folder / "work")
    made.close()

    def read(path: Path) -> None:
        recover(state, wait_s=0)
        path.unlink(missing_ok=True)

    return in_file(made.path, read)


def archive(folder: Path) -> Kind:
    run = stored_run(folder / "there")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(run, arcname=run.name)
    here = Store(folder / "here")

    def read(path: Path) -> None:
        whole = path.read_bytes()
        for content in (gzip.compress(whole, 1), whole):
            path.write_bytes(content)
            if refused(lambda: import_runs(path, here)):
                assert not list(here.root.glob(".import-*"))
            for stored in here.runs():
                here.remove(stored.directory)

    return in_file(folder / "runs.tar.gz", read, packed.getvalue())


PUBLISHED = PROFILES / "papers" / "nvm-for-databases" / "published.csv"
OPTIONS = next((RECORDINGS / "engines" / "recordings").glob("rocksdb-*.OPTIONS"))
KINDS: dict[str, Callable[[Path], Kind]] = {
    "profile": copied(PROFILES / "demo.yml", load_profile),
    "suite": copied(PROFILES / "micro/quick.yml", lambda path: load_suite(path, HERE)),
    "published values": copied(PUBLISHED, read_published),
    "OPTIONS": copied(OPTIONS, lambda path: read_options_file(path).options()),
    "host file": host_file,
    "YCSB properties": ycsb_properties,
    "fio": fio_result,
    "ndctl": ndctl,
    "daxctl": daxctl,
    "ipmctl": ipmctl,
    "run.json": document("run.json"),
    "manifest.json": document("manifest.json"),
    "accounting": document("artifacts/accounting.json"),
    "io-operations": document("artifacts/io-operations.json"),
    "io-relations": document("artifacts/io-relations.json"),
    "runs.index": run_index,
    "calibrations": calibrations,
    "canaries": canaries,
    "steps.jsonl": steps,
    "golden.json": dataset,
    "journal": journal,
    "archive": archive,
}


@pytest.mark.parametrize("kind", KINDS)
def test_mutations(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_RESULTS", str(tmp_path))
    content, read = KINDS[kind](tmp_path)
    read(content)
    for mutation in mutations(content, COUNT):
        refused(partial(read, mutation))
