"""PerMA-Bench's result files stand on a card next to the devices of runs.

The file is written here, in the form of those in PerMA-Bench's repository (branch eval, results/).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from micro_runs import DRAM, card_run

from harness.errors import UsageError
from harness.micro.perma_result import perma_devices
from reports.micro.points import MEAN, OPERATIONS, RATE, Device, device_of_metrics
from reports.micro.report import write_cards

_CONFIG = {
    "memory_range": 10737418240, "memory_type": "pmem", "min_io_chunk_size": 67108864,
    "numa_pattern": "near", "number_partitions": 1, "number_threads": 16, "prefault_file": True,
}  # fmt: skip
_WRITES = _CONFIG | {
    "access_size": 256, "exec_mode": "random", "number_operations": 100000000,
    "operation": "write", "persist_instruction": "cache", "random_distribution": "uniform",
}  # fmt: skip
_UPDATE = "rp_512,wp_64_cache_128,wp_64_cache_-128"
_CHAINS = _CONFIG | {"custom_operations": _UPDATE, "exec_mode": "custom"}


def benchmark(name: str, config: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    return {
        "bm_name": name, "bm_type": "single", "matrix_args": ["number_threads"],
        "benchmarks": [{"config": config, "results": results}],
    }  # fmt: skip


def parallel(config: dict[str, Any]) -> dict[str, Any]:
    of_jobs = {"log": {"results": {"bandwidth": 1.5}}, "scan": {"results": {"bandwidth": 6.0}}}
    return {
        "bm_name": "log_and_scan", "bm_type": "parallel", "sub_bm_names": ["log", "scan"],
        "matrix_args": {"log": ["number_threads"], "scan": []},
        "benchmarks": [{"config": {"log": config, "scan": config}, "results": of_jobs}],
    }  # fmt: skip


def read(path: Path) -> Device:
    (one,) = perma_devices(path)
    return device_of_metrics(path.stem, one.memory, one.mark, one.source, one.metrics)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    path = tmp_path / "barlow-256.json"
    chained = {"ops_per_second": 2e6, "latency": {"avg": 830.5, "median": 800}}
    document = [
        benchmark("random_writes", _WRITES, {"bandwidth": 2.0}),
        benchmark("hash_index_update", _CHAINS, chained),
        parallel(_WRITES),
    ]
    path.write_text(json.dumps(document))
    return path


def test_a_device_has_the_rates_of_the_file_by_the_labels_of_our_own_runs(published: Path) -> None:
    device = read(published)
    writes, log, scan = device.select(RATE)
    assert writes.median == 2.0 * (1 << 30)
    labels = [writes[name] for name in ("operation", "flush", "fence", "threads")]
    assert labels == ["store", "clwb", "sfence", "16"]
    jobs = [(one["job"], one.median / (1 << 30)) for one in (log, scan)]
    assert jobs == [("log", 1.5), ("scan", 6.0)]
    (updates,), (latency,) = device.select(OPERATIONS, chain=_UPDATE), device.select(MEAN)
    assert (updates.median, latency.median) == (2e6, 830.5)


def test_the_card_shows_it_with_its_source_next_to_our_device(tmp_path, published):
    files = write_cards([card_run(tmp_path, DRAM)], tmp_path / "card", others=[read(published)])
    ours, theirs = files.devices
    assert "barlow-256.json" not in ours
    assert theirs.startswith("barlow-256: pmem (") and "barlow-256.json" in theirs
    assert "random writes: bandwidth" in files.markdown.read_text("utf-8")


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", '[{"bm_name": "x"}]', json.dumps([benchmark("x", {"no_key": 1}, {})])],
)
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UsageError):
        perma_devices(tmp_path / "x.json")
