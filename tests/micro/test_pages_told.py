"""What pages a target really lies on: the label of its figures, and what is told where it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from harness.micro.metrics import pages_of
from harness.micro.result_warnings import warnings_of

MIB = 1 << 20


def target(kind: str, huge_bytes: int | None, **more: Any) -> dict[str, Any]:
    asked = {"pages": "huge" if kind == "dram" else None, "map_sync": None}
    return {"kind": kind, "size_bytes": 8 * MIB, "huge_bytes": huge_bytes, **asked, **more}


@pytest.mark.parametrize(
    ("told", "label"),
    [
        (target("dram", 8 * MIB), "huge"),
        (target("dram", 8 * MIB, pages="1g"), "1g"),
        (target("dram", None), "dram"),
        (target("file", 8 * MIB, map_sync=True), "huge"),
        (target("file", 4 * MIB, map_sync=True), "mixed"),
        (target("file", 0, map_sync=True), "base"),
        (target("file", None, map_sync=True), "file"),
        (target("file", 8 * MIB, map_sync=False), "file"),  # the page cache's, of a tmpfs say
        (target("devdax", 8 * MIB), "huge"),
        (target("devdax", 0), "base"),
        (target("devdax", None), "devdax"),
    ],
)
def test_the_label_is_what_was_had(told: dict[str, Any], label: str) -> None:
    assert pages_of(told) == label


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (target("file", 4 * MIB, map_sync=True), "4 MiB of 8 MiB are mapped by pages of 2 MiB"),
        (target("devdax", 0), "0 B of 8 MiB are mapped by pages of 2 MiB"),
        (target("dram", 0), "0 B of 8 MiB lie on huge pages"),
        (target("file", 8 * MIB, map_sync=True), None),
        (target("file", 0, map_sync=False), None),
        (target("file", None, map_sync=True), None),
    ],
)
def test_small_pages_are_told(told: dict[str, Any], words: str | None) -> None:
    result = {
        "cpu": {"stamp_step_ns": 0.4},
        "targets": {"tier_base": told},
        "measurements": [],
        "notes": [],
    }
    found = [finding.context for finding in warnings_of([], result, 1)]
    assert found == ([words] if words else [])
