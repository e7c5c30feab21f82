"""YCSB through the command: our client, the official one, RocksDB inside the client."""

import json
import os

import pytest
from run_values import uncontrolled, values, waits_add_up

from harness import hdr
from harness.units import parse_size

RUN = ("run", "ycsb", "--placement", "ssd-both")
SMALL = ("--records", "2000", "--threads", "2", "--ramp-up", "1s")


@pytest.mark.parametrize("engine", ["postgres", "rocksdb"])
def test_a_run_gives_rates_latencies_and_records_that_are_all_there(loaded, engine):
    run = loaded(*RUN, *SMALL, "--engine", engine, "--workload", "f",
                 "--ramp-up", "0s", "--duration", "2s", "--json").run  # fmt: skip
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
    assert sum(second["count"] for second in over_time if second) == sum(counts.values())
    assert set(values(run, "operation_not_found_count", "operation").values()) == {0}
    waits_add_up(run, "operation_duration_ns")
    names = {metric["name"] for metric in run["metrics"]}
    cpu = {name for name in names if name.endswith("_cpu_per_operation_ns")}
    if engine == "rocksdb":
        assert cpu == {"process_cpu_per_operation_ns"}
        assert values(run, "window_rocksdb_number_keys_read_count") > 0
    else:  # the server's is left out below 100 ms
        assert cpu - {"server_cpu_per_operation_ns"} == {"client_cpu_per_operation_ns"}
    assert {c["name"]: c["status"] for c in run["checks"]} == dict.fromkeys(
        ("records", "mix", "not_found"), "passed"
    )
    assert loaded.settled() == []


def test_a_rate_is_offered_and_kept_apart_from_what_was_done(loaded):
    run = loaded(*RUN, *SMALL, "--engine", "postgres", "--workload", "c", "--duration", "2s",
                 "--rate", "50", "-p", "clients=2", "--json").run  # fmt: skip
    assert values(run, "offered_operations_per_second") == pytest.approx(50, rel=0.05)
    assert "closed-loop" not in uncontrolled(run)


def test_a_latency_target_is_searched_on_one_dataset_and_the_report_begins_with_it(loaded):
    """A device that takes 2 ms for the sync of each update misses 1 ms at every rate."""
    given = (
        "run", "ycsb", "--engine", "rocksdb", "--set", "sync=true", "--placement", "slow-both",
        "--model", "slow=latency:2ms", "--records", "500", "--threads", "1", "--ramp-up", "0s",
        "-p", "readproportion=0", "-p", "updateproportion=1", "--target", "p50=1ms",
    )  # fmt: skip
    listed = loaded(*given, "--dry-run", "--json").document["plan"]
    assert len(listed) == 1
    document = loaded(*given, "--duration", "1s", "--json").document
    (answer,) = document["answers"]
    (arm,) = answer["arms"]
    assert (arm["outcome"], arm["load"], arm["low"]) == ("missed", None, None)
    # Four; a load that the noise leaves in doubt is measured again.
    assert arm["windows"] == len(document["runs"]) >= 4
    assert answer["target"] == {
        "statistic": "50", "limit_ns": 1_000_000, "parameter": "rate", "operation": "update",
    }  # fmt: skip
    experiments = [run["experiment"] for run in document["runs"]]
    assert all(experiment == experiments[0] for experiment in experiments)
    out = loaded.root / "page"
    assert loaded("report", "-e", "target", "--out", str(out)).code == 0
    assert answer["sentence"].partition(" (")[0] in (out / "report.md").read_text()
    assert (out / "figures" / "target-1.svg").exists()


# The official YCSB client through the command -------------------------------------


BOTH = ("run", "ycsb", "--engine", "rocksdb", "--records", "2000", "--threads", "2")
OFFICIAL = (*BOTH, "--driver", "ycsb", "--placement", "ssd-both")
LONG = ("--rate", "500", "--ramp-up", "60s", "--duration", "10m")
CLIENT = b"tierbench.ycsb.Main\0-t"


