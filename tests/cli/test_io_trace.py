"""Observations of real engines: the I/O trace, modelled devices, observers."""

import json
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
from run_values import uncontrolled

from harness import hdr

YCSB = ("run", "ycsb", "--records", "2000", "--threads", "2", "--ramp-up", "1s", "--duration", "5s")


def labelled(run, name: str) -> dict[tuple[str, ...], Any]:
    """A metric by the values of its labels."""
    return {
        tuple(text for _, text in sorted(metric["labels"].items(), key=_order)): (
            metric.get("value", metric.get("hdr"))
        )
        for metric in run["metrics"]
        if metric["name"] == name
    }


def _order(label: tuple[str, str]) -> int:
    return ("part", "operation", "role").index(label[0])


def operations(loaded, run) -> list[Any]:
    (stored,) = loaded.root.rglob(f"{run['run_id']}/artifacts/io-operations.json")
    entries: list[Any] = json.loads(stored.read_text())
    return entries


@pytest.mark.parametrize(
    ("engine", "setting"),
    [
        ("postgres", "autovacuum=on"),
        ("rocksdb", "write_buffer_size=65536"),
        ("mysql", "innodb_use_native_aio=OFF"),
        ("mysql", "innodb_use_native_aio=ON"),
        ("mariadb", "innodb_linux_aio=io_uring"),
    ],
)
def test_data_and_log_of_a_window_are_seen(loaded, engine, setting):
    # Of MariaDB's bytes a few are not traced: so few that a busy server has 1 % of them.
    rate = () if engine == "mariadb" else ("--rate", "300")
    # MySQL makes its buffer pool, by default a large one, at each start.
    run = loaded(*YCSB, "--workload", "a", "--engine", engine, "--set", setting, *rate,
                 "--memory-limit", "512MiB", "--placement", "ssd-both", "--json").run  # fmt: skip
    assert ("wal",) in labelled(run, "io_trace_coverage_share")
    assert "io-trace-incomplete" not in uncontrolled(run)
    traced = operations(loaded, run)
    timed = {(o["part"], o["operation"], o["role"]): o["timed"] for o in traced}
    role = "unknown" if engine == "mariadb" else "foreground"
    assert timed["wal", "write", role] > 0
    for entry in traced:
        if entry["part"] == "data" and entry["submitted"]:
            ends_seen = setting != "innodb_linux_aio=io_uring"
            assert (entry["timed"] > entry["calls"] / 2) == ends_seen
            assert (entry["queued"] is not None) == ends_seen
    assert hdr.decode(labelled(run, "io_duration_ns")["wal", "write", role]).total > 0
    # Not the same number: calls end between the readings, which a busy host delays.
    window = labelled(run, "window_io_bytes")
    assert window["wal", "write"] == pytest.approx(
        sum(labelled(run, "io_bytes").get(("wal", "write", role), 0)
            for role in ("foreground", "background", "unknown")), rel=0.5
    )  # fmt: skip


def test_data_read_by_queries_are_seen(loaded):
    run = loaded("run", "tpch", "--engine", "duckdb", "--placement", "ssd-both", "--scale", "0.01",
                 "--queries", "1,6", "--json").run  # fmt: skip
    assert labelled(run, "io_trace_coverage_share")["data",] >= 0.99
    assert labelled(run, "io_bytes")["data", "read", "foreground"] > 0
    queries = {m["labels"]["query"] for m in run["metrics"] if m["name"] == "query_io_bytes"}
    assert queries == {"1", "6"}


def test_a_planted_delay_is_in_the_histogram_and_marked(loaded):
    argv = (*YCSB, "--workload", "a", "--engine", "rocksdb", "--set", "sync=true", "--json",
            "--placement", "ssd-both", "--rate", "300", "--name", "planted")  # fmt: skip
    run = loaded(*argv, "--plant", "wal.sync=+20ms", "--plant", "wal.read=+1us").run
    assert run["spec"]["plant"] == ["wal.sync=+20000us", "wal.read=+1us"]
    assert "-PLANTED-" in run["run_id"]
    # A database that is open does not read its log.
    assert "planted-delay-unused" in uncontrolled(run)
    syncs = hdr.decode(labelled(run, "io_duration_ns")["wal", "sync", "foreground"])
    assert syncs.percentile(0) >= 20_000_000
    other = loaded(*argv).run
    arms = ("experiment=planted", run["run_id"])
    # A has no planted run, or it would be in both.
    sides = json.dumps(loaded("compare", *arms, "--anyway", "--json").document)
    assert other["run_id"] in sides and "PLANTED wal.sync=+20000us" in sides


# Engines on devices that are not there, through the command -----------------------


SYNCED = ("run", "ycsb", "--records", "2000", "--threads", "1", "--ramp-up", "0s",
          "--workload", "a", "--engine", "rocksdb", "--set", "sync=true", "--json")  # fmt: skip


