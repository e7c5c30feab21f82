"""Suites derived from recorded I/O traces, and the logs that fio replays."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_run import SPEC, result

from harness import hdr
from harness.errors import UsageError
from harness.iotrace.page import LAYOUT
from harness.micro.iolog import Thread, names, synced
from harness.micro.like_suite import Job, LikePlan, derive, sizes_of, suite_like
from harness.store.runs import Store, StoredRun
from harness.units import GIB, MIB, NS_PER_S

RECORDED = Path(__file__).parent / "recorded"
#: What a cell has where nothing else is written.
NONE = dict.fromkeys(
    (
        *("errors", "bytes", "ns", "sequential", "direct", "durable", "submitted"),
        *("extending", "datasync", "queued", "queued_squared", "dirtied_bytes"),
    ),
    0,
) | {"role": "foreground", "sizes": {}}


def trace(*cells: dict[str, Any], window_s: int = 1, missed: float = 0.0) -> dict[str, Any]:
    operations = [NONE | {"timed": cell["calls"], "missed_share": missed} | cell for cell in cells]
    return {
        "run": "R",
        "window_ns": window_s * NS_PER_S,
        "data_bytes": 64 * MIB,
        "clients": 1,
        "workers": 1,
        "coverage": {},
        "operations": operations,
    }


def cell(part: str, operation: str, calls: int, size: int = 0, **more: Any) -> dict[str, Any]:
    sizes = {str(1 << (size - 1).bit_length()): calls} if size else {}
    named = {"part": part, "operation": operation, "calls": calls}
    return named | {"bytes": calls * size, "sizes": sizes} | more


def calls_of(plan: LikePlan, job: Job, seed: int = 0) -> list[list[str]]:
    """The lines of all threads' logs that read, write or sync, as fields."""
    logs = [Thread(plan, job, number, seed).log() or "" for number in range(job.threads)]
    lines = [line.split() for log in logs for line in log.splitlines()[1:]]
    return [line for line in lines if len(line) == 4 and line[1] != "wait"]


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDED.glob("*.json")))
def test_calls_sizes_and_rates_are_those_of_the_trace(name: str) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    plan = derive(recorded, 5 * NS_PER_S, GIB)
    assert plan.size_bytes <= GIB
    times = plan.duration_ns / recorded["window_ns"]
    done: Counter[tuple[str, str, str]] = Counter()
    moved: Counter[tuple[str, str, str]] = Counter()
    for job in plan.jobs:
        for call in calls_of(plan, job):
            key = (job.part, {"datasync": "sync"}.get(call[-3], call[-3]), job.role)
            done[key] += 1
            moved[key] += int(call[-1])
            most = max(plan.files[job.part].size_bytes, job.growing_bytes)
            assert int(call[-2]) + int(call[-1]) <= most
    for one in recorded["operations"]:
        key = (one["part"], one["operation"], one["role"])
        assert done[key] == pytest.approx(max(1, one["calls"] * times), abs=1), key
        if done[key] >= 100 and one["operation"] != "sync":
            mean = one["bytes"] / one["calls"]
            assert moved[key] / done[key] == pytest.approx(mean, rel=0.05), key


def test_a_transaction_log_is_synced_after_its_writes() -> None:
    writes = cell("wal", "write", 100, 8192)
    found = {"dirtied_bytes": 100 * 8192, "datasync": 100, "sizes": {"8192": 100}}
    plan = derive(trace(writes, cell("wal", "sync", 100) | found), NS_PER_S, GIB)
    (job,) = plan.jobs
    assert [call[-3] for call in calls_of(plan, job)] == ["write", "datasync"] * 100
    found = {"dirtied_bytes": 100 * 8192, "sizes": {"16384": 50}}
    two = derive(trace(writes, cell("wal", "sync", 50) | found), NS_PER_S, GIB)
    actions = [call[-3] for call in calls_of(two, two.jobs[0])]
    assert actions == ["write", "write", "sync"] * 50


def test_syncs_that_find_nothing_written_come_evenly() -> None:
    plan = derive(trace(cell("data", "write", 4, 8192), cell("data", "sync", 2)), NS_PER_S, GIB)
    actions = [call[-3] for call in calls_of(plan, plan.jobs[0])]
    assert actions == ["write", "write", "sync"] * 2


def test_a_sync_finds_as_many_bytes_as_in_the_run() -> None:
    writes, found = [100] * 50 + [4000] * 9, [20_000, 1_000, 20_000]
    sizes, ends = synced(writes, found, 4, random.Random(0))
    assert sorted(sizes) == sorted(writes)
    assert len(ends) == 4
    after = sorted({end + 1 for end in ends})
    assert sorted(sum(sizes[a:b]) for a, b in pairwise([0, *after])) == sorted(found)


def test_a_file_that_grows_is_a_threads_own() -> None:
    appended = cell("wal", "write", 10, 1000, extending=10, sequential=10)
    plan = derive(trace(appended), NS_PER_S, GIB)
    (job,) = plan.jobs
    assert names(job, grows=True) == ["wal/foreground-write-0"]
    assert names(job, grows=False) == []
    assert plan.size_bytes == plan.files["wal"].size_bytes + MIB
    for part, grows in (("wal", True), ("data", False)):  # of a log, other writes go back a block
        plan = derive(trace(cell(part, "write", 10, 512, extending=2)), NS_PER_S, GIB)
        assert bool(names(plan.jobs[0], grows=True)) == grows


