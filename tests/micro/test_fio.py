"""fio and ioping on a real file system, at a scale at which figures mean nothing."""

import contextlib
import errno
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from scratch import open_directory
from test_page_cache import resident_bytes

from harness import hdr
from harness.errors import RunFailed, UsageError
from harness.execution.environment import open_environment
from harness.micro import external_tools, fio
from harness.micro.fio import Fio, histogram, sample_of
from harness.micro.ioping import Ioping
from harness.micro.protocol import MicroContext, ProgramOutcome
from harness.progress import progress_on_stderr
from harness.store.spec import Json
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from harness.units import MIB

TINY: dict[str, Json] = {"size": "8MiB", "duration": "50ms"}
READ: dict[str, Json] = {"operation": "read", "pattern": "random", "access": "4KiB"}
WAL: dict[str, Json] = {"operation": "write", "pattern": "sequential", "access": 4096,
                        "sync": "fdatasync"}  # fmt: skip
#: Long enough for a disk that stands still meanwhile.
DURATION = "1s"


@pytest.fixture
def tier_path() -> Iterator[Path]:
    """A directory that the unprivileged user may enter, unlike pytest's own."""
    with open_directory() as folder:
        tier = folder / "tier"
        tier.mkdir(mode=0o755)
        (folder / "host.yml").write_text(
            f"schema: 1\ntiers:\n  ssd: {{kind: block, path: {tier}}}\n"
        )
        yield tier


@pytest.fixture
def work(tier_path: Path) -> Iterator[MicroContext]:
    host = tier_path.parent / "host.yml"
    with (
        progress_on_stderr(quiet=True) as progress,
        open_environment(host, [], progress) as env,
        env.directory(tier_path / "run") as directory,
        env.scratch() as scratch,
    ):
        yield MicroContext(env.tiers["ssd"], env, directory, scratch, seed=3, repeats=2)


def _fio(work: MicroContext, size: Json = TINY["size"], **measurements: Any) -> ProgramOutcome:
    params: dict[str, Json] = {"size": size, "measurements": measurements, "duration": DURATION}
    return Fio.from_mapping(params).measure(work)


def _by_configuration(measured: ProgramOutcome, name: str) -> dict[str, Any]:
    return {str(m.labels["configuration"]): m for m in measured.metrics if m.name == name}


def test_every_configuration_has_a_sample_each_repeat(work: MicroContext) -> None:
    measured = _fio(work, random_read=READ | {"queue_depth": [1, 4]})
    rates = _by_configuration(measured, "bandwidth_bytes_per_second")
    assert [metric.labels["queue_depth"] for metric in rates.values()] == [1, 4]
    operations = _by_configuration(measured, "operations_per_second")
    for name, rate in rates.items():
        assert len(rate.samples) == work.repeats
        per_second = zip(rate.samples, operations[name].samples, strict=True)
        assert all(b == pytest.approx(4096 * n, rel=0.01) for b, n in per_second)
    assert [check.status for check in measured.checks] == ["passed"]
    durations = _by_configuration(measured, "operation_duration_ns")
    assert all(hdr.decode(metric.hdr).total > 0 for metric in durations.values())


def test_a_write_with_its_sync_takes_what_both_take(work: MicroContext) -> None:
    measured = _fio(work, wal=WAL)
    (mean,) = _by_configuration(measured, "operation_mean_duration_ns").values()
    (call,) = _by_configuration(measured, "write_call_duration_ns").values()
    (sync,) = _by_configuration(measured, "fdatasync_duration_ns").values()
    calls, syncs = hdr.decode(call.hdr), hdr.decode(sync.hdr)
    parts = calls.mean + syncs.mean
    # A repeat's last write may go without its sync: the means then weigh the repeats otherwise.
    assert 0 <= calls.total - syncs.total <= work.repeats
    less = syncs.total / calls.total
    low, high = sorted(mean.samples)
    assert low * less * 0.97 <= parts <= high / less * 1.03
    # The rate says the same: one after the other.
    (rate,) = _by_configuration(measured, "operations_per_second").values()
    for per_second, mean_ns in zip(rate.samples, mean.samples, strict=True):
        assert per_second * mean_ns <= 1e9 * (1.02 + 2 / per_second)


