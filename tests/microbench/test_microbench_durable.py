"""Chains, log writers, page flushes and indexes as jobs: what they move, and what a restart finds.

That recovery survives a cut at any word is what the C tests try (test_log.c, test_page.c …).
"""

from itertools import product
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from microbench_build import chain, execute, jobs, measured, spec_of

MIB = 1 << 20
TARGETS = {
    "t0": {"kind": "dram", "size_bytes": 16 * MIB, "pages": "base"},
    "t1": {"kind": "dram", "size_bytes": 8 * MIB, "pages": "base"},
}


def timed_of(job: dict[str, Any]) -> int:
    """Count the operations that have a time."""
    return int(HdrHistogram.decode(job["latency_hdr"]).get_total_count())


FLUSHES = ("none", "clwb", "clflushopt", "clflush", "ntstore")


@pytest.mark.parametrize("dependent", [True, False])
def test_a_chain_moves_every_byte_of_its_steps(microbench, dependent):
    texts = {
        "r_64": (64, 0),
        "r_1024": (1024, 0),
        "r_512,w_64_cache_128,w_64_cache_-128": (512, 128),
        "r_256,w_256_none": (256, 256),
        "r_64,w_64_cacheinv,w_64_cacheinv": (64, 128),
        "r_512,r_512,r_512,w_64_nocache_320,w_64_nocache_-64": (1536, 128),
    }
    requested = [measured(chain(text, dependent=dependent)) for text in texts]
    done = jobs(microbench(TARGETS, *requested))
    for (read, written), job in zip(texts.values(), done, strict=True):
        assert job["operations"] == 2000
        assert (job["read_bytes"], job["written_bytes"]) == (2000 * read, 2000 * written)
        assert job["facts"]["chains"].startswith("dependent" if dependent else "independent")
        assert job["latency_hdr"] is None
        assert (job["durable"] is None) == (written == 0)


def test_a_chain_through_two_memories_tells_what_the_second_had(microbench):
    second = {"target": "t1", "share": 0, "range_bytes": 4 * MIB}
    job = chain("rd_2048,rd_2048,rp_1024,wp_64_cache_512", dependent=True, second=second)
    (done,) = jobs(microbench(TARGETS, measured(job)))
    assert done["second_bytes"] == 2000 * 4096
    assert done["read_bytes"] == 2000 * 5120


def test_every_nth_chain_is_timed(microbench):
    often = [(every, dependent) for every in (1, 3, 100) for dependent in (True, False)]
    requested = [measured(chain("r_64,w_64_cache", dependent=dependent, sample_every=every))
             for every, dependent in often]  # fmt: skip
    for (every, _), job in zip(often, jobs(microbench(TARGETS, *requested)), strict=True):
        assert timed_of(job) == 2000 // every


def test_each_operation_of_a_mix_draws_its_chain(microbench):
    """Three lookups for an update: each chain has its operations, its bytes and its times."""
    mix = [
        {"share": 3, "steps": chain("r_512", dependent=True)["steps"]},
        {"share": 1, "steps": chain("r_512,w_64_cache", dependent=True)["steps"]},
    ]
    job = {"kind": "chain", "mix": mix, "dependent": True, "sample_every": 4}
    (done,) = jobs(microbench(TARGETS, measured(job, operations=20_000)))
    lookups, updates = done["facts"]["mix"]
    assert lookups["operations"] + updates["operations"] == done["operations"] == 20_000
    assert 0.22 < updates["operations"] / 20_000 < 0.28
    assert done["read_bytes"] == 20_000 * 512
    assert done["written_bytes"] == updates["operations"] * 64
    timed = [timed_of(chain_facts) for chain_facts in (lookups, updates)]
    assert sum(timed) == timed_of(done) == 5000


