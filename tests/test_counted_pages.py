"""A failed count of pages is tried again only where the kernel took pages meanwhile."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

import pytest
from counted_pages import TRIES, taken_pages, undisturbed

from harness.host.page_cache import evict


def still() -> int:
    return 7


def nobody() -> bool:
    return False


def somebody() -> bool:
    return True


def no(held: bool) -> bool:
    return not held


def test_a_failure_stands_where_no_page_was_taken() -> None:
    attempts = iter([False, True])
    assert undisturbed(lambda: next(attempts), no, still, nobody) is False


def test_a_failure_is_tried_again_where_pages_were_taken_or_may_have_been() -> None:
    clock, attempts = itertools.count(), iter([False, False, True] * 2)
    assert undisturbed(lambda: next(attempts), no, lambda: next(clock), nobody) is True
    assert undisturbed(lambda: next(attempts), no, still, somebody) is True


def test_what_fails_again_and_again_fails() -> None:
    made: list[bool] = []

    def never() -> bool:
        made.append(False)
        return False

    assert undisturbed(never, no, still, somebody) is False
    assert len(made) == TRIES


def test_a_container_s_own_reclaim_counts(tmp_path: Path) -> None:
    host, container = tmp_path / "vmstat", tmp_path / "memory.stat"
    host.write_text("nr_free_pages 900\npgsteal_kswapd 2\npgscan_direct 3\ndrop_pagecache 1\n")
    assert taken_pages((host, container)) == 6  # a host without control groups
    container.write_text("anon 4096\npgscan 10\npgsteal 20\n")
    assert taken_pages((host, container)) == 36


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.counts_pages
def test_this_kernel_says_when_its_cache_was_dropped() -> None:
    with tempfile.TemporaryDirectory(prefix="tierbench-test-", dir="/var/tmp") as folder:
        before = taken_pages()
        assert evict([Path(folder)], drop=True).dropped_all
        assert taken_pages() > before
