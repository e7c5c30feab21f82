"""Numbers as text: units and resolutions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness.cli
import reports
from reports.formatting import gain_text, quantity_text, times_at_most, verdict_text


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


def test_no_difference_is_shown_as_none_that_is_shown() -> None:
    shown = [verdict_text(one) for one in ("no difference", "faster", "not resolvable")]
    assert shown == ["no difference shown", "faster", "not resolvable"]


def _texts(source: str) -> Iterator[str]:
    """The strings of a module that are no docstrings."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def test_one_function_decides_whether_a_run_is_emulated_or_modelled() -> None:
    """Only the table of tiers, which has the kernel's findings of each, writes a mark itself."""
    folders = [Path(package.__path__[0]) for package in (reports, harness.cli)]
    marking = {
        file.name
        for folder in folders
        for file in folder.rglob("*.py")
        if "EMULATED" in (source := file.read_text())
        and any("EMULATED" in text for text in _texts(source))
    }
    assert marking == {"formatting.py", "conditions.py"}
