"""A user's folder that tests change."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.workloads.sql.example import write_example


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The example of `harness workload init`."""
    folder = tmp_path / "shop"
    write_example(folder)
    return folder
