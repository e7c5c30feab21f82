"""Data whose files are not as they were made: no run uses them, and the file is named."""

from __future__ import annotations

from pathlib import Path

from harness.progress import SilentProgress
from harness.store.datasets import DatasetStore
from harness.supervise.supervisor import Supervisor
from harness.workloads.tpch import data, refresh_data

RUN = ["run", "tpch", "--engine", "duckdb", "--scale", "0.01", "--placement", "ssd-both"]
Q6 = [*RUN, "--queries", "6", "--again"]


def test_a_flipped_bit_is_refused_by_the_name_of_its_file(harness):
    folder = Path(harness.data)
    assert harness(*Q6).code == 0
    assert _flipped(folder, "golden/*/content/*/*") in _refused(harness, Q6)
    for entry in harness("data", "list", "--json").json["data"]:
        if entry["kind"] == "golden":
            assert harness("data", "rm", entry["name"], "--yes").code == 0
    assert _flipped(folder, "source/*/content/lineitem/*.parquet") in _refused(harness, Q6)
    assert not list(folder.glob("golden/*/golden.json"))
    _flipped(folder, "source/*/content/lineitem/*.parquet")
    with Supervisor(harness.root / "state") as supervisor:
        store = DatasetStore(folder / "source", supervisor.journal)
        with store.building(data.refresh_name(0.01, 1)) as building:
            assert building is not None
            refresh_data.prepare(0.01, range(1, 2), building.content, SilentProgress())
            building.publish({}, {}, SilentProgress())
    name = _flipped(folder, "source/*/content/set-1/lineitem.tbl.u1")
    assert name in _refused(harness, [*RUN, "--test", "power"])


def _flipped(folder: Path, pattern: str) -> str:
    """Flip a bit of the file; its name."""
    file = next(path for path in folder.glob(pattern) if path.is_file())
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 4
    file.write_bytes(content)
    return file.name


def _refused(harness, argv: list[str]) -> str:
    done = harness(*argv)
    assert done.code == 1, done.err
    run = max(harness("runs", "list", "--json").json["runs"], key=lambda one: one["run_id"])
    return f"{done.out}{done.err}" if run["status"] != "complete" else "it was run"
