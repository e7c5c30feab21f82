"""The native client on the store, an engine inside it that keeps its records in a file."""

import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import structs
from harness.drivers.loadgen.spec import LoadgenResult

MS, S = 10**6, 10**9
RECORDS = 2000
SHAPE = {"recordcount": RECORDS, "fieldcount": 4, "fieldlength": 20, "data_seed": 7}
VERBS = {
    "read": "get :key",
    "update": "modify :key :change",
    "insert": "put :key :record",
    "scan": "scan :key :length",
}
ALL_FIVE = {
    "readproportion": 0.3,
    "updateproportion": 0.3,
    "insertproportion": 0.1,
    "scanproportion": 0.1,
    "readmodifywriteproportion": 0.2,
    "maxscanlength": 20,
}
READ_ONLY = {"readproportion": 1, "updateproportion": 0}

Run = Callable[..., dict[str, Any]]


def job_of(workload: str, connection, params, **more) -> dict[str, Any]:
    """Return the entries that specs of all tasks share."""
    return {
        "schema": 1,
        "connection": connection,
        "workload": {"name": workload, "params": params},
        "threads": 2,
        **more,
    }


def spec_of(connection: dict[str, Any], params: dict[str, Any], **changes) -> dict[str, Any]:
    bounds = {"connections": 2, "mode": {"kind": "closed"}, "ramp_up_ns": 0, "operations": 4000}
    run = {"backend": "store", "statements": VERBS, "seed": 1, **bounds, **changes}
    return job_of("ycsb", connection, {**SHAPE, **params}, **run)


def execute(program: Path, spec: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [program, "-"], input=json.dumps(spec), capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def pieces_of(content: bytes) -> list[bytes]:
    """Texts, each behind its length."""
    pieces = []
    while content:
        (length,) = struct.unpack(">I", content[:4])
        pieces.append(content[4 : 4 + length])
        content = content[4 + length :]
    return pieces


class Store:
    """The store's file and the client on it."""

    def __init__(self, program: Path, file: Path) -> None:
        self.program, self.file = program, file

    def connection(self) -> dict[str, Any]:
        return {"file": str(self.file)}

    def run(self, params: dict[str, Any], **changes) -> dict[str, Any]:
        status, result = execute(self.program, spec_of(self.connection(), params, **changes))
        assert (status, result["status"]) == (0, "complete"), result
        structs.convert(result, LoadgenResult, "the result")
        return result

    def failed(self, params: dict[str, Any], **changes) -> str:
        status, result = execute(self.program, spec_of(self.connection(), params, **changes))
        assert (status, result["status"]) == (1, "failed")
        return str(result["error"])

    def load(self, **params) -> dict[str, Any]:
        return self._job("load", params)

    def verified(self, **params) -> dict[str, Any]:
        """Return the counts of the records, without those of updates."""
        counts = self.verification(**params)
        return {name: counts[name] for name in WHOLE}

    def verification(self, **params) -> dict[str, Any]:
        counts = self._job("verify", params, statements=VERBS)["verified"]
        assert isinstance(counts, dict)
        return counts

    def _job(self, task: str, params: dict[str, Any], **more) -> dict[str, Any]:
        given = {"task": task, "backend": "store", **more}
        spec = job_of("ycsb", self.connection(), {**SHAPE, **params}, **given)
        status, result = execute(self.program, spec)
        assert (status, result["error"]) == (0, None)
        structs.convert(result, LoadgenResult, "the result")
        return result

    def records(self) -> dict[bytes, bytes]:
        pieces = pieces_of(self.file.read_bytes())
        return dict(zip(pieces[::2], pieces[1::2], strict=True))

    def keep(self, records: dict[bytes, bytes]) -> None:
        pieces = (piece for pair in records.items() for piece in pair)
        self.file.write_bytes(b"".join(struct.pack(">I", len(p)) + p for p in pieces))


def counts_of(result: dict[str, Any], what: str = "count") -> dict[str, int]:
    return {name: operation[what] for name, operation in result["operations"].items()}


WHOLE = {
    "records": RECORDS, "expected": RECORDS, "missing": 0, "malformed": 0, "unexpected": 0,
    "first": None,
}  # fmt: skip
