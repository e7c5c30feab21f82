"""The I/O trace of real engines, through the command."""

from __future__ import annotations

import json
from typing import Any

import pytest

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


def codes(run) -> set[str]:
    return {warning["code"] for warning in run["uncontrolled"]}


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
    done = loaded(*YCSB, "--workload", "a", "--engine", engine, "--set", setting, *rate,
                  "--placement", "ssd-both", "--json")  # fmt: skip
    run = done.run
    coverage = labelled(run, "io_trace_coverage_share")
    assert ("wal",) in coverage
    assert all(share >= 0.99 for share in coverage.values())
    assert "io-trace-incomplete" not in codes(run)
    (stored,) = loaded.root.rglob(f"{run['run_id']}/artifacts/io-operations.json")
    operations = json.loads(stored.read_text())
    timed = {(o["part"], o["operation"], o["role"]): o["timed"] for o in operations}
    role = "unknown" if engine == "mariadb" else "foreground"
    assert timed["wal", "write", role] > 0
    for one in operations:
        if one["part"] == "data" and one["submitted"]:
            ends_seen = setting != "innodb_linux_aio=io_uring"
            assert (one["timed"] > one["calls"] / 2) == ends_seen
            assert (one["queued"] is not None) == ends_seen
    # Not the same number: calls end between the reading of counters and of durations.
    assert hdr.decode(labelled(run, "io_duration_ns")["wal", "write", role]).total > 0
    window = labelled(run, "window_io_bytes")
    assert window["wal", "write"] == pytest.approx(
        sum(labelled(run, "io_bytes").get(("wal", "write", role), 0)
            for role in ("foreground", "background", "unknown")), rel=0.05
    )  # fmt: skip


def test_data_read_by_queries_are_seen(loaded):
    done = loaded("run", "tpch", "--engine", "duckdb", "--placement", "ssd-both", "--scale", "0.01",
                  "--queries", "1,6", "--json")  # fmt: skip
    run = done.run
    assert labelled(run, "io_trace_coverage_share")["data",] >= 0.99
    assert labelled(run, "io_bytes")["data", "read", "foreground"] > 0
    queries = {m["labels"]["query"] for m in run["metrics"] if m["name"] == "query_io_bytes"}
    assert queries == {"1", "6"}


def test_a_planted_delay_is_in_the_histogram_and_marked(loaded):
    argv = (*YCSB, "--workload", "a", "--engine", "rocksdb", "--set", "sync=true", "--json",
            "--placement", "ssd-both", "--rate", "300")  # fmt: skip
    done = loaded(*argv, "--plant", "wal.sync=+20ms", "--plant", "wal.read=+1us")
    run = done.run
    assert run["spec"]["plant"] == ["wal.sync=+20000us", "wal.read=+1us"]
    assert "-PLANTED-" in run["run_id"]
    assert "planted-delay-unused" in codes(run)  # a database that is open does not read its log
    syncs = hdr.decode(labelled(run, "io_duration_ns")["wal", "sync", "foreground"])
    assert syncs.percentile(0) >= 20_000_000
    plain = loaded(*argv)
    (other,) = plain.json["runs"]
    shown = loaded(
        "compare", "engine=rocksdb,settings.sync=true", run["run_id"], "--anyway", "--json"
    )
    assert shown.code == 0, shown.err  # A has no planted run, or it would be in both
    sides = json.dumps(shown.json)
    assert other["run_id"] in sides
    assert "PLANTED wal.sync=+20000us" in sides
