"""What a suite asks for and nobody can measure: refused with file, line and measurement."""

from __future__ import annotations

from pathlib import Path

import pytest
from micro_suites import HERE, RANDOM

from harness.errors import UsageError
from harness.micro.suite import load_suite

HEAD = "schema: 1\nname: mine\ndescription: d\n"
BODY = "args: {kernel: load, access: 64, pattern: random"


def refusal(tmp_path: Path, text: str) -> UsageError:
    file = tmp_path / "mine.yml"
    file.write_text(HEAD + text)
    with pytest.raises(UsageError) as refused:
        load_suite(file, HERE)
    return refused.value


def test_idle_stands_beside_other_jobs_only(tmp_path):
    error = refusal(
        tmp_path,
        "defaults: {range: 1MiB, duration: 1s}\nmeasurements:\n  m:\n"
        f"    matrix:\n      pace: [idle, 1GB/s]\n    {RANDOM}\n",
    )
    assert error.problem == f"{tmp_path}/mine.yml:8, measurement m"
    assert "pace: idle, and no other job runs" in error.context
    assert error.hint


@pytest.mark.parametrize(
    ("key", "value"),
    [("range", "= 1e400"), ("threads", "= 1e308*10"), ("range", "= 1e300"), ("range", "= 4 - llc")],
)
def test_an_expression_without_a_size_is_refused(tmp_path, key, value):
    error = refusal(
        tmp_path,
        f"defaults: {{range: 1MiB, duration: 1s}}\nmeasurements:\n  m: {{{BODY}, "
        f"{key}: '{value}'}}}}\n",
    )
    assert error.problem == f"{tmp_path}/mine.yml:6, measurement m"
    assert error.context.startswith(f"{key}: ") and value in error.context


def test_what_fio_measures_on_a_block_device_is_looked_at_too(tmp_path):
    error = refusal(
        tmp_path,
        f"defaults: {{range: 1MiB, duration: 1s}}\nmeasurements: {{m: {{{RANDOM}}}}}\n"
        "block:\n  program: fio\n  params: {measurements: [1]}\n",
    )
    assert error.problem.startswith(f"{tmp_path}/mine.yml:8, measurements of a suite of fio")
