"""YCSB through the command, on real engines: what it gives, what it refuses, how it fails."""

from __future__ import annotations

import json

import pytest
from run_values import uncontrolled, values, waits_add_up

from harness import hdr

RUN = ("run", "ycsb", "--placement", "ssd-both")
SMALL = ("--records", "2000", "--threads", "2", "--ramp-up", "1s")


@pytest.mark.parametrize("engine", ["postgres", "rocksdb"])
def test_a_run_gives_rates_latencies_and_records_that_are_all_there(loaded, engine):
    run = loaded(*RUN, *SMALL, "--engine", engine, "--workload", "f", "--duration", "2s",
                 "--json").run  # fmt: skip
    assert (run["status"], run["spec"]["driver"]) == ("complete", "loadgen")
    assert run["spec"]["params"]["workload"] == "f"
    counts = values(run, "operation_count", "operation")
    assert set(counts) == {"read", "read_modify_write"}
    assert all(counts.values())
    window_ns = values(run, "window_duration_ns")
    assert values(run, "operations_per_second") == sum(counts.values()) * 1e9 / window_ns
    for name, text in values(run, "operation_duration_ns", "operation").items():
        assert abs(hdr.decode(text).total - counts[name]) <= 2 * 2
    stored = loaded.results / "runs" / run["run_id"] / "artifacts" / "latencies.json"
    (points,) = json.loads(stored.read_text()).values()
    over_time = [point["operations"].get(name) for point in points for name in counts]
    assert sum(one["count"] for one in over_time if one) == sum(counts.values())
    assert set(values(run, "operation_not_found_count", "operation").values()) == {0}
    waits_add_up(run, "operation_duration_ns")
    names = {metric["name"] for metric in run["metrics"]}
    cpu = {name for name in names if name.endswith("_cpu_per_operation_ns")}
    if engine == "rocksdb":
        assert cpu == {"process_cpu_per_operation_ns"}
        # A read-modify-write reads, and the engine's own change of the record does once more.
        assert values(run, "window_rocksdb_number_keys_read_count") >= sum(counts.values())
    else:
        assert cpu == {"client_cpu_per_operation_ns", "server_cpu_per_operation_ns"}
    assert {c["name"]: c["status"] for c in run["checks"]} == dict.fromkeys(
        ("records", "mix", "not_found"), "passed"
    )
    assert loaded.settled() == []


def test_a_rate_is_offered_and_kept_apart_from_what_was_done(loaded):
    run = loaded(*RUN, *SMALL, "--engine", "postgres", "--workload", "c", "--operations", "100",
                 "--rate", "50", "-p", "clients=2", "--json").run  # fmt: skip
    assert values(run, "offered_operations_per_second") == pytest.approx(50, rel=0.05)
    assert "closed-loop" not in uncontrolled(run)
