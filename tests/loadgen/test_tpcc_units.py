"""The C tests of TPC-C's parts: numbers, names, text of rows, judged answers, parameters."""

from __future__ import annotations

import subprocess
from pathlib import Path


def test_the_parts_that_need_no_server(loadgen_build: Path) -> None:
    done = subprocess.run(
        [str(loadgen_build / "test_tpcc")], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0
