"""Mutations: each reader refuses them with an error or a warning, and one file disables no other.

Seeded mutations of every kind of file that the harness reads, and of what programs print.
``MUTATIONS=500`` makes that many of each kind, reads them through the commands themselves, prints
how many were refused, and fails for a command that takes longer than 20 s.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import os
import random
import shutil
import struct
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import playbook_modules  # noqa: F401
import pytest
from example_run import SPEC
from micro_runs import card_run
from report_runs import Case, histogram, lognormal, metric, with_artifacts, write
from tierbench.changes import plan_changes
from tierbench.commands import Commands, Done
from tierbench.desired_state import DesiredState
from tierbench.ipmctl import Goal, current_goal, ratio_note, read_goals
from tierbench.ndctl import parse_daxctl, parse_ndctl
from tierbench.state import State as HostState

from engines.rocksdb.optionsfile import read_options_file
from harness import hdr
from harness.cli.app import app
from harness.errors import HarnessError, UsageError
from harness.experiment.profile import load_profile
from harness.host.dimms import parse_ndctl_dimms
from harness.host.mode import parse_memory_resources
from harness.iotrace.page import CELL_FIELDS
from harness.micro import fio
from harness.micro.fio import Fio
from harness.micro.fio_result import sample_of
from harness.micro.suite import load_suite
from harness.models.curve import shape_of
from harness.paths import data_folder
from harness.progress import SilentProgress
from harness.store.calibrations import Calibration, CalibrationStore, MetricNoise, latest_of
from harness.store.canaries import Canary, CanaryStore, Figure
from harness.store.checkpoint import Attempt
from harness.store.datasets import DatasetStore, remove_datasets
from harness.store.runs import Store, StoredRun
from harness.store.spec import Json, RunSpec
from harness.store.transfer import import_archive
from harness.supervise.journal import Journal, recover
from harness.tiers.hostfile import load_host_file
from harness.warnings import RunWarning
from harness.workloads.ycsb.params import YcsbParams
from harness.workloads.ycsb.properties import parameters
from reports.canary import moved_figures
from reports.micro.configured import settings_of
from reports.micro.points import devices
from reports.noise import to_json as calibration_as_json
from reports.published import read_published
from reports.query_breakdown import plan_sums
from reports.values import natural

MANY = int(os.environ.get("MUTATIONS", "0"))
#: Of a document of a run, which many commands read; of everything else.
ROUNDS = min(MANY, 60) or 6
COUNT = MANY or 40
LONGEST_S = 20
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


def mutations(content: bytes, kind: str, count: int = ROUNDS) -> Iterator[bytes]:
    for number in range(count):
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
            outcomes.append(refused(partial(read, path)))
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

Read = Callable[[bytes], Any]


def _hdr(tmp_path: Path) -> tuple[list[bytes], Read]:
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


def _index(tmp_path: Path) -> tuple[list[bytes], Read]:
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


def _calibrations(tmp_path: Path) -> tuple[list[bytes], Read]:
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


def _canaries(tmp_path: Path) -> tuple[list[bytes], Read]:
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


def _steps(tmp_path: Path) -> tuple[list[bytes], Read]:
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


def _io_operations(tmp_path: Path) -> tuple[list[bytes], Read]:
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


def _fio(tmp_path: Path) -> tuple[list[bytes], Read]:
    lat = {"mean": 9.0, "N": 3, "bins": {"9": 1, "19": 2}}
    side = {"bw_bytes": 9, "iops": 1.5, "total_ios": 3, "lat_ns": lat}
    job = {"error": 0, "write": side, "sync": {"lat_ns": lat}}
    printed = {"fio version": "fio-3.33", "jobs": [job]}
    measured: Json = {
        "operation": "write",
        "pattern": "random",
        "access": 4096,
        "sync": "fdatasync",
    }
    (asked,) = Fio.from_mapping({"measurements": {"w": measured}}).jobs

    def read(content: bytes) -> None:
        document, _ = fio.document_of(content.decode(errors="replace"))
        sample = sample_of(document, asked)
        assert 0 < sample.operations < 1e18 and sample.bytes_per_second >= 0

    return [
        b"fio: note\n" + json.dumps(printed).encode() + b"\nbye",
        json.dumps(printed).encode(),
    ], read


def _listings(name: str, file: str = "nvdimm-guest") -> bytes:
    path = Path(__file__).parents[1] / "playbooks" / "recordings" / f"{file}.json"
    return str(json.loads(path.read_text())["recordings"][name]["out"]).encode()


Parsed = TypeVar("Parsed")


def _parsed(parse: Callable[[str], Parsed], content: bytes) -> Parsed:
    """What the parser makes of it; a ValueError is how it refuses."""
    try:
        return parse(content.decode(errors="replace"))
    except ValueError as error:
        raise UsageError("a listing", str(error)) from error


def _ndctl(tmp_path: Path) -> tuple[list[bytes], Read]:
    def read(content: bytes) -> None:
        parse_ndctl_dimms(content.decode(errors="replace"))
        inventory = _parsed(parse_ndctl, content)
        for mode in ("appdirect", "devdax", "system-ram", "teardown"):
            assert (
                plan_changes(HostState(inventory=inventory), DesiredState(mode)).notes is not None
            )

    return [_listings("everything"), _listings("blank-labels")], read


def _daxctl(tmp_path: Path) -> tuple[list[bytes], Read]:
    one = {"chardev": "dax1.0", "size": 1 << 30, "target_node": 1, "mode": "devdax",
           "online_memblocks": 1, "total_memblocks": 8, "movable": True}  # fmt: skip

    def read(content: bytes) -> None:
        found = _parsed(parse_daxctl, content)
        devices = tuple(replace(each, origin="cxl") for each in found)
        plan_changes(HostState(dax=devices), DesiredState("system-ram", (), devices=None))

    return [json.dumps([one]).encode(), json.dumps(one).encode()], read


def _ipmctl(tmp_path: Path) -> tuple[list[bytes], Read]:
    class Answers(Commands):
        def __init__(self, out: str) -> None:
            self.out = out

        def has(self, program: str) -> bool:
            return True

        def run(self, argv: object) -> Done:
            return Done(0, self.out, "")

    def read(content: bytes) -> None:
        text = content.decode(errors="replace")
        goals = read_goals(Answers(text))
        assert current_goal(goals) != ""
        Goal("AppDirect").is_met(goals)
        ratio_note(goals, 100)
        parse_memory_resources(text)

    names = ("resources-app-direct", "resources-memory-mode", "goal-pending")
    return [_listings(name, "ipmctl-optane") for name in names], read


def _properties(tmp_path: Path) -> tuple[list[bytes], Read]:
    path = tmp_path / "workload.properties"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        found, _ = parameters([path])
        YcsbParams.from_mapping(found).resolve()

    return [PROPERTIES.encode()], read


PROPERTIES = """# Yahoo! Cloud System Benchmark
recordcount=1000
operationcount=1000
workload=site.ycsb.workloads.CoreWorkload
readallfields=true
readproportion=0.5
updateproportion=0.5
scanproportion=0
insertproportion=0
requestdistribution=zipfian
"""


def _rocksdb_options(tmp_path: Path) -> tuple[list[bytes], Read]:
    path = tmp_path / "OPTIONS"
    recorded = Path(__file__).parents[1] / "engines" / "recordings"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        read_options_file(path).options()

    return [file.read_bytes() for file in sorted(recorded.glob("rocksdb-*.OPTIONS"))[:2]], read


KINDS: dict[str, Callable[[Path], tuple[list[bytes], Read]]] = {
    "HDR strings": _hdr,
    "runs.index": _index,
    "calibrations": _calibrations,
    "canaries": _canaries,
    "steps.jsonl": _steps,
    "io-operations": _io_operations,
    "fio": _fio,
    "ndctl": _ndctl,
    "daxctl": _daxctl,
    "ipmctl": _ipmctl,
    "YCSB properties": _properties,
    "OPTIONS": _rocksdb_options,
}


@pytest.mark.parametrize("kind", KINDS)
def test_mutations(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_RESULTS", str(tmp_path))
    originals, read = KINDS[kind](tmp_path)
    count = wrong = 0
    slowest = 0.0
    for original in originals:
        read(original)
        for content in mutations(original, kind, -(-COUNT // len(originals))):
            began = time.monotonic()
            count, wrong = count + 1, wrong + refused(partial(read, content))
            slowest = max(slowest, time.monotonic() - began)
            capfd.readouterr()
    if MANY:
        assert slowest < LONGEST_S
        with capfd.disabled():
            print(f"\n{kind}: {count} mutations, {wrong} refused, slowest {slowest:.2f} s")