def test_both_drivers_run_on_one_rocksdb_and_data_of_their_own(loaded):
    done = loaded(
        *BOTH, "--workload", "a", "--rate", "500", "--driver", "both", "--placement", "ssd-both",
        "--set", "row_cache=16M", "--ramp-up", "1s", "--duration", "5s", "--json",
    )  # fmt: skip
    runs = {run["spec"]["driver"]: run for run in done.document["runs"]}
    assert set(runs) == {"loadgen", "ycsb"}
    shown = [loaded("runs", "show", run["run_id"], "--json") for run in runs.values()]
    ours, theirs = (done.json["manifest"] for done in shown)
    assert ours["engine"]["build"] == theirs["engine"]["build"]
    for manifest in (ours, theirs):
        assert manifest["engine"]["effective_config"]["row_cache"] == str(16 << 20)
    assert ours["dataset"]["key"] != theirs["dataset"]["key"]
    for name, run in runs.items():
        assert run["status"] == "complete", name
        assert values(run, "operations_per_second") > 0
        counts = values(run, "operation_count", "operation")
        assert set(counts) == {"read", "update"}
        for operation, text in values(run, "operation_duration_ns", "operation").items():
            # The official client closes the log that counts and that of latencies in turn. Ours
            # counts what is due in the window, and times what begins in it.
            total = hdr.decode(text).total
            waiting = sum(values(run, "outstanding_count", "at").values())
            assert abs(total - counts[operation]) <= 2 * 2 + waiting or name == "ycsb"
            assert total > 0
        checks = {check["name"]: check["status"] for check in run["checks"]}
        assert checks["records"] == checks["mix"] == checks["not_found"] == "passed"
    assert "unseeded-driver" in uncontrolled(runs["ycsb"])
    assert loaded.settled() == []


def test_a_client_that_is_killed_fails_the_run(loaded):
    process = loaded.start(*OFFICIAL, "--workload", "a", *LONG, "--retries", "0")
    os.kill(loaded.driving(process, CLIENT).pid, 9)
    done = loaded.ended(process)
    assert done.code == 1, done.out + done.err
    assert "signal 9" in done.err and "Traceback" not in done.err
    assert loaded.settled() == []


# What goes wrong under an engine inside its client --------------------------------


ROCKSDB = ["run", "ycsb", "--engine", "rocksdb", "--records", "20000", "--threads", "2",
           "-p", "ramp_up=0s"]  # fmt: skip
SHORT = [*ROCKSDB, "--workload", "a", "--operations", "2000"]


def test_limits_and_processors_hold_the_client_that_has_the_engine_inside(harness):
    run = harness(*SHORT, "--placement", "ssd-data-pmem-wal", "--emulate", "pmem", "--cpus", "0",
                  "--memory-limit", "512MiB", "--json").run  # fmt: skip
    checks = {check["name"]: check["status"] for check in run["checks"]}
    assert checks["cpu-affinity"] == "passed" and checks["records"] == "passed"
    assert 0 < values(run, "memory_cap_peak_bytes") <= parse_size("512MiB")
    assert run["spec"]["placement"]["name"] == "ssd-data-pmem-wal"
    assert harness.settled() == []


def test_what_an_options_file_says_is_recorded_and_decides_which_data_are_used(harness):
    options = harness.root / "OPTIONS"
    argv = [*SHORT, "--placement", "ssd-both", "--option", f"options_file={options}", "--json"]
    datasets = []
    for block_size in ("4096", "16384"):
        options.write_text(
            "[DBOptions]\n  max_background_jobs=3\n"
            f'[TableOptions/BlockBasedTable "default"]\n  block_size={block_size}\n'
        )
        run_id = harness(*argv, "--set", "write_buffer_size=8M").run["run_id"]
        manifest = harness("runs", "show", run_id, "--json").json["manifest"]
        settings, ran_with = (manifest["engine"][name] for name in ("settings", "effective_config"))
        assert settings["max_background_jobs"] == ran_with["max_background_jobs"] == "3"
        assert ran_with["block_size"] == block_size
        assert ran_with["write_buffer_size"] == str(8 << 20)
        datasets.append(manifest["dataset"]["key"])
    assert datasets[0] != datasets[1]
