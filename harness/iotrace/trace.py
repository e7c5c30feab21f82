"""The I/O trace of one run: its page, and how processes are started with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.iotrace.page import PARTS, Cell, Page

#: The installed library (harness.native_programs).
LIBRARY = "libiotrace.so"


@dataclass
class IoTrace:
    """``library``: a path that the traced processes can read and not write.

    ``background``: ``thread=PREFIX`` or ``title=PREFIX``: threads, by name or by the title of their
    process, that serve no client; None: nothing distinguishes them. ``directories``: of the parts,
    resolved; set before a process is started.
    """

    library: Path
    background: Sequence[str] | None = ()
    page: Page = field(default_factory=Page)
    directories: Mapping[str, Path] = field(default_factory=dict)

    @property
    def on(self) -> bool:
        """Whether processes are to be traced: the parts have directories."""
        return bool(self.directories)

    def labels(self, cell: Cell) -> dict[str, str]:
        """Of a cell's metrics; the role is ``unknown`` where nothing distinguishes threads."""
        labels = dict(cell.labels)
        return labels if self.background is not None else labels | {"role": "unknown"}

    def environment(self, descriptor: int) -> dict[str, str]:
        """Of a process in which the page has that number."""
        parts = [(part, self.directories[part]) for part in PARTS if part in self.directories]
        return {
            "LD_PRELOAD": str(self.library),
            "TIERBENCH_IOTRACE_PAGE": str(descriptor),
            "TIERBENCH_IOTRACE_PARTS": "\n".join(f"{part}={path}" for part, path in parts),
            "TIERBENCH_IOTRACE_BACKGROUND": "\n".join(self.background or ()),
        }