@pytest.mark.parametrize(
    "job",
    [
        chain("r_64,w_64_cache", dependent=True),
        {"kind": "log", "writer": "zero", "entry_bytes": 64},
        {"kind": "page", "method": "cow", "page_bytes": 4096, "dirty_lines": 3},
    ],
    ids=lambda job: job["kind"],
)
def test_what_the_stamps_take_is_told_where_there_are_some(microbench, job):
    timed, plain = jobs(microbench(TARGETS, measured({**job, "sample_every": 7}), measured(job)))
    assert 0 < timed["facts"]["empty_body_least_ns"] <= timed["facts"]["empty_body_ns"]
    assert "empty_body_ns" not in plain["facts"]
    assert plain["latency_hdr"] is None


def test_a_chain_stays_within_its_range(microbench):
    """The writes of the last node reach its end, those of the first one its begin, no further."""
    job = chain("r_128,w_64_cache_192,w_64_cache_-320", dependent=False, range_bytes=512)
    (done,) = jobs(microbench({"t0": {"kind": "dram", "size_bytes": 512}}, measured(job)))
    assert done["operations"] == 2000


def test_a_hot_spot_of_chains_leaves_their_writes_room(microbench, tmp_path):
    """Asked for or by default as large as the range: what lies behind the range stays as it was."""
    path = tmp_path / "target"
    target = {"t0": {"kind": "file", "path": str(path), "size_bytes": 8192, "overwrite": True}}
    for keys in ({}, {"hotspot_bytes": 4096}):
        path.write_bytes(bytes(8192))
        job = chain("r_64,w_64_none_1024", dependent=False, pattern="hotspot", **keys)
        microbench(target, measured({**job, "range_bytes": 4096}))
        written = path.read_bytes()
        assert written[1024:4096] != bytes(3072)
        assert written[4096:] == bytes(4096)


@pytest.mark.parametrize("writer", ["classic", "header", "dancing", "zero"])
def test_a_restart_finds_every_entry_of_a_log(microbench, writer):
    requested = list(product((True, False), FLUSHES, (1, 64, 500)))
    logs = [
        measured({"kind": "log", "writer": writer, "padded": padded, "flush": flush,
                  "entry_bytes": entry, "threads": 2})
        for padded, flush, entry in requested
    ]  # fmt: skip
    for (padded, flush, entry), job in zip(
        requested, jobs(microbench(TARGETS, *logs)), strict=True
    ):
        facts = job["facts"]
        assert facts["recovered_entries"] == job["operations"] == 2000
        assert job["written_bytes"] == 2000 * entry
        assert facts["bytes_an_entry"] % (64 if padded else 8) == 0
        assert (facts["flush"], facts["laps"], facts["zeroing_ns"]) == (flush, 0, 0)


@pytest.mark.parametrize("writer", ["classic", "header", "dancing", "zero"])
def test_a_restart_finds_every_entry_of_a_shared_log(microbench, writer):
    """Whatever share their barriers; also where a full log starts again under a group."""
    log = {"kind": "log", "writer": writer, "padded": True, "entry_bytes": 64, "threads": 2,
           "table_bytes": 65536}  # fmt: skip
    logs = [measured({**log, "group": group, **more}, 2000)
            for group in (1, 2) for more in ({}, {"range_bytes": 65536})]  # fmt: skip
    for job in jobs(microbench(TARGETS, *logs)):
        facts = job["facts"]
        assert job["operations"] == 2000
        assert (facts["recovered_entries"] == 2000) == (facts["laps"] == 0)
        assert 0 < facts["recovered_entries"] <= 2000


def test_a_full_log_begins_anew_and_that_time_is_not_the_entries(microbench):
    log = {"kind": "log", "writer": "zero", "entry_bytes": 64, "sample_every": 10}
    (job,) = jobs(microbench(TARGETS, measured({**log, "range_bytes": 65536}, 5000)))
    entries = (65536 - 4096) // 128
    assert job["facts"]["laps"] == 5000 // entries
    assert job["facts"]["recovered_entries"] == 5000 % entries
    assert job["facts"]["zeroing_ns"] > 0
    assert timed_of(job) == 500
    (thread,) = job["threads"]
    ran = thread["end_ns"] - thread["begin_ns"] - job["facts"]["zeroing_ns"]
    assert job["operations_per_second"] == pytest.approx(5000 * 1e9 / ran)


