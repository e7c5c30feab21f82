"""Engines on devices that are not there, through the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

YCSB = ("run", "ycsb", "--records", "2000", "--threads", "1", "--ramp-up", "0s", "--workload", "a",
        "--engine", "rocksdb", "--set", "sync=true", "--json")  # fmt: skip


def operations(loaded, run):
    (stored,) = loaded.root.rglob(f"{run['run_id']}/artifacts/io-operations.json")
    return {(one["part"], one["operation"]): one for one in json.loads(stored.read_text())}


def test_syncs_of_a_modelled_log_take_the_device_s_time(loaded):
    run = loaded(*YCSB, "--operations", "200", "--placement", "ssd-data-fast-wal",
                 "--model", "fast=latency:2ms").run  # fmt: skip
    assert (run["status"], run["modelled"]) == ("complete", ["fast: latency:2ms"])
    syncs = operations(loaded, run)["wal", "sync"]
    assert syncs["modelled"] == syncs["calls"] > 50
    assert syncs["due_ns"]["p50"] == pytest.approx(2_000_000, rel=0.01)
    assert syncs["achieved_ns"]["p1"] >= 1_980_000
    others = [one for one in operations(loaded, run).values() if one["part"] != "wal"]
    assert not any(one["modelled"] for one in others)


def test_a_device_of_no_latency_waits_nowhere(loaded):
    run = loaded(*YCSB, "--operations", "200", "--placement", "fast-both",
                 "--model", "fast=zero").run  # fmt: skip
    assert run["modelled"] == ["fast: zero"]
    assert not any(one["modelled"] for one in operations(loaded, run).values())


@pytest.mark.parametrize(
    "options",
    [
        ("--placement", "fast-both"),  # no such tier
        ("--placement", "fast-both", "--model", "fast=nothing"),
        ("--placement", "fast-both", "--model", "fast=sata-860-qvo"),  # states no syncs
        ("--placement", "fast-both", "--model", "fast=zero", "--no-monitor", "io"),
        ("--placement", "fast-both", "--model", "fast=latency:1ms", "--set",
         "allow_mmap_reads=true"),
        ("--placement", "ssd-both", "--model", "ssd=zero"),  # a real tier has that name
        ("--placement", "fast-both", "--model", "fast"),
    ],
)  # fmt: skip
def test_what_cannot_take_a_device_s_time_is_refused_before_anything_is_loaded(loaded, options):
    assert loaded(*YCSB, "--operations", "10", *options).code == 2


@pytest.mark.parametrize(
    ("engine", "placement", "setting"),
    [
        ("mysql", "fast-both", "innodb_use_native_aio=ON"),
        ("mariadb", "ssd-data-fast-wal", "innodb_use_native_aio=OFF"),
    ],
)
def test_asynchronous_and_mapped_files_are_refused(loaded, engine, placement, setting):
    done = loaded("run", "ycsb", "--workload", "a", "--engine", engine, "--set", setting,
                  "--placement", placement, "--model", "fast=latency:1ms", "--dry-run")  # fmt: skip
    assert done.code == 2


@pytest.mark.parametrize(
    "command",
    [
        ("run", "micro", "--suite", "canary", "--tier", "fast", "--dry-run"),
        ("model", "make", "a-model", "--tier", "fast", "--dry-run"),
        ("model", "verify", "zero", "--tier", "fast", "--case", "ycsb rocksdb", "--dry-run"),
        ("curve", "ycsb", "--engine", "rocksdb", "--from", "fast", "--dry-run"),
    ],
)
def test_only_engines_run_on_a_modelled_tier(loaded, command):
    file = loaded.root / "modelled.yml"
    file.write_text(
        "schema: 1\ntiers:\n  fast: {kind: modelled, model: zero, on: /dev/shm}\n"
        "  base: {kind: tmpfs, path: /dev/shm}\n"
    )
    done = loaded(*command, "--host", file)
    assert done.code == 2 and "base" in done.err and "model show zero" in done.err


def test_a_model_is_made_of_a_tier_and_scored_against_it(loaded):
    small = ("-p", "duration=50ms", "-p", "size=16MiB", "--repeats", "1")
    assert loaded("model", "make", "a-disk", "--tier", "ssd", "--dry-run", "--json").json["plan"]
    made = loaded("model", "make", "a-disk", "--tier", "ssd", *small, "--json").json
    assert made["model"]["missing"] == []
    assert loaded("model", "make", "a-disk", "--tier", "ssd", *small).code == 2  # it exists
    case = "ycsb rocksdb workload=a records=2000 operations=200 sync=true"
    cases = ("--case", case, "--case", case.replace("200", "100"), "--dry-run", "--json")
    planned = loaded("model", "verify", "a-disk", "--tier", "ssd", *cases).json["plan"]
    assert len(planned) == 2 * 2 * 3  # sides and blocks of both cases
    scored = loaded("model", "verify", "a-disk", "--tier", "ssd", "--case", case, "--repeats", "1",
                    "--json").json["scores"]  # fmt: skip
    assert [one["metrics"][0]["name"] for one in scored] == ["throughput"]
    listed = {one["name"]: one for one in loaded("model", "list", "--json").json["models"]}
    shown = loaded("model", "show", "a-disk", "--json").json["model"]
    assert listed["a-disk"]["scores"] == shown["scores"] == scored


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        (("--part", "data"), 3 * 7),
        (("--parts", "wal,data"), 3 * 13),
        (("--parts", "wal,log"), None),
        (("--part", "memory"), None),
        (("--part", "wal", "--parts", "data"), None),
    ],
)
def test_a_curve_of_each_part_is_planned(loaded, options, runs):
    done = loaded("curve", *YCSB[1:], *options, "--dry-run")
    assert done.json["runs"] == runs if runs else done.code == 2


def test_a_response_curve_has_today_s_device_and_none_at_all(loaded):
    out = loaded.root / "curve"
    command = ("curve", *YCSB[1:], "--operations", "200", "--repeats", "1", "--out")
    planned = loaded(*command, out, "--dry-run").json
    (loaded.root / "file").touch()
    assert loaded(*command, loaded.root / "file").code == 2  # before anything is run
    found = loaded(*command, out).json
    measured = {run for point in (*found["points"], found["today"]) for run in point["runs"]}
    assert len(measured) == planned["runs"]
    latencies = [point["latency_ns"] for point in found["points"]]
    assert latencies[0] == 0 and latencies == sorted(latencies)
    assert latencies[-1] == found["today"]["latency_ns"]
    assert all(point["throughput"]["value"] > 0 for point in found["points"])
    assert found["ceiling"] == found["points"][0]["gain"]
    assert {"today", "models", "diminishing_at_ns"} <= found.keys()
    assert Path(found["chart"]) == out / "curve.svg" and (out / "curve.png").exists()
    # They end after that number of operations, not after a curve's default duration.
    (stored,) = loaded.root.rglob(f"{found['points'][0]['runs'][0]}/run.json")
    params = json.loads(stored.read_text())["spec"]["params"]
    assert (params["operations"], params["duration"]) == (200, None)
