"""What the program cannot measure is refused before a run is begun, in its words, by its name."""

from __future__ import annotations

from typing import Any

import pytest

SUITE = """
schema: 1
name: mine
description: d
defaults: {duration: 20ms, warm_up: 0s}
measurements:
  good: {args: {kernel: load, access: 64, pattern: random, range: 1MiB}}
  bad: {args: {%s}}
"""


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ("kind: page, method: cow, page: 16KiB, dirty_lines: 2, range: 32KiB", "spare"),
        ("kind: log, writer: classic, entry: 64KiB, range: 64KiB", "one entry needs"),
        ("kind: log, writer: classic, entry: 1KiB, range: 4KiB, threads: 2", "one entry needs"),
        ("kind: chain, mode: dependent, chain: r_4096, range: 1KiB", "4096"),
        ("kind: chain, mode: independent, chain: 'rd_64,wd_64_cache', range: 1MiB", "second"),
    ],
)
@pytest.mark.parametrize("dry", [True, False])
def test_it_ends_before_it_begins(harness: Any, args: str, found: str, dry: bool) -> None:
    file = harness.root / "mine.yml"
    file.write_text(SUITE % args)
    how = ("--dry-run",) if dry else ()
    done = harness("run", "micro", "--suite", file, "--tier", "dram", *how)
    assert done.code == 2, done.out + done.err
    assert f"{file}:8, bad: " in done.err and found in done.err, done.err
    assert "docs/microbench.md" in done.err
    assert not list(harness.results.glob("runs/*"))
