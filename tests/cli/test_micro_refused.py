"""What the program cannot measure is refused before a run is begun, in its words, by its name."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

LIBRARY = Path(__file__).parents[2] / "microbench/tests/index_library.c"


@pytest.mark.parametrize("loaded", [True, False])
def test_an_index_library_is_loaded_by_the_unprivileged_user_alone(
    harness: Any, loaded: bool
) -> None:
    """Also from where that user cannot read it; what it cannot load is refused."""
    folder = harness.root / "closed"
    folder.mkdir(mode=0o700)
    file = folder / "tree.so"
    extra = ["-DREFUSES_ROOT"] if loaded else ["-DOTHER_NAME=create"]
    subprocess.run(["gcc", "-shared", "-fPIC", *extra, LIBRARY, "-o", file], check=True)
    limits = ("-p", "range=1MiB", "-p", "operations=1000")
    done = harness(
        "run", "micro", "--suite", "bento/fig1", "--tier", "dram", "--index-library", file, *limits,
        "--json", "-q", "--repeats", "1",
    )  # fmt: skip
    if not loaded:
        assert done.code == 2 and f"--index-library {file}: " in done.err
        assert not list(harness.results.glob("runs/*"))
        return
    run = done.run
    assert {one["labels"]["index"] for one in run["metrics"] if "index" in one["labels"]} == {
        "library"
    }