def test_syncs_of_a_modelled_log_take_the_device_s_time(loaded):
    run = loaded(*SYNCED, "--operations", "200", "--placement", "ssd-data-fast-wal",
                 "--model", "fast=latency:20ms").run  # fmt: skip
    assert (run["status"], run["modelled"]) == ("complete", ["fast: latency:20ms"])
    traced = {(entry["part"], entry["operation"]): entry for entry in operations(loaded, run)}
    syncs = traced["wal", "sync"]
    assert syncs["modelled"] == syncs["calls"] > 0
    assert syncs["due_ns"]["p50"] == pytest.approx(20_000_000, rel=0.01)
    assert syncs["achieved_ns"]["p1"] >= 19_800_000
    assert not any(entry["modelled"] for entry in traced.values() if entry["part"] != "wal")


def test_a_device_of_no_latency_waits_nowhere(loaded):
    run = loaded(*SYNCED, "--operations", "200", "--placement", "fast-both",
                 "--model", "fast=zero").run  # fmt: skip
    assert run["modelled"] == ["fast: zero"]
    assert not any(entry["modelled"] for entry in operations(loaded, run))


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
    assert loaded(*SYNCED, "--operations", "10", *options).code == 2


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
    small = ("-p", "duration=50ms", "-p", "range=16MiB", "--repeats", "1")
    assert loaded("model", "make", "a-disk", "--tier", "ssd", "--dry-run", "--json").json["plan"]
    for _ in range(5):  # a thread may stand still for all of a measurement
        made = loaded("model", "make", "a-disk", "--tier", "ssd", *small, "--json")
        if made.code == 0:
            break
    assert made.document["model"]["missing"] == []
    assert loaded("model", "make", "a-disk", "--tier", "ssd", *small).code == 2  # it exists
    case = "ycsb rocksdb workload=a records=2000 operations=200 sync=true"
    cases = ("--case", case, "--case", case.replace("200", "100"), "--dry-run", "--json")
    planned = loaded("model", "verify", "a-disk", "--tier", "ssd", *cases).json["plan"]
    assert len(planned) == 2 * 2 * 3  # sides and blocks of both cases
    done = loaded("model", "verify", "a-disk", "--tier", "ssd", "--case", case, "--repeats", "1",
                  "--json")  # fmt: skip
    (score,) = done.json["scores"]
    # Other work on this host refuses its only block, after three attempts.
    names = [metric["name"] for metric in score["metrics"]]
    assert (score["pairs"], names[:1]) == ((1, ["throughput"]) if done.code == 0 else (0, []))
    assert bool(score["refused"]) == (done.code == 1)
    listed = {model["name"]: model for model in loaded("model", "list", "--json").json["models"]}
    shown = loaded("model", "show", "a-disk", "--json").json["model"]
    assert listed["a-disk"]["scores"] == shown["scores"] == [score]


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
    done = loaded("curve", *SYNCED[1:], *options, "--dry-run")
    assert done.json["runs"] == runs if runs else done.code == 2


def test_a_response_curve_has_today_s_device_and_none_at_all(loaded):
    out = loaded.root / "curve"
    # At a rate: the window is long against the time in which a busy host begins to count.
    rate = ("--operations", "40", "--rate", "20")
    command = ("curve", *SYNCED[1:], *rate, "--repeats", "1", "--out")
    planned = loaded(*command, out, "--dry-run").json
    (loaded.root / "file").touch()
    assert loaded(*command, loaded.root / "file").code == 2  # before anything is run
    curve = loaded(*command, out).json
    measured = {run for point in (*curve["points"], curve["today"]) for run in point["runs"]}
    assert len(measured) == planned["runs"]
    latencies = [point["latency_ns"] for point in curve["points"]]
    assert latencies[0] == 0 and latencies == sorted(latencies)
    assert latencies[-1] == curve["today"]["latency_ns"]
    assert all(point["throughput"]["value"] > 0 for point in curve["points"])
    assert curve["ceiling"] == curve["points"][0]["gain"]
    (answer,) = curve["answers"]
    assert answer["question"] and answer["sentence"] and answer["reasons"]
    assert answer["value"] == curve["ceiling"]
    assert {"today", "models", "diminishing_at_ns"} <= curve.keys()
    assert Path(curve["chart"]) == out / "curve.svg" and (out / "curve.png").exists()
    # They end after that number of operations, not after a curve's default duration.
    (stored,) = loaded.root.rglob(f"{curve['points'][0]['runs'][0]}/run.json")
    params = json.loads(stored.read_text())["spec"]["params"]
    assert (params["operations"], params["duration"]) == (40, None)


# Second executions under an observer ----------------------------------------------


