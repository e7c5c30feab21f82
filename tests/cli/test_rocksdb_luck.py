"""What goes wrong under an engine inside its client: told with its reason, nothing left behind."""

from __future__ import annotations

import json

from harness.units import parse_size

ROCKSDB = ["run", "ycsb", "--engine", "rocksdb", "--records", "20000", "--threads", "2",
           "-p", "ramp_up=0s"]  # fmt: skip
SHORT = [*ROCKSDB, "--workload", "a", "--operations", "2000"]


def test_limits_and_processors_hold_the_client_that_has_the_engine_inside(harness):
    done = harness(
        *SHORT, "--placement", "ssd-data-pmem-wal", "--emulate", "pmem", "--cpus", "0",
        "--memory-limit", "512MiB", "--json",
    )  # fmt: skip
    run = done.run
    checks = {check["name"]: check["status"] for check in run["checks"]}
    assert checks["cpu-affinity"] == "passed" and checks["records"] == "passed"
    peak = next(m["value"] for m in run["metrics"] if m["name"] == "memory_cap_peak_bytes")
    assert 0 < peak <= parse_size("512MiB")
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
        done = harness(*argv, "--set", "write_buffer_size=8M")
        assert done.code == 0, done.err
        run_id = done.json["runs"][0]["run_id"]
        manifest = json.loads((harness.results / "runs" / run_id / "manifest.json").read_text())
        settings, ran_with = (manifest["engine"][name] for name in ("settings", "effective_config"))
        assert settings["max_background_jobs"] == ran_with["max_background_jobs"] == "3"
        assert ran_with["block_size"] == block_size
        assert ran_with["write_buffer_size"] == str(8 << 20)
        datasets.append(manifest["dataset"]["key"])
    assert datasets[0] != datasets[1]
