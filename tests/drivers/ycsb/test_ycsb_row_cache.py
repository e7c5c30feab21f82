"""RocksDB's cache of whole records, made by the official client's binding."""

from __future__ import annotations

import pytest
from small_ycsb import params

pytestmark = pytest.mark.slow


def test_its_hits_are_counted_and_updated_records_are_not_those_of_before(bench):
    """Memtables so small that what is updated is soon read from tables."""
    requested = params(workload="a", dataintegrity=True, rate=1000)
    bench.load("rocksdb", requested, row_cache="16M", write_buffer_size="65536")
    driven = bench.drive(requested)
    assert driven.engine_counters["rocksdb_row_cache_hit_count"] > 0
    assert driven.notes["workload_class"] == "tierbench.ycsb.UnverifiedReads"
    bench.engine.stop()  # and it had the size that was configured
    assert bench.engine.effective_config()["row_cache"] == str(16 << 20)
    bench.engine.start()
    # Values are compared one by one.
    (check,) = bench.verify(requested, driven)
    assert check.status == "passed", check.detail
    assert "dataintegrity" in check.detail
