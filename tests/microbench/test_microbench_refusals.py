"""Specs that the program refuses: by the key, and before anything is touched."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from microbench_build import chain, execute, latency, measured, spec_of, throughput

MIB = 1 << 20
TARGETS = {
    "t0": {"kind": "dram", "size_bytes": 16 * MIB, "pages": "base"},
    "t1": {"kind": "dram", "size_bytes": 8 * MIB, "pages": "base"},
}
dependent = partial(chain, dependent=True)
SECOND = {"target": "t1", "share": 0, "range_bytes": 512}
LOG = {"kind": "log", "writer": "zero", "entry_bytes": 64}
INDEX = {"kind": "index", "index": "woart", "workload": "a", "flush": "clflush"}
PAGE = {"kind": "page", "method": "cow", "page_bytes": 4096, "dirty_lines": 1}


@pytest.mark.parametrize(
    ("key", "job"),
    [
        ("acess", throughput(acess=64)),
        ("kind", {"kind": "dance"}),
        ("target", throughput(target="moon")),
        ("access_bytes", throughput(access_bytes=100)),
        ("access_bytes", throughput(access_bytes=32 * MIB)),
        ("fence_every_bytes", throughput("store", fence_every_bytes=192, access_bytes=128)),
        ("cpus", throughput(cpus=[1023])),
        ("dimms", throughput(pattern="dimms", dimms=7)),
        ("stripe_bytes", throughput(pattern="dimms", stripe_bytes=6000)),
        ("access_bytes", throughput(pattern="dimms", access_bytes=8192)),
        ("partitions", throughput(pattern="dimms", threads=2, partitions=2)),
        ("second: range_bytes", throughput(threads=2, second=SECOND | {"range_bytes": 64})),
        ("range_bytes", throughput(range_bytes=1 << 40)),
        ("distance, written_by", latency(operation="load", distance=4)),
        ("flush", latency(operation="load", flush="clwb")),
        ("steps[0]: hotspot_bytes", dependent("r_512", pattern="hotspot", hotspot_bytes=64)),
        ("steps[1]: range_bytes",
         dependent("r_64,r_512", pattern="sequential", threads=4, range_bytes=1024)),
        ("steps[0]: range_bytes", dependent("rd_512", pattern="strided", threads=2, second=SECOND)),
        ("steps[0]", dependent("w_64_cache")),
        ("call", {"kind": "pmdk", "call": "log_append", "entry_bytes": 64}),
        ("mix[0]: share", {"kind": "chain", "dependent": True, "mix": [{"share": 0, "steps": []}]}),
        ("mix[0]: steps", {"kind": "chain", "dependent": True, "mix": [{"share": 1}]}),
        ("steps, mix", {**dependent("r_64"), "mix": []}),
        ("steps[1]", dependent("r_64,wd_64_cache")),
        ("steps[0]", dependent("rd_64")),
        ("steps[1]: persist", dependent("r_64,w_64_cash")),
        ("steps[0]", dependent("r_512,w_64_cache_128", range_bytes=256)),
        ("dependent", {"kind": "chain", "steps": []}),
        ("range_bytes", LOG | {"range_bytes": 4096}),
        ("writer", LOG | {"writer": "zeros"}),
        ("range_bytes", PAGE | {"range_bytes": 8192}),
        ("index", INDEX | {"index": "btree"}),
        ("discipline", INDEX | {"discipline": "unaware"}),
        ("flush", INDEX | {"flush": "ntstore"}),
        ("range_bytes", INDEX | {"range_bytes": 8192}),
    ],
)  # fmt: skip
def test_a_job_is_refused_by_its_key(tested_build: Path, key: str, job: dict[str, Any]):
    done = execute(tested_build / "microbench", spec_of(TARGETS, measured(job, 10)))
    assert done.returncode == 2, done.stderr
    assert f"microbench: measurement m0: job j0: {key}: " in done.stderr


def test_a_measurement_that_would_never_end_is_refused(tested_build: Path):
    done = execute(tested_build / "microbench", spec_of(TARGETS, {"jobs": [throughput()]}))
    assert done.returncode == 2
    assert "microbench: measurement m0: duration_ns: " in done.stderr


@pytest.mark.parametrize(
    ("status", "key", "target"),
    [
        (1, "target t: sync", {"kind": "file", "path": "TMP", "sync": "required"}),
        (2, "target t", {"kind": "file", "path": "TMP/there"}),
        (2, "target t", {"kind": "devdax", "path": "/dev/null", "overwrite": True}),
        (2, "target t: pages", {"kind": "dram", "pages": "big"}),
        (1, "target t: node", {"kind": "dram", "node": 999}),
    ],
)
def test_a_target_is_refused_and_left_as_it_was(tested_build, tmp_path, status, key, target):
    (tmp_path / "there").write_bytes(b"something of somebody")
    text = json.dumps({"size_bytes": MIB} | target).replace("TMP", str(tmp_path))
    spec = spec_of({"t": json.loads(text)}, measured(throughput(), 1))
    done = execute(tested_build / "microbench", spec)
    assert done.returncode == status, done.stderr
    assert f"microbench: {key}: " in done.stderr
    assert (tmp_path / "there").read_bytes() == b"something of somebody"
    if status == 1:  # what was begun has a result that says so
        result = json.loads(done.stdout)
        assert result["status"] == "failed" and result["error"].startswith(f"{key}: ")
