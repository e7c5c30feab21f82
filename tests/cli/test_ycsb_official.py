"""The official YCSB client through the command: beside ours, killed, out of space, refused."""

from __future__ import annotations

import os

from patience import PATIENCE_S
from run_values import values

from harness import hdr

RUN = ("run", "ycsb", "--engine", "rocksdb", "--records", "2000", "--threads", "2")
OFFICIAL = (*RUN, "--driver", "ycsb", "--placement", "ssd-both")
LONG = ("--rate", "500", "--ramp-up", "60s", "--duration", "10m")
CLIENT = b"tierbench.ycsb.Main\0-t"


def test_both_drivers_run_on_one_rocksdb_and_data_of_their_own(loaded):
    done = loaded(
        *RUN, "--workload", "a", "--rate", "500", "--driver", "both", "--placement", "ssd-both",
        "--set", "row_cache=16M", "--ramp-up", "1s", "--duration", "5s", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err + done.out
    runs = {run["spec"]["driver"]: run for run in done.json["runs"]}
    assert set(runs) == {"loadgen", "ycsb"}
    manifests = {
        name: loaded("runs", "show", run["run_id"], "--json").json["manifest"]
        for name, run in runs.items()
    }
    engines = [one["engine"]["build"] for one in manifests.values()]
    assert engines[0] == engines[1]
    for manifest in manifests.values():
        assert manifest["engine"]["effective_config"]["row_cache"] == str(16 << 20)
    golden = {one["dataset"]["key"] for one in manifests.values()}
    assert len(golden) == 2
    for name, run in runs.items():
        assert run["status"] == "complete", name
        assert values(run, "operations_per_second") > 0
        counts = values(run, "operation_count", "operation")
        assert set(counts) == {"read", "update"}
        for operation, text in values(run, "operation_duration_ns", "operation").items():
            # The official client closes the log that counts and that of latencies in turn.
            total = hdr.decode(text).total
            assert abs(total - counts[operation]) <= 2 * 2 if name == "loadgen" else total > 0
        checks = {check["name"]: check["status"] for check in run["checks"]}
        assert checks["records"] == checks["mix"] == checks["not_found"] == "passed"
    seeds = [
        finding for finding in runs["ycsb"]["uncontrolled"] if finding["code"] == "unseeded-driver"
    ]
    assert len(seeds) == 1
    assert loaded.settled() == []


def test_a_client_that_is_killed_fails_the_run(loaded):
    process = loaded.start(*OFFICIAL, "--workload", "a", *LONG, "--retries", "0")
    os.kill(loaded.driving(process, CLIENT).pid, 9)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, out + err
    assert "was killed by signal 9" in err
    assert "Traceback" not in err
    assert loaded.settled() == []
