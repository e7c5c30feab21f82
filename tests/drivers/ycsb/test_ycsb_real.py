"""The official client, built by the real Maven, on real engines."""

import json
import math
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from figures import figures_of
from narrowed import present

from harness import hdr, paths
from harness.drivers.result import DriverResult, WindowCallbacks
from harness.drivers.ycsb.build import _folder, built, check_buildable, find_java
from harness.errors import RunFailed, UsageError
from harness.progress import SilentProgress
from harness.store.spec import Json
from harness.workloads.ycsb.params import PROPORTIONS, YcsbParams
from harness.workloads.ycsb.properties import OFFICIAL

pytestmark = pytest.mark.slow


def params(**more) -> YcsbParams:
    """A small workload; what is not said is as ``harness run ycsb`` has it."""
    small: dict[str, Json] = {
        "records": 2000,
        "threads": 2,
        "ramp_up": "1s",
        "duration": "3s",
    }
    return YcsbParams.from_mapping({**small, **more})


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
    for operation in driven.operations.values():
        assert operation.not_found_count == 0
        assert operation.count > 0
        # Of intended starts: the client closes this log and that of the count in turn.
        assert hdr.decode(operation.latency_hdr).total > 0
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
    requested = params(workload="a", rate=500, duration="10m")
    bench.load("postgres", requested)
    begun = time.monotonic()
    with pytest.raises(RunFailed) as failure:
        bench.drive(requested, WindowCallbacks(bench.engine.kill, lambda: None))
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
    """Like the native client's scans: no key has the prefix of the first key."""
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
        assert figures_of(check.detail)[:2] == [2000, 2000]
        assert "other values" not in check.detail
    # These values are random: not those that dataintegrity makes.
    (check,) = bench.verify(replace(requested, dataintegrity=True), driven)
    assert check.status == "failed"
    assert "other values" in check.detail


# RocksDB's cache of whole records, made by the client's binding ---------------------


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


# The keys that it chooses, and those that the native client chooses -----------------

RECORDS = 20_000
CHOICES = 1_000_000
READS = {name: float(name == "readproportion") for name in PROPORTIONS}
DISTRIBUTIONS = [
    {"requestdistribution": "zipfian", "insertstart": 5000, "insertcount": 15_000},
    {"requestdistribution": "zipfian", "insertorder": "ordered", "zeropadding": 12},
    {"requestdistribution": "latest"},
    {"requestdistribution": "hotspot"},
    {"requestdistribution": "exponential"},
]
#: Of two counts of the same share, in standard deviations: of the 500 pairs here one is as far
#: apart in about one run of a million. (The official client's choices have no seed.)
FAR = 6.0


def name(distribution):
    return "-".join(map(str, distribution.values()))


def asked(distribution, **more):
    return params(records=RECORDS, **READS, **distribution, **more)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=name)
def test_both_clients_choose_the_same_keys_as_often(distribution, java, released_loadgen):
    given = asked(distribution)
    same = {OFFICIAL.get(n, n): v for n, v in given.to_json().items() if v is not None}
    lines = java("Choices", {**same, "operationcount": CHOICES}, CHOICES, 1000)
    theirs = {key: int(count) for key, count in map(str.split, lines) if key.startswith("user")}
    argv = [
        released_loadgen.parent / "ycsb_keys",
        json.dumps(given.native_json()),
        str(CHOICES),
        "7",
    ]
    ours = Counter(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split())
    for key in sorted(theirs, key=theirs.__getitem__, reverse=True)[:100]:
        assert abs(ours[key] - theirs[key]) <= FAR * math.sqrt(ours[key] + theirs[key]), key


# Its build: found again without Maven, built again where it changed ------------------


@pytest.fixture
def changed(client, tmp_path):
    """The same binding with other sources."""
    project = tmp_path / "rocksdb" / "ycsb"
    shutil.copytree(client.binding.project, project)
    return replace(client.binding, project=project)


def only(monkeypatch: pytest.MonkeyPatch, folder: Path, *commands: str) -> None:
    """A PATH with these commands alone."""
    folder.mkdir()
    for name in commands:
        (folder / name).symlink_to(present(shutil.which(name)))
    monkeypatch.setenv("PATH", str(folder))


def test_a_build_is_used_again_without_maven(client, monkeypatch, tmp_path):
    only(monkeypatch, tmp_path / "bin", "java")
    check_buildable(client.binding)
    assert built(client.binding, SilentProgress()) == client
    assert find_java().banner
    names = {path.name for path in client.folder.iterdir()}
    assert {"core-0.17.0.jar", "client-1.jar", "rocksdb-1.jar", "HdrHistogram-2.1.4.jar"} <= names
    # RocksDB's classes and library are the engine's own.
    assert not any("rocksdbjni" in name for name in names)


def test_changed_sources_are_built_anew(changed, client, monkeypatch, tmp_path):
    check_buildable(changed)
    assert built(changed, SilentProgress()) == replace(client, binding=changed)
    source = next(changed.project.rglob("Opened.java"))
    source.write_text(source.read_text() + "// more\n")
    only(monkeypatch, tmp_path / "bin", "java")
    with pytest.raises(UsageError, match="no javac") as failure:
        check_buildable(changed)
    assert "maven" in failure.value.hint


def test_a_build_that_fails_says_why_and_leaves_nothing(changed):
    source = next(changed.project.rglob("Opened.java"))
    source.write_text(source.read_text().replace("final class Opened", "final klass Opened"))
    with pytest.raises(RunFailed, match="ERROR"):
        built(changed, SilentProgress())
    assert not list(paths.engines_prefix().glob(f"*{_folder(changed).name}*"))
