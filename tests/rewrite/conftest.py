"""Programs lie where the unprivileged user, as whom root's tools run, can read them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tb-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