def test_one_sync_after_very_many_writes() -> None:
    writes, ends = synced([100] * 50_000, [4_000_000], 1, random.Random(0))
    assert (len(writes), len(ends)) == (50_000, 1)
    assert 39_999 <= ends[0] < 50_000  # writes that no sync follows come anywhere


@pytest.mark.parametrize(
    "under_way",
    [list(range(8)) * 10, [7] * 80],  # in a row, and as others end
)
def test_asynchronous_calls_are_as_many_at_a_time(under_way: list[int]) -> None:
    squared = sum(one * one for one in under_way)
    found = {"submitted": 80, "queued": sum(under_way), "queued_squared": squared}
    one = cell("data", "write", 80, 16384, ns=4 * NS_PER_S, **found)
    plan = derive(trace(one), NS_PER_S, GIB)
    (job,) = plan.jobs
    assert (job.depth, job.threads, job.busy) == (8, 1, 0.5)


def test_a_log_is_written_on_from_its_last_page() -> None:
    plan = derive(trace(cell("wal", "write", 10, 16384)), NS_PER_S, GIB)
    offsets = [int(call[-2]) for call in calls_of(plan, plan.jobs[0])]
    assert offsets == [0] * 10  # 16 KiB are the unit: each call writes it again
    plan = derive(trace(cell("wal", "write", 10, 1000, sequential=10)), NS_PER_S, GIB)
    offsets = [int(call[-2]) for call in calls_of(plan, plan.jobs[0])]
    assert offsets == [1000 * number for number in range(10)]


