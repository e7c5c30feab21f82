"""Building a native program from its sources, with its C tests and what only they have."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build(
    source: str | Path, folder: Path, *options: str, targets: tuple[str, ...] = ("all",)
) -> Path:
    """A build directory of a folder of sources (a name: in the repository)."""
    for command in (
        ["cmake", "-S", str(ROOT / source), "-B", str(folder), "-DNATIVE_TESTS=ON", *options],
        ["cmake", "--build", str(folder), "--parallel", "2", "--target", *targets],
    ):
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
    return folder
