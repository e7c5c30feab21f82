"""RocksDB with the native client beside it, and programs of ``native/`` over its back end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from narrowed import present

from harness.drivers.loadgen import processes
from harness.drivers.loadgen.spec import LoadgenSpec, LoopMode, Verified
from harness.drivers.result import WindowCallbacks
from harness.engine import DataDirectories, FillRequest
from harness.progress import SilentProgress
from harness.store.spec import JsonObject
from harness.workload import Clients

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 3000
SHAPE: dict[str, Any] = {
    "recordcount": RECORDS, "insertstart": 0, "fieldcount": 4, "fieldlength": 50,
    "minfieldlength": 1, "fieldlengthdistribution": "constant", "insertorder": "hashed",
    "zeropadding": 1, "readallfields": True, "writeallfields": False,
    "requestdistribution": "zipfian", "data_seed": 1, "update": "read-modify-write",
}  # fmt: skip


@dataclass
class Store:
    """An engine and the native client on it."""

    engine: Any
    clients: Clients

    @classmethod
    def of(cls, lab, settings=None, options=None) -> Store:
        engine = lab.engine("rocksdb", settings, options)
        return cls(engine, Clients(lab.supervisor, lab.credentials, lab.directory("c"), engine))

    def spec(self, **more) -> LoadgenSpec:
        connection = self.engine.native_connection()
        spec = LoadgenSpec(self.engine.native_backend, connection, "ycsb", SHAPE, threads=2)
        return replace(spec, **more)

    @property
    def connection(self):
        return self.engine.native_connection()

    def load(self, places: DataDirectories) -> None:
        self.engine.initialise(places)
        self.engine.start()

        def fill(connection: JsonObject) -> Mapping[str, int]:
            spec = self.spec(task="load", connection=connection)
            return processes.drive([spec], self.clients).rows

        self.engine.native_load(FillRequest("ycsb", fill, {"usertable": RECORDS}, SilentProgress()))
        self.engine.stop()

    def restored(self, golden: Path, places: DataDirectories) -> Store:
        self.engine.restore(golden, places)
        self.engine.start()
        return self

    def run(self, measuring=lambda: None, duration_ns=None, operations=2000, **proportions: float):
        """For so long, or for so many operations however long the machine stands still."""
        shares = {"readproportion": 0.5, "updateproportion": 0.5, "insertproportion": 0.0,
                  "scanproportion": 0.0, "readmodifywriteproportion": 0.0}  # fmt: skip
        params = {**SHAPE, **(proportions or shares)}
        calls = self.engine.native_calls("ycsb", params)
        spec = self.spec(
            params=params,
            statements={name: calls[name] for name in ("read", "update")},
            connections=2, mode=LoopMode(), seed=1,
            **({"duration_ns": duration_ns} if duration_ns else {"operations": operations}),
        )  # fmt: skip
        return processes.drive([spec], self.clients, WindowCallbacks(on_measuring=measuring))

    def verified(self) -> Verified:
        calls = self.engine.native_calls("ycsb", SHAPE)
        spec = self.spec(
            task="verify", connections=2,
            statements={name: calls[name] for name in ("read", "scan")},
        )  # fmt: skip
        return present(processes.drive([spec], self.clients).verified)


def loaded(lab) -> Path:
    """Golden data of so many records."""
    store = Store.of(lab)
    store.load(lab.places())
    folder: Path = lab.directory("golden")
    store.engine.snapshot(folder)
    return folder


def built(name: str, folder: Path, back_end: str = "loadgen*.c") -> Path:
    """A program of ``native/``, with the back end for RocksDB (these files of it) in it."""
    program = folder / name
    sources = [
        ROOT / f"tests/engines/native/{name}.c",
        *sorted((ROOT / "engines/rocksdb").glob(back_end)),
        ROOT / "loadgen/record.c",
        ROOT / "native/support.c",
    ]
    made = subprocess.run(
        ["gcc", "-std=c11", "-O1", "-g", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
         "-Wno-unused-parameter",
         f"-I{ROOT}/loadgen", f"-I{ROOT}/native", *map(str, sources), "-o", str(program),
         "-ljansson", "-ldl", "-lpthread"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return program
