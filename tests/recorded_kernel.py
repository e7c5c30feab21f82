"""A recorded kernel: /sys and /proc of another machine, laid out in a folder."""

import json
from pathlib import Path
from typing import Any

from harness.tiers.linux.kernel import DaxAnswer, Kernel, Space

RECORDINGS = Path(__file__).parent / "tiers/recordings"


class RecordedKernel(Kernel):
    """Answers from a recording made by tests/vm/record.py (its ``source`` says where)."""

    def __init__(self, recording: dict[str, Any], root: Path) -> None:
        super().__init__(root)
        self._recording = recording
        for name, text in recording["files"].items():
            write(root, name, text)
        for name, target in recording["links"].items():
            link = root / name.lstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)

    def mount_id(self, path: Path) -> int | None:
        return None

    def device_number(self, device: str) -> str | None:
        return self.read(f"/sys/class/block/{Path(device).name}/dev")

    def space(self, path: Path) -> Space:
        if str(path) not in self._recording["space"]:
            raise FileNotFoundError(str(path))
        return Space(*self._recording["space"][str(path)])

    def dax(self, path: Path) -> DaxAnswer:
        return DaxAnswer(self._recording["dax"][str(path)], "recorded")


def write(root: Path, name: str, text: str) -> None:
    """Lay one file of a tree out."""
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def load(name: str, root: Path) -> RecordedKernel:
    """The recording ``name`` laid out below ``root``."""
    document = json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))
    return RecordedKernel(document, root)