RUN = ("run", "tpch", "--engine", "duckdb", "--placement", "ssd-both", "--scale", "0.01",
       "--queries", "6", "--json")  # fmt: skip
STAND_INS = Path(__file__).parents[1] / "observers"


@pytest.fixture
def vtune(loaded: Any) -> Path:
    home = Path(tempfile.mkdtemp(dir=loaded.root))
    home.chmod(0o755)  # the servers' user runs it, too
    folder = home / "bin64"
    folder.mkdir(mode=0o755)
    shutil.copy(STAND_INS / "fake_vtune.py", folder / "vtune")
    shutil.copy(STAND_INS / "stand_in.py", folder)
    (folder / "vtune").chmod(0o755)
    return folder


def observed(loaded: Any, vtune: Path) -> Any:
    argv = (*RUN, "--again", "--observe", "vtune:memory-access")
    run = loaded(*argv, VTUNE_HOME=str(vtune.parent)).run
    assert run["status"] == "complete"
    return run


def test_a_second_execution_adds_figures_and_keeps_the_tree(loaded, vtune, tmp_path):
    run = observed(loaded, vtune)
    timed = [m for m in run["metrics"] if m["name"] == "query_duration_ns"]
    assert len(timed) == 1  # the second execution is not measured
    bound = {m["labels"]["path"]: m["value"] for m in run["metrics"] if "observed" in m["name"]}
    assert bound["Memory Bound / DRAM Bound"] == 70.7
    folder = loaded.results / "runs" / run["run_id"] / "observers/vtune-memory-access"
    assert (folder / "tree/summary.csv").exists()
    exported = tmp_path / "runs.tar.gz"
    assert loaded("runs", "export", run["run_id"], "-o", exported).code == 0
    with tarfile.open(exported) as archive:
        assert not [name for name in archive.getnames() if "observers" in name]
    assert loaded.settled() == []


def test_an_observer_that_fails_leaves_the_timed_result(loaded: Any, vtune: Path) -> None:
    (vtune / "no-rights").touch()
    run = observed(loaded, vtune)
    assert "insufficient rights" in uncontrolled(run)["observer-failed"]
    assert [m for m in run["metrics"] if m["name"] == "query_duration_ns"]


def dram_bound(run: Any) -> list[Any]:
    """The observed figure of each configuration."""
    observed = [m for m in run["metrics"] if m["name"] == "observed_value"]
    return [m for m in observed if m["labels"]["path"] == "Memory Bound / DRAM Bound"]


def test_each_configuration_of_a_suite_is_observed_alone(loaded, vtune, tmp_path):
    suite = tmp_path / "two.yml"
    suite.write_text(
        "schema: 1\nname: two\ndescription: d\ndefaults: {range: 16MiB}\n"
        "measurements: {reads: {matrix: {access: [64, 256]}, "
        "args: {kernel: load, pattern: random, count: 1000}}}\n"
    )
    argv = ("run", "micro", "--suite", suite, "--tier", "dram", "--repeats", "2", "--json")
    run = loaded(*argv, "--observe", "vtune:memory-access", VTUNE_HOME=str(vtune.parent)).run
    bound = {m["labels"]["configuration"]: m["value"] for m in dram_bound(run)}
    assert bound == {"reads/access=64": 70.7, "reads/access=256": 70.7}
    rates = [m for m in run["metrics"] if m["name"] == "bandwidth_bytes_per_second"]
    assert [len(m["samples"]) for m in rates] == [2, 2]  # of the timed execution alone
    trees = loaded.results / "runs" / run["run_id"] / "observers/vtune-memory-access"
    assert sorted(tree.name for tree in trees.iterdir()) == ["0", "1"]
    assert "observer-failed" not in uncontrolled(run)


@pytest.mark.parametrize(
    ("suite", "params", "configurations"),
    [
        ("ioping", ["requests=10", "working_set=1MiB", "only=*read*"], 2),
        ("file-io", ["size=1MiB", "duration=300ms", "only=read"], 3),
    ],
)
def test_so_is_each_of_other_programs(loaded, vtune, suite, params, configurations):
    options = [word for param in params for word in ("-p", param)]
    argv = ("run", "micro", "--suite", suite, "--tier", "ssd", *options, "--repeats", "2", "--json")
    run = loaded(*argv, "--observe", "vtune:memory-access", VTUNE_HOME=str(vtune.parent)).run
    timed = [m for m in run["metrics"] if m["name"] == "operation_mean_duration_ns"]
    assert [len(m["samples"]) for m in timed] == [2] * configurations
    for name in ("measurement", "configuration"):
        observed = sorted(m["labels"][name] for m in dram_bound(run))
        assert observed == sorted(m["labels"][name] for m in timed)
    assert "observer-failed" not in uncontrolled(run)
