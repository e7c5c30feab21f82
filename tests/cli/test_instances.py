"""Several databases on one device at the same time, through the command."""

import json
import signal

import pytest
from run_values import uncontrolled, values

from harness import hdr

YCSB = ("run", "ycsb", "--placement", "ssd-both", "--records", "2000", "--threads", "2",
        "--workload", "f", "--rate", "300", "--ramp-up", "0s", "--instances", "2")  # fmt: skip
TPCC = ("run", "tpcc", "--placement", "ssd-both", "--warehouses", "1", "--users", "2",
        "--ramp-up", "0s", "--duration", "3s", "--instances", "2")  # fmt: skip


def sums_up(run, rate, noun):
    """Whether the rate is the sum, and counts and latencies are those, of both instances."""
    rates = values(run, f"instance_{rate}", "instance")
    assert set(rates) == {"1", "2"}
    assert values(run, rate) == pytest.approx(sum(rates.values()), rel=0.01)
    assert values(run, f"worst_instance_{rate}") == min(rates.values())
    share = min(rates.values()) / sum(rates.values())
    assert values(run, "worst_instance_share") == pytest.approx(share)
    for operation, text in values(run, f"{noun}_duration_ns", noun).items():
        each = [
            hdr.decode(m["hdr"]).total
            for m in run["metrics"]
            if m["name"] == f"instance_{noun}_duration_ns" and m["labels"][noun] == operation
        ]
        assert hdr.decode(text).total == sum(each)


@pytest.mark.parametrize("engine", ["rocksdb", "postgres"])
def test_two_databases_have_a_window_together_and_data_of_their_own(loaded, engine):
    done = loaded(*YCSB, "--engine", engine, "--duration", "2s", "--json")
    run = done.run
    assert run["status"] == "complete", run["checks"]
    assert run["spec"]["params"]["instances"] == 2
    sums_up(run, "operations_per_second", "operation")
    assert [(c["name"], c["labels"], c["status"]) for c in run["checks"]] == [
        (name, {"instance": number}, "passed")
        for number in "12"
        for name in ("records", "mix", "not_found")
    ]
    (answer,) = done.json["answers"]
    assert answer["sentence"].startswith("2 instances: ")
    single = loaded(*YCSB[:-2], "--engine", engine, "--duration", "1s", "--json").run
    assert "instances" not in single["spec"]["params"]
    assert run["data_bytes"] > 1.5 * single["data_bytes"]
    assert values(run, "io_trace_coverage_share", "part")
    assert "io-trace-incomplete" not in uncontrolled(run)
    assert loaded.settled() == []


def test_the_conditions_hold_in_each_database(loaded):
    run = loaded(*TPCC, "--engine", "postgres", "--rate", "100", "--json").run
    assert run["status"] == "complete", run["checks"]
    sums_up(run, "new_orders_per_minute", "transaction")
    for number in "12":
        mine = [c["name"] for c in run["checks"] if c["labels"]["instance"] == number]
        assert mine.count("consistency") == 12
        assert {"counted", "mix", "population", "remote"} <= set(mine)


def test_a_server_that_fails_fails_the_run_with_its_number(loaded):
    first = f"""
import os
from harness.drivers.result import WindowCounters

begin = WindowCounters.begin

def kill(self):
    begin(self)
    os.kill(self.session.each[1].engine.processes()[0].pid, {int(signal.SIGKILL)})

WindowCounters.begin = kill
"""
    argv = (*YCSB, "--engine", "postgres", "--duration", "9s", "--retries", "0", "--json")
    done = loaded.ended(loaded.start(*argv, first=first))
    assert done.code == 1, done.out + done.err
    (run,) = json.loads(done.out)["runs"]
    assert run["status"] == "failed"
    assert "instance 2 of 2" in run["error"]["context"]
    assert loaded.settled() == []


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((*YCSB, "--engine", "rocksdb", "--operations", "100"), "operations on 2 instances"),
        ((*YCSB, "--engine", "postgres", "-p", "client_hosts=a"), "with client_hosts a"),
        ((*YCSB, "--engine", "postgres", "--memory-limit", "100MiB"), "which 2 instances share"),
        ((*TPCC, "--engine", "postgres", "--test", "durability"), "with test durability"),
        ((*TPCC, "--engine", "postgres", "--driver", "hammerdb"), "with driver hammerdb"),
        (("run", "htap", *TPCC[2:], "--engine", "postgres"), "an option of tpcc and ycsb"),
        ((*YCSB[:2], *YCSB[4:], "--engine", "postgres", "--duration", "2s",
          "--option", "dsn=postgresql://u@127.0.0.1:1/d"), "instances of an external server"),
    ],
)  # fmt: skip
def test_what_several_instances_cannot_be_is_refused(harness, argv, words):
    assert words in harness.refused(*argv)


def test_space_is_needed_for_each(harness):
    of_two, of_one = (
        harness(*argv, "--engine", "rocksdb", "--dry-run", "--json").json["plan"][0]["needs_bytes"]
        for argv in (YCSB, YCSB[:-2])
    )
    assert of_two == {part: 2 * size for part, size in of_one.items()}