def test_a_log_that_appends_grows_and_is_gone_afterwards(work: MicroContext) -> None:
    """Each thread's own, and never to more than its share of the size."""
    sizes: dict[str, set[int]] = {}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.001):
            for path in work.files.glob("log.*"):
                with contextlib.suppress(FileNotFoundError):
                    sizes.setdefault(path.name, set()).add(path.stat().st_size)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        measured = _fio(work, wal=WAL | {"direct": False, "appends": True, "threads": 2})
    finally:
        ended.set()
        watcher.join()
    (mean,) = _by_configuration(measured, "operation_mean_duration_ns").values()
    assert (mean.labels["appends"], mean.labels["threads"]) == (True, 2)
    assert "appends=yes" in str(mean.labels["configuration"])
    assert sorted(sizes) == ["log.0", "log.1"]
    assert all(len(seen) > 1 and max(seen) <= 4 * MIB for seen in sizes.values())
    assert [path.name for path in work.files.iterdir()] == ["data"]


def test_percentiles_are_those_of_fio(work: MicroContext) -> None:
    fio.fill(work, "data", 8 * MIB, past_cache=False)

    plan = Fio.from_mapping(TINY | {"duration": DURATION, "measurements": {"r": READ}})
    document, _ = fio._fio(work, fio.job_file(plan.jobs[0], plan, past_cache=False, seed=1))
    reported = document["jobs"][0]["read"]["lat_ns"]
    ours = hdr.decode(sample_of(document, plan.jobs[0]).latencies)
    assert ours.total == reported["N"]
    ranks = ours.counts.cumsum()
    for percent, value in reported["percentile"].items():  # fio rounds ranks up, hdr to the nearest
        rank = math.ceil(Fraction(float(percent)) * ours.total / 100)  # exact: 99.9 is a bit more
        at = int(ranks.searchsorted(rank))
        assert int(ours.layout.bounds()[1][at]) == pytest.approx(value, rel=0.002)
    assert ours.mean == pytest.approx(reported["mean"], rel=0.02)


def test_bins_keep_their_counts() -> None:
    latencies = histogram({"0": 1, "9152": 3, "13991853": 2, str(10**15): 1})
    assert latencies.total == 7
    assert latencies.percentile(50) == pytest.approx(9152, rel=0.001)


def test_what_fio_did_not_do_is_no_result() -> None:
    job = Fio.from_mapping({"measurements": {"r": READ}}).jobs[0]
    side = {"bw_bytes": 0, "iops": 0, "total_ios": 0, "lat_ns": {"mean": 0}}
    with pytest.raises(RunFailed, match="no operation"):
        sample_of(printed(read=side), job)
    with pytest.raises(RunFailed, match="error 5"):
        sample_of(printed(error=5, read=side | {"total_ios": 7}), job)
    with pytest.raises(RunFailed, match="as fio 3"):
        sample_of(printed(), job)


def printed(version: str = "fio-3.33", **job: Any) -> dict[str, Any]:
    ended = {"error": 0}
    return {"fio version": version, "jobs": [ended | job]}


SIDE = {"bw_bytes": 9, "iops": 1, "total_ios": 1, "lat_ns": {"mean": 9, "bins": {"9": 1}}}


@pytest.mark.parametrize(
    "change",
    [{"bw_bytes": -1}, {"iops": "1"}, {"total_ios": 2**70}, {"total_ios": 9}, {"total_ios": True},
     *({"lat_ns": {"mean": 9} | lat} for lat in (
         {"bins": {"9": 2**70}}, {"bins": {"9": -1}}, {"bins": [9]}, {"bins": {"nine": 1}},
         {"mean": None, "bins": {"9": 1}}, {"bins": {"9": [1]}}))],
)  # fmt: skip
def test_numbers_that_fio_cannot_have_counted_are_no_result(change: dict[str, Any]) -> None:
    job = Fio.from_mapping({"measurements": {"r": READ}}).jobs[0]
    assert sample_of(printed(read=SIDE), job).operations == 1
    with pytest.raises(RunFailed, match="as fio 3"):
        sample_of(printed(read=SIDE | change), job)


@pytest.mark.parametrize("version", ["fio-2.2.10", "fio-3.1", "", "None"])
def test_what_an_older_fio_printed_is_refused_by_its_version(version: str) -> None:
    job = Fio.from_mapping({"measurements": {"r": READ}}).jobs[0]
    with pytest.raises(RunFailed) as refused:
        sample_of(printed(version, read={}), job)
    assert refused.value.context == f"it is of {version!r}"


@pytest.mark.parametrize(
    ("release", "options", "filesystem", "cached"),
    [
        ("6.14.0-rc1", (), "btrfs", True),
        ("6.18.44", ("rw", "compress=zstd:3"), "btrfs", True),
        ("6.13.9", (), "btrfs", False),
        ("6.18.44", ("rw", "nodatasum"), "btrfs", False),
        ("6.18.44", ("nodatacow",), "btrfs", False),
        ("6.18.44", (), "ext4", False),
    ],
)
def test_direct_writes_of_btrfs_are_cached(tmp_path, release, options, filesystem, cached):
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text(release)
    facts = TierFacts("block", filesystem=filesystem, mount_options=options)
    tier = Tier(TierClaim("ssd", "block", path="/x"), facts)
    assert external_tools.caches_direct_writes(tier, Kernel(tmp_path)) is cached


