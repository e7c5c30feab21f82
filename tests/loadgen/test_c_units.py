"""The C tests of the parts that need no event loop, server or engine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

TESTS = sorted(path.stem for path in Path(__file__).parents[2].glob("loadgen/tests/test_*.c"))


@pytest.mark.parametrize("name", TESTS)
def test_every_check_holds(loadgen_build: Path, name: str) -> None:
    done = subprocess.run([loadgen_build / name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
