"""What an earlier attempt measured is joined only with what was measured on the same memory."""

from __future__ import annotations

from typing import Any

import pytest
from micro_suites import RANDOM, capacity, overrides, suite

from harness.errors import RunFailed
from harness.micro.native import UnderWay
from harness.micro.scaling import scale

SPEC = {"targets": {"dram": {"kind": "dram", "node": 0}}}


def result(name: str, huge_bytes: int, node: str = "0") -> dict[str, Any]:
    target = {"kind": "dram", "pages": "huge", "size_bytes": 100, "huge_bytes": huge_bytes,
              "map_sync": None, "nodes": {node: 9}}  # fmt: skip
    return {"measurements": [{"name": name}], "targets": {"dram": target}}


class Work:
    """A workplace that notes finished steps."""

    repeats = 2
    media = None

    def __init__(self) -> None:
        self.steps: list[str] = []

    def finish(self, name: str, document: Any) -> None:
        self.steps.append(name)


def under_way(work: Work, **kept: dict[str, Any]) -> UnderWay:
    scaled = scale(suite(f"  m: {{{RANDOM}}}"), capacity(), overrides())
    nothing: Any = None
    workplace: Any = work
    return UnderWay(scaled, SPEC, workplace, nothing, dict(kept))


def test_results_of_the_same_memory_are_stored() -> None:
    work = Work()
    found = under_way(work, first=result("first", 100))
    found.receive("measured", result("second", 99))
    assert work.steps == ["second"] and list(found.results) == ["first", "second"]


@pytest.mark.parametrize("other", [result("second", 0), result("second", 100, node="1")])
def test_other_pages_or_nodes_end_the_run(other: dict[str, Any]) -> None:
    work = Work()
    with pytest.raises(RunFailed, match="resume"):
        under_way(work, first=result("first", 100)).receive("measured", other)
    assert work.steps == []
