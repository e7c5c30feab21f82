"""RocksDB's cache of whole records, made by the official client's binding."""

from __future__ import annotations

import pytest
from small_ycsb import params

pytestmark = pytest.mark.slow


def test_the_binding_makes_it_and_its_hits_are_counted(bench):
    asked = params(workload="c", dataintegrity=True)
    bench.load("rocksdb", asked, row_cache="16M")
    driven = bench.drive_in_time(asked)
    reads = driven.engine_counters["rocksdb_number_keys_read_count"]
    assert reads > 0
    # All records fit: those that were read before are answered by it.
    assert driven.engine_counters["rocksdb_row_cache_hit_count"] > 0.5 * reads
    bench.engine.stop()  # and it had the size that was asked for
    assert bench.engine.effective_config()["row_cache"] == str(16 << 20)
    bench.engine.start()
    (check,) = bench.verify(asked, driven)
    assert check.status == "passed", check.detail


def test_updated_records_are_not_those_of_before(bench):
    """Memtables so small that what is updated is soon read from tables."""
    asked = params(workload="a", dataintegrity=True)
    bench.load("rocksdb", asked, row_cache="16M", write_buffer_size="65536")
    driven = bench.drive_in_time(asked)
    assert driven.engine_counters["rocksdb_row_cache_hit_count"] > 0
    (check,) = bench.verify(asked, driven)
    assert check.status == "passed", check.detail
