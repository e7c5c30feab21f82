"""Numbers in words: units, resolutions and what one repeat cannot say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_runs import Case, write

from reports.report import write_report
from reports.words import quantity_text


@pytest.mark.parametrize(
    ("value", "unit", "resolution", "text"),
    [
        (2_650_000, "B", 0, "2.53 MiB"),
        (2_650_000, "bytes", 0, "2.53 MiB"),
        (0, "B", 0, "0 B"),
        (12_345, "1", 0, "12,345"),
        (2.5, "1", 0, "2.50"),
        (0, "ns", 1e7, "< 10 ms"),
        (1e7, "ns", 1e7, "10 ms"),
        (0, "ns", 0, "0 ns"),
        (120, "op/s", 0, "120 op/s"),
    ],
)
def test_a_value_with_its_unit(value: float, unit: str, resolution: float, text: str) -> None:
    assert quantity_text(value, unit, resolution) == text


def test_one_repeat_and_a_time_below_its_ticks_in_a_report(tmp_path: Path) -> None:
    def metrics(took: int) -> list[dict[str, Any]]:
        base = {"unit": "ns", "labels": {"query": "1"}}
        return [base | {"name": "query_duration_ns", "better": "lower", "value": took},
                base | {"name": "query_cpu_ns", "better": "none", "value": 0}]  # fmt: skip

    runs = [write(tmp_path, Case(placement=place, metrics=metrics(took)))
            for place, took in (("ssd-both", 9_000_000), ("pmem-both", 4_000_000))]  # fmt: skip
    text = write_report(runs, tmp_path / "report").markdown.read_text(encoding="utf-8")
    assert "one repeat: no interval" in text and "covers 0 %" not in text
    assert "in ticks of 10 ms" in text and "&lt; 10 ms" in text and "0 ns" not in text
