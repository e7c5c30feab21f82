"""Mutations of files that a person writes, and of what programs print or other software wrote: each
reader refuses them with an error (see mutating.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import playbook_modules  # noqa: F401
import pytest
from mutating import Kind, mutations, read_mutations, refused
from tierbench.changes import plan_changes
from tierbench.commands import Commands, Done
from tierbench.desired_state import DesiredState
from tierbench.ipmctl import Goal, current_goal, ratio_note, read_goals
from tierbench.ndctl import parse_daxctl, parse_ndctl
from tierbench.state import State as HostState

from engines.rocksdb.optionsfile import read_options_file
from harness.errors import UsageError
from harness.experiment.profile import load_profile
from harness.host.dimms import parse_ndctl_dimms
from harness.host.mode import parse_memory_resources
from harness.micro import fio
from harness.micro.fio import Fio
from harness.micro.fio_result import sample_of
from harness.micro.suite import load_suite
from harness.paths import data_folder
from harness.store.spec import Json
from harness.tiers.hostfile import load_host_file
from harness.workloads.ycsb.params import YcsbParams
from harness.workloads.ycsb.properties import parameters
from reports.published import read_published

PROFILES = data_folder("profiles")


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


def _fio(tmp_path: Path) -> Kind:
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
    (configured,) = Fio.from_mapping({"measurements": {"w": measured}}).jobs

    def read(content: bytes) -> None:
        document, _ = fio.document_of(content.decode(errors="replace"))
        sample = sample_of(document, configured)
        assert 0 < sample.operations < 1e18 and sample.bytes_per_second >= 0

    return [
        b"fio: note\n" + json.dumps(printed).encode() + b"\nbye",
        json.dumps(printed).encode(),
    ], read


def _listings(name: str, file: str = "nvdimm-guest") -> bytes:
    path = Path(__file__).parent / "playbooks" / "recordings" / f"{file}.json"
    return str(json.loads(path.read_text())["recordings"][name]["out"]).encode()


Parsed = TypeVar("Parsed")


def _parsed(parse: Callable[[str], Parsed], content: bytes) -> Parsed:
    """What the parser makes of it; a ValueError is how it refuses."""
    try:
        return parse(content.decode(errors="replace"))
    except ValueError as error:
        raise UsageError("a listing", str(error)) from error


def _ndctl(tmp_path: Path) -> Kind:
    def read(content: bytes) -> None:
        parse_ndctl_dimms(content.decode(errors="replace"))
        inventory = _parsed(parse_ndctl, content)
        for mode in ("appdirect", "devdax", "system-ram", "teardown"):
            assert (
                plan_changes(HostState(inventory=inventory), DesiredState(mode)).notes is not None
            )

    return [_listings("everything"), _listings("blank-labels")], read


def _daxctl(tmp_path: Path) -> Kind:
    one = {"chardev": "dax1.0", "size": 1 << 30, "target_node": 1, "mode": "devdax",
           "online_memblocks": 1, "total_memblocks": 8, "movable": True}  # fmt: skip

    def read(content: bytes) -> None:
        found = _parsed(parse_daxctl, content)
        devices = tuple(replace(each, origin="cxl") for each in found)
        plan_changes(HostState(dax=devices), DesiredState("system-ram", (), devices=None))

    return [json.dumps([one]).encode(), json.dumps(one).encode()], read


def _ipmctl(tmp_path: Path) -> Kind:
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


def _properties(tmp_path: Path) -> Kind:
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


def _rocksdb_options(tmp_path: Path) -> Kind:
    path = tmp_path / "OPTIONS"
    recorded = Path(__file__).parent / "engines" / "recordings"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        read_options_file(path).options()

    return [file.read_bytes() for file in sorted(recorded.glob("rocksdb-*.OPTIONS"))[:2]], read


KINDS: dict[str, Callable[[Path], Kind]] = {
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
    read_mutations(kind, KINDS[kind](tmp_path), capfd)