@pytest.mark.parametrize("method", ["cow", "cow_dirty", "cow_invalidate", "mulog", "hybrid"])
def test_a_restart_finds_every_page_as_it_was_flushed_last(microbench, method):
    requested = list(product(FLUSHES, (1, 20, 64)))
    pages = [
        measured({"kind": "page", "method": method, "page_bytes": 4096, "dirty_lines": dirty,
                  "flush": flush, "threads": 2, "sample_every": 50})
        for flush, dirty in requested
    ]  # fmt: skip
    for (_, dirty), job in zip(requested, jobs(microbench(TARGETS, *pages)), strict=True):
        assert job["operations"] == 2000
        assert timed_of(job) > 0
        if method == "mulog":
            assert job["written_bytes"] == 2000 * 2 * 64 * dirty
        elif method != "hybrid":
            assert job["written_bytes"] == 2000 * 4096
        expected = 2000 * (4096 - 64 * dirty) if method == "cow_dirty" else 0
        assert job["read_bytes"] == expected


def test_the_hybrid_logs_few_lines_and_copies_many(released):
    """Its crossing lies where the measured lines say: between one line and all of them."""
    page = {"kind": "page", "method": "hybrid", "page_bytes": 16384}
    few, many = jobs(
        released(TARGETS, *(measured({**page, "dirty_lines": n}, 4000) for n in (1, 256)))
    )
    assert 1 < few["facts"]["hybrid_below_lines"] < 256
    # Behind the trials: one line goes to the log and to the page, of 256 all are copied.
    assert few["written_bytes"] < 2000 * 16384 < many["written_bytes"]


def index(kind: str, workload: str, discipline: str, **more) -> dict[str, Any]:
    about = {"index": kind, "workload": workload, "discipline": discipline, "flush": "clflush"}
    return {"kind": "index", "target": "t0", "threads": 1, **about, **more}


@pytest.mark.parametrize("kind", ["level_hash", "fast_fair", "woart"])
def test_an_index_has_all_its_records_after_each_workload(microbench, kind):
    workloads = ("a", "b", "d", "insert")
    requested = [
        measured(index(kind, workload, "designed", threads=2), 4000) for workload in workloads
    ]
    for workload, job in zip(workloads, jobs(microbench(TARGETS, *requested)), strict=True):
        assert job["operations"] == 4000
        assert (job["read_bytes"] > 0, job["written_bytes"] > 0) == (workload != "insert", True)
        assert job["read_bytes"] + job["written_bytes"] == 4000 * 16
        assert job["durable_why"] == "DRAM forgets"


@pytest.mark.parametrize(("kind", "shared"), [("level_hash", 1), ("fast_fair", 1), ("woart", 2)])
def test_threads_of_a_partition_share_an_index_as_in_its_paper(microbench, kind, shared):
    requested = [
        measured(index(kind, workload, "designed", threads=4, partitions=parts), 4000)
        for workload in ("a", "d", "insert")
        for parts in (2, 4)
    ]
    counts = [
        (j["operations"], j["facts"]["indexes"]) for j in jobs(microbench(TARGETS, *requested))
    ]
    assert counts == [(4000, 2 * shared), (4000, 4)] * 3


