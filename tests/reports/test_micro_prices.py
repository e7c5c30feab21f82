"""The columns of PerMA-Bench's Table 2 are those that the paper measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from micro_runs import duration, micro_run, operations

from harness.micro.chains import chain_text, parse_chain
from harness.store.runs import StoredRun
from reports.micro.points import devices
from reports.micro.prices import COLUMNS


def _columns(run: StoredRun) -> dict[str, float | None]:
    (device,) = devices([run])
    return {column.per: column.value(device, 10.0) for column in COLUMNS}


def test_index_operations_are_the_papers_512_byte_ones(tmp_path: Path) -> None:
    """PVLDB 15(11), Section 4.4.1; the shipped workloads have smaller nodes beside them."""
    held = [
        ("hash_index_update", "r_128,w_64_cache_64,w_64_cache_-64", 50e6),
        ("hash_index_update", "r_512,w_64_cache_128,w_64_cache_-128", 20e6),
        ("tree_index_lookup", "r_256,r_256,r_256", 40e6),
        ("tree_index_lookup", "r_512,r_512,r_512", 10e6),
    ]
    metrics = [
        operations(name, per_s, threads=16, chain=chain_text(parse_chain(chain, "test")))
        for name, chain, per_s in held
    ]
    by_name = _columns(micro_run(tmp_path, metrics, suite="perma-bench/operations"))
    assert by_name["M hash index updates/s"] == pytest.approx(0.5)
    assert by_name["M tree index lookups/s"] == pytest.approx(1.0)


def test_latency_is_that_of_the_papers_suite_as_well(tmp_path: Path) -> None:
    """PVLDB 15(11), Section 4.3.1: dependent reads of 256 bytes, 16 threads."""
    held = [("r_256", 16, "500"), ("r_256", 32, "900"), ("r_256,w_256_cache", 16, "700")]
    metrics = [
        duration("operation_latency", {mean: 100}, threads=threads, mode="dependent",
                 chain=chain_text(parse_chain(chain, "test")))
        for chain, threads, mean in held
    ]  # fmt: skip
    by_name = _columns(micro_run(tmp_path, metrics, suite="perma-bench/raw"))
    assert by_name["100 ns latency"] == pytest.approx(50.0, rel=0.002)
