"""What is printed of a run of microbenchmarks, and of what one would do: read off its table."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.cli.micro_table import print_figures
from harness.micro.fio_result import histogram

FIO = """
schema: 1
name: calls
description: d
program: fio
params:
  size: 8MiB
  duration: 50ms
  measurements:
    wal: {operation: write, pattern: sequential, access: 4KiB, sync: [fdatasync, dsync]}
    read: {operation: read, pattern: random, access: 64}
"""


@pytest.fixture
def fio_suite(loaded: Any) -> Any:
    file = loaded.root / "calls.yml"
    file.write_text(FIO)
    return file


def metric(name: str, ns: int, **labels: str) -> dict[str, Any]:
    """All of whose times are ``ns``."""
    return {"name": name, "unit": "ns", "better": "lower", "labels": labels,
            "hdr": histogram({str(ns): 9}).encode()}  # fmt: skip


def shown(*metrics: dict[str, Any]) -> None:
    print_figures({"metrics": metrics})


def test_percentiles_of_a_part_do_not_stand_under_those_of_the_whole(capsys: Any) -> None:
    of = {"configuration": "wal/sync=fdatasync", "sync": "fdatasync"}
    shown(
        metric("write_call_duration_ns", 12_000, **of),
        metric("fdatasync_duration_ns", 84_000, **of),
        metric("operation_duration_ns", 94_000, configuration="wal/sync=dsync", sync="dsync"),
    )
    head, call, sync, whole = (line.rstrip() for line in capsys.readouterr().out.splitlines())
    parts = head.index("of each call: p50, p99.9, max")
    assert call[parts:].startswith("write call 12 µs") and sync[parts:].startswith("fdatasync 84")
    at = head.rindex("p50, p99.9, max")
    assert whole[at:].startswith("94 µs") and call[at:] == sync[at:] == ""


def test_a_row_says_what_was_done_where_its_name_does_not(capsys: Any) -> None:
    shown(
        metric("operation_duration_ns", 9, configuration="wal/direct=auto", direct="yes"),
        metric("operation_duration_ns", 9, configuration="wal/direct=no", direct="no"),
        metric("operation_duration_ns", 9, configuration="ioping/operation=write",
               sync="fdatasync", direct="no"),
        metric("operation_duration_ns", 9, configuration="ioping/operation=read",
               sync="none", direct="no"),
        metric("operation_duration_ns", 9, configuration="chase"),
    )  # fmt: skip
    rows = [line.partition("  ")[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [
        "wal/direct=auto (direct=yes)",
        "wal/direct=no",
        "ioping/operation=write (sync=fdatasync, direct=no)",
        "ioping/operation=read (direct=no)",
        "chase",
    ]


def test_fios_own_run_is_printed_so(loaded: Any, fio_suite: Any) -> None:
    done = loaded("run", "micro", "--suite", fio_suite, "--tier", "ssd", "-q")
    assert done.code == 0, done.err
    (head,) = (line for line in done.out.splitlines() if line.startswith("configuration"))
    (wal,) = (line for line in done.out.splitlines() if "sync=fdatasync" in line)
    assert "of each call: p50, p99.9, max" in head
    assert "direct=auto (direct=" in wal and "write call " in wal


def test_a_dry_run_of_fio_is_a_table_with_its_time(loaded: Any, fio_suite: Any) -> None:
    dry = ("run", "micro", "--suite", fio_suite, "--tier", "ssd", "--repeats", "4", "--dry-run")
    done = loaded(*dry, "-q")
    assert done.code == 0, done.err
    title, head, table = re.split(r"^(configuration .*)\n", done.out, flags=re.MULTILINE)
    # 50 ms × 3 configurations × 4
    assert " ".join(title.split()) == (
        "calls on ssd, by fio: 3 configurations × 4, 600 ms of measuring and the writing of a "
        "file of 8 MiB; nothing is run"
    )
    assert head.split() == ["configuration", "threads", "range", "for"]
    rows = table.splitlines()
    assert [row.split("/")[0] for row in rows] == ["wal", "wal", "read"]
    assert all(row.split()[1:] == ["1", "8", "MiB", "50", "ms"] for row in rows)
    assert "{" not in done.out
    (plan,) = loaded(*dry, "--json", "-q").json["plan"]
    assert plan["measuring_s"] == 0.6
    assert plan["configurations"] == [row.split()[0] for row in rows]


def test_a_dry_run_of_ioping_says_what_it_asks_for(loaded: Any) -> None:
    done = loaded("run", "micro", "--suite", "ioping", "--tier", "ssd", "--dry-run", "-q")
    assert done.code == 0, done.err
    assert "by ioping × 1: requests 2000, access 4KiB" in done.out and "{" not in done.out
