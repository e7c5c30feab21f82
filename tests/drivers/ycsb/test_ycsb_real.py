"""The real official client on real engines."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from small_ycsb import params

from harness import hdr
from harness.drivers.result import DriverResult, WindowCallbacks
from harness.errors import RunFailed

pytestmark = pytest.mark.slow


def test_rocksdb_is_driven_at_a_rate_for_a_window_and_verified(bench):
    requested = params(workload="f", rate=500)
    bench.load("rocksdb", requested)
    assert bench.facts["row_counts"] == {"usertable": 2000}
    moments = []
    drives = WindowCallbacks(
        lambda: moments.append(("begin", len(bench.engine.processes()))),
        lambda: moments.append(("end", len(bench.engine.processes()))),
    )
    driven = bench.drive(requested, drives)
    # The engine's process is the client, as long as it runs.
    assert moments[-2:] == [("begin", 1), ("end", 1)]
    assert bench.engine.processes() == []
    bench.engine.stop()  # and it ran with the options that were asked for
    bench.engine.start()
    assert set(driven.operations) == {"read", "read_modify_write"}
    assert driven.notes["read_and_update_latencies"]
    assert driven.offered_count == pytest.approx(500 * driven.window_ns / 1e9, abs=1)
    assert driven.backlog_count is not None
    assert driven.done_count <= 1.3 * driven.offered_count + 500
    for one in driven.operations.values():
        assert one.not_found_count == 0
        assert one.count > 0
        # Of intended starts: the client closes this log and that of the count in turn.
        assert hdr.decode(one.latency_hdr).total > 0
    # Seconds of the client's, or fewer and longer ones on a busy machine.
    assert driven.window_ns >= 2.7e9
    assert driven.series
    in_seconds = [sum(second.counts.values()) for second in driven.series]
    assert sum(in_seconds) == driven.done_count
    assert "Level Files Size" in driven.engine_text["rocksdb_levels"]
    assert driven.client_cpu_ns > 0
    # RocksDB's own count of reads: an update reads, too.
    engine = driven.engine_counters
    assert engine["rocksdb_number_keys_read_count"] >= driven.done_count * 0.5
    assert engine["rocksdb_row_cache_hit_count"] == engine["rocksdb_row_cache_miss_count"] == 0
    (check,) = bench.verify(requested, driven)
    assert (check.status, check.name) == ("passed", "records"), check.detail
    assert not list(bench.lab.root.rglob("client.properties"))


def test_records_that_were_inserted_are_verified_too_and_those_that_are_gone_are_missed(bench):
    requested = params(workload="d", rate=500)
    bench.load("rocksdb", requested)
    driven = bench.drive(requested)
    assert driven.inserted_count >= driven.operations["insert"].count > 0
    (check,) = bench.verify(requested, driven)
    assert check.status == "passed"
    assert f"{2000 + driven.inserted_count:,} records" in check.detail
    # One that nobody has inserted is expected, and found to be missing.
    (check,) = bench.verify(requested, replace(driven, inserted_count=driven.inserted_count + 1))
    assert check.status == "failed"
    assert check.detail.startswith("1 of ")


def test_a_number_of_operations_is_done_and_all_of_it_counted(bench):
    requested = params(workload="c", operations=5000, duration=None, ramp_up="0s")
    bench.load("rocksdb", requested)
    driven = bench.drive(requested)
    assert driven.done_count == driven.operations["read"].count == 5000
    assert hdr.decode(driven.operations["read"].latency_hdr).total == 5000
    # Nothing is written: the core workload as it is.
    assert driven.notes["workload_class"] == "site.ycsb.workloads.CoreWorkload"


@pytest.mark.parametrize("name", ["postgres", "mysql"])  # MySQL by MariaDB's driver
def test_servers_are_driven_through_their_sockets(name, bench):
    requested = params(workload="e", operations=1_000_000, maxscanlength=10, rate=500)
    bench.load(name, requested)
    connection = bench.engine.connect()
    assert connection.execute("select count(*) from usertable").rows == [(2000,)]
    driven = bench.drive(requested)
    stored = connection.execute("select count(*) from usertable").rows[0][0]
    connection.close()
    assert stored == 2000 + driven.inserted_count
    assert set(driven.operations) == {"scan", "insert"}
    (check,) = bench.verify(requested, driven)
    assert check.status == "passed", check.detail


def test_updates_of_one_field_leave_the_others_of_a_row(bench):
    requested = params(workload="a", readallfields=False, rate=500)
    bench.load("postgres", requested)
    driven = bench.drive(requested)
    assert driven.operations["update"].count > 0
    (check,) = bench.verify(requested, driven)
    assert check.status == "passed", check.detail


def test_a_server_that_dies_ends_the_run_with_its_reason(bench):
    requested = params(workload="a")
    bench.load("postgres", requested)
    begun = time.monotonic()
    with pytest.raises(RunFailed) as failure:
        bench.drive(
            params(workload="a", duration="10m"), WindowCallbacks(bench.engine.kill, lambda: None)
        )
    assert time.monotonic() - begun < 300
    assert "read" in failure.value.context or "update" in failure.value.context
    assert bench.engine.native_connection()["password"] not in str(failure.value)


def test_no_update_is_lost_among_threads(java, bench):
    folder = bench.lab.root / "lost"
    properties = {
        "db": "tierbench.ycsb.RocksDbBinding", "rocksdb.directory": folder,
        "rocksdb.wal_directory": folder, "rocksdb.create": True,
        "rocksdb.update": "read-modify-write",
    }  # fmt: skip
    assert java("LostUpdates", properties, 4, 20_000) == ["20000"] * 4


def test_scans_go_through_all_keys_whatever_the_prefix_extractor(java, bench):
    """As the native client's do: no key has the prefix of the one that is begun from."""
    folder = bench.lab.root / "order"
    properties = {
        "db": "tierbench.ycsb.RocksDbBinding", "rocksdb.directory": folder,
        "rocksdb.wal_directory": folder, "rocksdb.create": True,
        "rocksdb.cf_option.prefix_extractor": "fixed:5",
        "rocksdb.cf_option.memtable_prefix_bloom_size_ratio": "0.1",
    }  # fmt: skip
    assert java("ScannedOrder", properties, "user2", "user1", "user3", "user4") == ["2"]


def test_records_that_are_not_whole_or_not_as_they_were_made_fail_the_check(bench):
    requested = params(workload="c")
    bench.load("rocksdb", requested)
    driven = DriverResult("ycsb", "", 10**9)
    wrong: list[dict[str, Any]] = [{"fieldcount": 11}, {"fieldlength": 101}, {"fieldlength": 99}]
    for planted in wrong:
        (check,) = bench.verify(replace(requested, **planted), driven)
        assert check.status == "failed", planted
        assert check.detail.startswith("2,000 of 2,000 records are not whole")
    # These values are random: not those that dataintegrity makes.
    (check,) = bench.verify(replace(requested, dataintegrity=True), driven)
    assert check.status == "failed"
    assert "other values than were written" in check.detail
