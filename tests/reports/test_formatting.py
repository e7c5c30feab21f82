"""Numbers as text: units and resolutions."""

from __future__ import annotations

import pytest

from reports.formatting import gain_text, quantity_text, times_at_most


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


def test_a_bound_is_never_rounded_down() -> None:
    assert [times_at_most(x) for x in (1.901, 2.0, 22.31, 141.2)] == [
        "1.91×", "2.00×", "22.4×", "142×",
    ]  # fmt: skip
    assert [gain_text(x) for x in (1.0401, 2.041, 22.31)] == ["5 %", "2.05×", "22.4×"]
