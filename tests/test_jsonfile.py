"""JSON within bounds: everything else is a ValueError, and only that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import jsonfile


@pytest.mark.parametrize(
    "text",
    ["", "NaN", "-Infinity", "1e999", "9" * 41, "9" * 5000, "[" * 100_000, "[" * 129 + "]" * 129,
     b"\xff", '{"a": 1e400}', "{} {}"],
)  # fmt: skip
def test_what_exceeds_the_bounds_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        jsonfile.parse(text)


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("[" * 128 + "]" * 128, None),
        (str(2**128 - 1), 2**128 - 1),
        ("[1.5, -2e3]", [1.5, -2000.0]),
        (r'"\ud83d\ude00 \ud800"', "\U0001f600 ?"),
        ('{"[": "' + "[" * 1000 + '"}', {"[": "[" * 1000}),
    ],
)
def test_what_does_not_is_read(text: str, document: object) -> None:
    assert document is None or jsonfile.parse(text) == document


def test_only_regular_files_of_bounded_size_are_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_text("[1, 2, 3]")
    os.mkfifo(tmp_path / "fifo")
    assert jsonfile.read(tmp_path / "large") == [1, 2, 3]
    for name, most_bytes in (("large", 8), ("fifo", 100)):
        with pytest.raises(ValueError, match="it is"):
            jsonfile.read(tmp_path / name, most_bytes)
    with pytest.raises(OSError):
        jsonfile.read(tmp_path)
