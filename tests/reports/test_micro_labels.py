"""Numbers of labels: what cannot be read is an error that names the run, never 0."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from micro_runs import KINDS, micro_run, rate

from harness.errors import UsageError
from reports.micro.points import devices, number_in
from reports.micro.report import write_cards


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0.0),
        ("none", 0.0),
        ("0.5", 0.5),
        ("4096", 4096.0),
        ("4KiB", 4096.0),
        ("1GB/s", 1e9),
        ("200us", 200e3),
        ("unlimited", math.inf),
        ("many", None),
        ("4 KB?", None),
        ("0,5 GiB", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
    ],
)
def test_a_label_is_a_number_or_none(text: str, number: float | None) -> None:
    assert number_in(text) == number


@pytest.mark.parametrize("label", ["threads", "access_size_bytes"])
def test_an_unreadable_label_is_an_error_with_the_run(label: str, tmp_path: Path) -> None:
    labels: dict[str, Any] = {"pattern": "random", "access_size_bytes": 64, "threads": 2}
    run = micro_run(
        tmp_path, [rate("access_size", 5.0, **KINDS["load"], **labels | {label: "many"})]
    )
    (device,) = devices([run])
    with pytest.raises(UsageError) as refused:
        device.points[0].number(label)
    assert run.run_id in refused.value.problem and "many" in refused.value.context
    with pytest.raises(UsageError):
        write_cards([run], tmp_path / "card")