def test_writes_through_the_page_cache_are_labelled_and_refused_as_direct(work, monkeypatch):
    monkeypatch.setattr(external_tools, "caches_direct_writes", lambda tier: True)
    write = {"operation": "write", "pattern": "random", "access": "4KiB"}
    measured = _fio(replace(work, repeats=1), read=READ, write=write)
    labels = {metric.labels["measurement"]: metric.labels for metric in measured.metrics[:-1]}
    assert (labels["read"]["direct"], labels["write"]["direct"]) == (True, False)
    assert [warning.code for warning in measured.uncontrolled] == ["direct-writes-cached"]
    direct = Fio.from_mapping(TINY | {"measurements": {"w": write | {"direct": True}}})
    with pytest.raises(UsageError):
        direct.check(work.tier)


def test_writes_of_which_no_sync_ended_in_time_are_no_result() -> None:
    """Fio 3.33 writes this after 50 ms on a disk that is busy for longer."""
    job = Fio.from_mapping({"measurements": {"wal": WAL}}).jobs[0]
    sync = {"lat_ns": {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}}
    with pytest.raises(RunFailed, match="no fdatasync"):
        sample_of(printed(error=0, write=SIDE, sync=sync), job)


def test_direct_io_that_a_tier_does_not_take_is_refused_beforehand(work, monkeypatch):
    def asked(**more: Any) -> dict[str, Any]:
        return TINY | {"measurements": {"r": READ | more}}

    opened = os.open

    def without(path: Any, flags: int, mode: int = 0o777, dir_fd: int | None = None) -> int:
        """Open files as on a file system without direct I/O (ramfs)."""
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument", path)
        return opened(path, flags, mode, dir_fd=dir_fd)

    Fio.from_mapping(asked(direct=True)).check(work.tier)
    monkeypatch.setattr(os, "open", without)
    with pytest.raises(UsageError, match="direct: "):
        Fio.from_mapping(asked(direct=True)).check(work.tier)
    Fio.from_mapping(asked(direct="auto")).check(work.tier)


def test_what_goes_through_the_page_cache_finds_the_whole_file_there(work: MicroContext) -> None:
    measured = _fio(replace(work, repeats=1), small=READ | {"access": 64, "direct": False})
    resident = resident_bytes(work.files / "data")
    (duration,) = _by_configuration(measured, "operation_duration_ns").values()
    assert duration.labels["direct"] is False
    stored: Any = measured.artifacts["fio"]
    reported = stored["jobs"][duration.labels["configuration"]]
    assert "invalidate=0" in reported
    assert 7 * MIB <= resident <= 8 * MIB  # the kernel may take clean pages back


def test_small_writes_do_not_find_the_large_folios_of_readahead(work: MicroContext) -> None:
    """Ext4 walks large folios block by block: 64 bytes took ten times as long as 4 KiB."""
    sizes = {"operation": "write", "pattern": "random", "access": [64, 4096], "direct": False}
    measured = _fio(work, size="64MiB", w=sizes)
    small, page = (
        hdr.decode(metric.hdr).percentile(50)
        for metric in _by_configuration(measured, "operation_duration_ns").values()
    )
    assert small < 3 * page


def test_a_file_that_memory_cannot_hold_is_not_said_to_lie_there(work, monkeypatch):
    monkeypatch.setattr(fio, "_CACHED_SHARE", 0.0)
    once = replace(work, repeats=1)
    (finding,) = _fio(once, small=READ | {"access": 64, "direct": False}).uncontrolled
    assert finding.code == "page-cache"
    assert _fio(once, whole=READ | {"direct": True}).uncontrolled == ()


def test_ioping_tells_every_request(work: MicroContext) -> None:
    measured = Ioping.from_mapping({"requests": 8, "working_set": "4MiB"}).measure(work)
    durations = [m for m in measured.metrics if m.name == "operation_duration_ns"]
    cases = {(m.labels["operation"], m.labels["pattern"]) for m in durations}
    assert cases == {(o, p) for o in ("read", "write") for p in ("random", "sequential")}
    assert all(m.hdr and hdr.decode(m.hdr).total == 8 * work.repeats for m in durations)
    assert work.directory is not None
    assert list(work.directory.iterdir()) == []
