"""What is printed of a run of microbenchmarks, and of what one would do: read off its table."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cli.micro_table import print_figures
from harness.micro.fio_result import histogram
from harness.store.result import Metric

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


def metric(name: str, ns: int, **labels: str) -> Metric:
    """All of whose times are ``ns``."""
    return Metric(name, "ns", "lower", labels, hdr=histogram({str(ns): 9}).encode())


def shown(*metrics: Metric) -> None:
    print_figures(metrics)


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


def test_a_tail_that_too_few_operations_have_is_not_told(capsys: Any) -> None:
    for count in (999, 1000):
        encoded = histogram({"90": count - 1, "700": 1}).encode()
        shown(replace(metric("operation_duration_ns", 0, configuration="c"), hdr=encoded))
    few, enough = (line.rstrip() for line in capsys.readouterr().out.splitlines()[1::2])
    assert few.endswith("90 ns, —, 700 ns") and enough.endswith("90 ns, 90 ns, 700 ns")


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
    done = loaded("run", "micro", "--suite", fio_suite, "--tier", "ssd", "-q", "-p", "duration=1s")
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
    dry = ("run", "micro", "--suite", "ioping", "--tier", "ssd", "--dry-run", "-q")
    done = loaded(*dry, "-p", "only=*random*", "-p", "requests=50")
    assert done.code == 0, done.err
    title, _, rows = re.split(r"^(configuration .*)\n", done.out, flags=re.MULTILINE)
    words = " ".join(title.split())
    assert "by ioping: 2 configurations × 1 and the writing of files of 256 MiB" in words
    assert [line.split() for line in rows.splitlines()] == [
        [f"ioping/operation={name},pattern=random", "1", "256", "MiB", "50", "operations"]
        for name in ("read", "write")
    ]


def test_suites_of_other_programs_are_shown_like_ours(loaded: Any, fio_suite: Any) -> None:
    lines = loaded("micro", "show", fio_suite).out.splitlines()
    assert [line.split("/")[0] for line in lines[2:]] == ["wal", "wal", "read"]
    (block,) = (
        one for one in loaded("micro", "suites", "--json").json["suites"]
        if one["name"] == "block-io"
    )  # fmt: skip
    assert (block["program"], block["configurations"]) == ("fio", 34)


@pytest.mark.parametrize("suite", ["ioping", "block-io"])
def test_a_tier_without_files_is_refused_beforehand(loaded: Any, suite: str) -> None:
    done = loaded("run", "micro", "--suite", suite, "--tier", "dram", "--dry-run")
    assert done.code == 2, done.out
    assert "a numa has no files" in done.err and "a tier that is a directory" in done.err


@pytest.mark.parametrize(("suite", "key"), [("ioping", "working_set"), ("file-io", "size")])
def test_a_file_that_does_not_fit_is_refused_beforehand(loaded: Any, suite: str, key: str) -> None:
    stored = sorted(loaded.results.glob("runs/*"))
    done = loaded("run", "micro", "--suite", suite, "--tier", "ssd", "-p", f"{key}=100TiB")
    assert done.code == 2, done.out
    assert f"-p {key}=" in done.err and "95% of that may go" in done.err
    assert sorted(loaded.results.glob("runs/*")) == stored


def test_only_names_measurements_of_fio_too(loaded: Any, fio_suite: Any) -> None:
    run = ("run", "micro", "--suite", fio_suite, "--tier", "ssd", "--dry-run", "--json", "-q")
    (plan,) = loaded(*run, "-p", "only=wal/*fdatasync*,read").json["plan"]
    assert [one.split("/")[0] for one in plan["configurations"]] == ["wal", "read"]
    for name in plan["configurations"]:  # as it is printed
        assert loaded(*run, "-p", f"only={name}").json["plan"][0]["configurations"] == [name]
    done = loaded(*run, "-p", "only=nothing")
    assert done.code == 2 and "its measurements: wal, read" in done.err


def test_a_users_directory_is_left_as_it_was(loaded: Any, fio_suite: Any) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        theirs = Path(name)
        theirs.chmod(0o755)
        (theirs / "notes.txt").write_text("mine")
        where = ("--tier", "pmem", "--emulate", f"pmem={name}")
        done = loaded("run", "micro", "--suite", fio_suite, *where, "-p", "only=read", "-q",
                      "-p", "duration=1s")  # fmt: skip
        assert done.code == 0, done.err
        assert [path.name for path in theirs.iterdir()] == ["notes.txt"]
