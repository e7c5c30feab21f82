"""Labels of a configuration's metrics, and the hash of what no label states."""

from pathlib import Path
from typing import Any

import yaml

from harness.micro.keys import MicroParams
from harness.micro.labels import job_labels, settings_hash, swept_labels
from harness.micro.model import Measurement
from harness.micro.suite import load_suite
from harness.store.result import Label

HERE = {"cpus": 4.0, "cores": 4.0, "llc": float(32 << 20), "memory": float(8 << 30)}
READS: dict[str, Any] = {"range": "1GiB", "pattern": "sequential", "kernel": "load"}


def _expanded(folder: Path, measurements: dict[str, Any], **defaults: Any) -> list[Measurement]:
    document = {"schema": 1, "name": "mine", "description": "mine", "measurements": measurements,
                "defaults": {"duration": "1s", "access": 256, **defaults}}  # fmt: skip
    file = folder / "mine.yml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return list(load_suite(file, HERE).measurements)


def _labels(every: list[Measurement], job: int = 0) -> list[dict[str, Label]]:
    swept = swept_labels(every)
    return [
        job_labels(
            measurement,
            measurement.jobs[job],
            swept[measurement.configuration, measurement.jobs[job].name],
        )
        for measurement in every
    ]


def _hashes(every: list[Measurement], **limits: str) -> set[str]:
    return {settings_hash(measurement, MicroParams.from_mapping(limits)) for measurement in every}


def test_numbers_are_numbers_and_flags_are_flags(tmp_path: Path) -> None:
    matrix = {"padded": [True, False], "entry": ["1KiB"], "threads": [2]}
    args = {"kind": "log", "writer": "zero", "range": "1GiB"}
    labels = _labels(_expanded(tmp_path, {"log": {"matrix": matrix, "args": args}}))
    expected = {"entry_bytes": 1024, "threads": 2, "range_bytes": 1 << 30, "writer": "zero"}
    assert [row["padded"] for row in labels] == [True, False]
    assert all(expected.items() <= row.items() for row in labels)


def test_a_swept_key_without_a_label_becomes_one_and_is_in_no_hash(tmp_path: Path) -> None:
    matrix = {"chunk": ["4KiB", "1MiB"], "threads": [1, 2]}
    every = _expanded(tmp_path, {"threads": {"matrix": matrix, "args": READS}})
    sizes = [(row["chunk_bytes"], row["threads"]) for row in _labels(every)]
    assert sizes == [(4096, 1), (4096, 2), (1 << 20, 1), (1 << 20, 2)]
    assert len(_hashes(every)) == 1


def test_readers_beside_other_writers_are_other_readers(tmp_path: Path) -> None:
    """FAST'20, Figure 6: the readers' own labels do not say how many write beside them."""
    writers = {"matrix": {"threads": [1, 4]}, "args": {**READS, "kernel": "ntstore+sfence"}}
    jobs = {"readers": {"args": READS}, "writers": writers}
    every = _expanded(tmp_path, {"both": {"jobs": jobs}})
    assert [row["writers.threads"] for row in _labels(every)] == [1, 4]
    assert [row["threads"] for row in _labels(every, 1)] == [1, 4]
    assert len(_hashes(every)) == 1


def test_what_a_label_states_is_no_other_setting(tmp_path: Path) -> None:
    """Random and sequential accesses of two measurements are of one experiment."""
    random = {"matrix": {"threads": [1]}, "args": {**READS, "pattern": "random"}}
    assert len(_hashes(_expanded(tmp_path, {"a": random, "b": {"args": READS}}))) == 1


def test_what_no_label_states_is_another_setting(tmp_path: Path) -> None:
    def reads(**args: Any) -> set[str]:
        return _hashes(_expanded(tmp_path, {"reads": {"args": READS | args}}))

    others = [reads(), reads(duration="50ms"), reads(warm_up="1ms"), reads(chunk="4KiB")]
    others.append(_hashes(_expanded(tmp_path, {"reads": {"args": READS}}), cpus="3"))
    assert len(set.union(*others)) == len(others)


def test_what_jobs_beside_do_is_in_no_label_and_another_setting(tmp_path: Path) -> None:
    def waits(pattern: str) -> set[str]:
        jobs = {"one": {"args": READS}, "other": {"args": {**READS, "pattern": pattern}}}
        return _hashes(_expanded(tmp_path, {"loaded": {"jobs": jobs}}))

    assert waits("random") != waits("sequential")