@pytest.mark.parametrize(
    ("kind", "discipline", "counts"),
    [
        ("level_hash", "designed", (3, 2, 1)),
        ("level_hash", "ff", (3, 3, 1)),
        ("level_hash", "sff", (2, 2, 0)),
        ("level_hash", "optimized", (1, 1, 0)),
        ("level_hash", "none", (0, 2, 0)),
        ("woart", "designed", (1, 1, 0)),
    ],
)
def test_an_update_flushes_as_its_discipline_says(microbench, kind, discipline, counts):
    """Flushes, fences and redundant flushes for each write."""
    flush = {"discipline": "designed", "flush": "none"} if discipline == "none" else {}
    (job,) = jobs(microbench(TARGETS, measured(index(kind, "a", discipline) | flush)))
    names = ("flushes_per_write", "fences_per_write", "redundant_flushes_per_write")
    assert tuple(job["facts"][name] for name in names) == counts


@pytest.mark.parametrize(
    ("kind", "discipline", "counts"),
    [
        ("level_hash", "designed", (3, 3)),  # of the three flushes, the index fences two
        ("level_hash", "optimized", (1, 1)),
        ("woart", "designed", (1, 1)),
    ],
)
def test_an_added_fence_follows_flushes_without_one(microbench, kind, discipline, counts):
    """BENTŌ, section 3.2: clwb instead of clflush, and an sfence where no fence follows."""
    paper = index(kind, "a", discipline, fence="mfence", added_fence="sfence") | {"flush": "clwb"}
    (job,) = jobs(microbench(TARGETS, measured(paper)))
    assert (job["facts"]["flushes_per_write"], job["facts"]["fences_per_write"]) == counts


def test_inserts_go_into_an_index_that_is_loaded(microbench):
    """Three quarters of the records that the range has room for are there before."""
    spec = index("fast_fair", "insert", "designed", loaded_share=0.75, operations=10**6)
    (job,) = jobs(microbench(TARGETS, {"jobs": [spec]}))
    room, counted = 16 * MIB // 256, 10_000  # flushes are counted afterwards
    facts = job["facts"]
    assert (facts["loaded_records"], facts["records"]) == (room * 3 // 4, room + counted)
    assert job["operations"] == room - room * 3 // 4


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("added_fence", {"discipline": "ff", "added_fence": "sfence"}),
        ("keys", {"workload": "d", "keys": "uniform"}),
        ("loaded_share", {"workload": "a", "loaded_share": 0.5}),
        ("key_bytes, value_bytes", {"value_bytes": 200}),
    ],
)
def test_keys_of_an_index_that_contradict_are_refused(tested_build, key, more):
    spec = spec_of(TARGETS, measured(index("woart", "a", "designed") | more))
    done = execute(tested_build / "microbench", spec)
    assert done.returncode == 2 and f"job j0: {key}: " in done.stderr


def test_an_update_of_fast_fair_shifts_entries_as_an_insert_does(microbench):
    """It removes the entry, and inserts another one in the same node."""
    requested = [measured(index("fast_fair", workload, "designed")) for workload in ("a", "insert")]
    update, insert = (job["facts"] for job in jobs(microbench(TARGETS, *requested)))
    for name in ("flushes_per_write", "fences_per_write"):
        assert update[name] == pytest.approx(insert[name], rel=0.15)
    assert insert["fences_per_write"] > 3  # of an index that shifts no entry: 1


@pytest.mark.parametrize(
    ("call", "read", "written"),
    [
        ("log_append", 0, 64),
        ("tx_add", 64, 0),
        ("tx_copy_ntstore", 64, 64),
        ("tx_copy_clwb", 64, 64),
        ("copy_ntstore", 64, 64),
        ("copy_clwb", 64, 64),
    ],
)
def test_pmdk_is_called_on_a_pool_that_leaves_nothing(microbench, tmp_path, call, read, written):
    target = {"t0": {"kind": "file", "path": str(tmp_path), "size_bytes": 32 * MIB}}
    job = {"kind": "pmdk", "call": call, "entry_bytes": 64, "sample_every": 10}
    (done,) = jobs(microbench(target, measured(job)))
    assert (done["read_bytes"], done["written_bytes"]) == (2000 * read, 2000 * written)
    assert timed_of(done) == 200
    assert done["durable"] == "no"
    assert list(tmp_path.iterdir()) == []
