"""Parts of a file in the page cache, as ``fincore`` of util-linux reports them."""

import os
import subprocess
from pathlib import Path

from scratch import open_directory

from harness.host import page_cache
from harness.units import MIB


def resident_bytes(file: Path) -> int:
    told = ["fincore", "--bytes", "--noheadings", "--output", "res", str(file)]
    return int(subprocess.run(told, capture_output=True, text=True, check=True).stdout)


def test_all_of_a_file_is_brought_in_and_let_go() -> None:
    with open_directory() as folder:  # pytest's own may be on a tmpfs
        file = folder / "data"
        file.write_bytes(os.urandom(3 * MIB + 4096 + 5))  # more than one call asks for
        page_cache.drop(file)
        assert resident_bytes(file) == 0
        page_cache.warm(file)
        assert resident_bytes(file) == 3 * MIB + 2 * 4096
