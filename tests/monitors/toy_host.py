"""A host of a few files whose counters move while its server runs.

``python toy_host.py ROOT`` is the server: it works in a loop, and each turn of the loop moves
every counter that a monitor reads. Stopped, the host stands still.
"""

import os
import sys
from pathlib import Path


def write(root: Path, name: str, text: str) -> None:
    """Replace a file at once, so that no reader sees half of it."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}")
    partial.write_text(f"{text}\n")
    partial.replace(path)


def block_stat(count: int) -> str:
    """A line of /sys/class/block/DISK/stat after ``count`` reads, writes and flushes of 4 KiB."""
    moved = [count, 0, 8 * count, 2 * count]
    return " ".join(map(str, [*moved, *moved, 0, 3 * count, 4 * count, 0, 0, 0, 0, count, count]))


def pressure(total_us: int) -> str:
    """A file of /proc/pressure."""
    averages = "avg10=0.00 avg60=0.00 avg300=0.00"
    return f"some {averages} total={total_us}\nfull {averages} total={total_us}"


def advance(root: Path, turn: int) -> None:
    """Write all files as they are after ``turn`` turns."""
    write(root, "sys/class/block/vda/stat", block_stat(turn))
    for resource in ("cpu", "memory", "io"):
        write(root, f"proc/pressure/{resource}", pressure(turn))
    write(root, "proc/vmstat", f"pgfault {turn}\npgmajfault {turn}\nnr_dirty 7")


def serve(root: Path) -> None:
    """Move the counters as fast as this machine can, until killed or orphaned."""
    turn, parent = 0, os.getppid()
    while os.getppid() == parent:
        turn += 1
        advance(root, turn)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
