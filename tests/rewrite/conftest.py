"""Programs lie where the unprivileged user, as whom root's tools run, can read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scratch import open_directory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with open_directory() as folder:
        yield folder