def test_concurrency_follows_from_the_time_in_calls() -> None:
    busy = cell("data", "read", 1000, 8192, ns=3 * NS_PER_S)
    idle = cell("wal", "write", 1000, 8192, ns=NS_PER_S // 100)
    untimed = cell("temp", "write", 10, 8192, timed=0)
    plan = derive(trace(busy, idle, untimed), NS_PER_S, GIB)
    assert {job.part: job.threads for job in plan.jobs} == {"data": 3, "wal": 1, "temp": 1}
    assert len(calls_of(plan, plan.jobs[0])) == 1000


def test_clients_and_the_workers_of_a_query_have_a_thread_each() -> None:
    one = trace(cell("data", "read", 100, 8192, ns=NS_PER_S // 2), cell("wal", "write", 100, 8192))
    clients = derive(one | {"clients": 4}, NS_PER_S, GIB)
    assert [(j.threads, j.busy, j.at_once) for j in clients.jobs] == [
        (4, 0.5, False),
        (1, 0, False),
    ]
    workers = derive(one | {"workers": 2}, NS_PER_S, GIB)
    assert [(j.threads, j.busy, j.at_once) for j in workers.jobs] == [(2, 0.5, True), (1, 0, False)]


def test_a_thread_rests_while_the_engine_does_other_things() -> None:
    busy = cell("data", "read", 1000, 8192, ns=NS_PER_S // 4)
    plan = derive(trace(busy), NS_PER_S, GIB)
    rest = Thread(plan, plan.jobs[0], 0, seed=0).rest()
    assert rest is not None
    assert 70 <= rest.after <= 130  # calls of a tenth of a second
    assert rest.ns == pytest.approx(rest.after * 750_000)
    workers = derive(trace(busy) | {"workers": 2}, NS_PER_S, GIB)
    assert Thread(workers, workers.jobs[0], 0, seed=0).rest() is None
    always = derive(trace(busy | {"ns": 2 * NS_PER_S}), NS_PER_S, GIB)
    assert Thread(always, always.jobs[0], 0, seed=0).rest() is None


def test_parts_roles_and_ways_of_access_are_jobs_of_their_own() -> None:
    plan = derive(
        trace(
            cell("data", "read", 10, 16384, direct=10),
            cell("data", "write", 10, 16384, direct=10, role="background", submitted=10),
            cell("data", "sync", 1, role="background"),
            cell("wal", "write", 10, 512, durable=10),
        ),
        NS_PER_S,
        GIB,
    )
    jobs = [(j.part, j.role, j.direct, j.durable, len(j.streams)) for j in plan.jobs]
    assert jobs == [
        ("data", "foreground", True, False, 1),
        ("data", "background", True, False, 2),
        ("wal", "foreground", False, True, 1),
    ]
    assert plan.roles == ["background", "foreground"]
    assert not any(job.direct for job in plan.without_direct().jobs)


def test_a_role_that_only_syncs_has_its_own_times() -> None:
    plan = derive(trace(cell("wal", "sync", 4, role="background")), NS_PER_S, GIB)
    (job,) = plan.jobs
    assert names(job, grows=False) == ["wal/background-sync"]
    lines = (Thread(plan, job, 0, seed=0).log() or "").splitlines()
    waits = [line.split()[2] for line in lines if " wait " in line]
    assert waits == ["425", "675", "925", "1175"]


def test_reads_that_miss_the_page_cache_read_each_page_once() -> None:
    plan = derive(trace(cell("data", "read", 1000, 8192), missed=0.25), NS_PER_S, GIB)
    (job,) = plan.jobs
    calls = calls_of(plan, job)
    missed = [int(call[-2]) for call in calls if call[-4].endswith("-missed")]
    assert len(missed) == pytest.approx(250, abs=1)
    assert len(set(missed)) == len(missed)
    resident = plan.files["data"].resident_bytes
    assert min(missed) >= resident
    assert all(
        int(call[-2]) + 8192 <= resident for call in calls if not call[-4].endswith("-missed")
    )


def test_sequential_calls_continue_where_the_previous_one_ended() -> None:
    one = cell("data", "read", 1000, 8192, sequential=900)
    for missed in (0.0, 1.0):
        plan = derive(trace(one, missed=missed), NS_PER_S, GIB)
        offsets = [int(call[-2]) for call in calls_of(plan, plan.jobs[0])]
        following = sum(b == a + 8192 for a, b in pairwise(offsets))
        assert following == pytest.approx(900, abs=20)


def test_little_room_shortens_the_suite_or_is_refused() -> None:
    one = trace(cell("data", "read", 100_000, 8192), missed=1.0)
    whole = derive(one, NS_PER_S, 2 * GIB)
    less = derive(one, NS_PER_S, 256 * MIB)
    assert less.size_bytes <= 256 * MIB
    assert less.duration_ns < whole.duration_ns == NS_PER_S
    with pytest.raises(UsageError):
        derive(trace(cell("data", "read", 10, 8 * MIB)), NS_PER_S, MIB)


@pytest.mark.parametrize(
    ("classes", "total", "expected", "unit"),
    [
        ({"8192": 100}, 100 * 8192, {8192: 100}, 8192),
        ({"2048": 100}, 100 * 1100, {1100: 100}, 1),
        ({"8192": 2, "32768": 2}, 2 * 8192 + 24576 + 32768, {8192: 2, 24576: 1, 32768: 1}, 8192),
        ({"512": 7, "8192": 3}, 3 * 8192, {8192: 3}, 8192),
        ({"512": 7}, 0, {1: 7}, 1),
        ({"more": 2}, 40 * MIB, {20 * MIB: 2}, 65536),
    ],
)
def test_sizes_lie_in_their_classes_and_keep_the_mean(
    classes: dict[str, int], total: int, expected: dict[int, float], unit: int
) -> None:
    sizes, of = sizes_of(classes, total)
    assert {size: round(count, 6) for size, count in sizes} == expected
    assert of == unit


def test_small_writes_are_not_empty_ones() -> None:
    sizes, unit = sizes_of({"512": 8, "4096": 1}, 8 * 512 + 4096, of_reads=False)
    assert (dict(sizes), unit) == ({512: 8.0, 4096: 1.0}, 512)


def test_one_seed_makes_one_log() -> None:
    plan = derive(trace(cell("data", "read", 100, 8192)), NS_PER_S, GIB)
    one, same, other = (Thread(plan, plan.jobs[0], 0, seed).log() for seed in (1, 1, 2))
    assert one == same != other


def stored(folder: Path, **changes: Any) -> StoredRun:
    """A run whose only I/O are reads of its data; ``changes``: of its result."""
    writer = Store(folder).begin(SPEC)
    writer.write_spec(SPEC)
    operations = [NONE | {"timed": 100} | cell("data", "read", 100, 8192)]
    writer.write_artifact("io-operations", changes.pop("operations", operations))
    run = writer.finish(result(writer) | changes)
    writer.close()
    return run


def test_half_of_the_reads_came_from_the_device(tmp_path: Path) -> None:
    counts = np.zeros(LAYOUT.counters, dtype=np.int64)
    low, _ = LAYOUT.bounds()
    counts[np.searchsorted(low, [5_000, 300_000])] = 50
    durations = hdr.Histogram(LAYOUT, counts).encode()
    plain = {"unit": "1", "better": "none", "labels": {}}
    metrics = [
        plain | {"name": "window_duration_ns", "value": 7},
        plain | {"name": "window_io_read_bytes", "value": 100 * 8192},
        plain | {"name": "io_duration_ns", "hdr": durations}
        | {"labels": {"part": "data", "operation": "read", "role": "foreground"}},
    ]  # fmt: skip
    derived = suite_like(stored(tmp_path, metrics=metrics)).value["params"]["trace"]
    assert derived["window_ns"] == 7
    assert [one["missed_share"] for one in derived["operations"]] == [0.5]


def test_answers_that_could_not_be_checked_change_no_call(tmp_path: Path) -> None:
    assert suite_like(stored(tmp_path, status="unknown"))


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "failed"},
        {"operations": []},
        {"spec": replace(SPEC, plant=("wal.sync=+1us",)).to_json()},
    ],
)
def test_runs_whose_calls_say_nothing_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        suite_like(stored(tmp_path, **changes))
