"""bpftrace: calls and bytes of files, by program, file and operation.

It sees what a preloaded library cannot: raw system calls, and calls of any program. Vectored and
asynchronous calls (preadv, libaio, io_uring) pass other functions of the kernel, and accesses to
mapped files are not calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness import jsonfile
from harness.observers import ObservedNumber, Observer, find_program

#: What a call moved is what it returns: at the end of a file less than was requested.
_SCRIPT = """
BEGIN { printf("tracing\\n"); }
kprobe:vfs_read, kprobe:vfs_write { @file[tid] = arg0; @function[tid] = func; }
kretprobe:vfs_read, kretprobe:vfs_write /@file[tid]/ {
  $name = str(((struct file *)@file[tid])->f_path.dentry->d_name.name);
  @calls[comm, $name, @function[tid]] = count();
  if ((int64)retval > 0) { @bytes[comm, $name, @function[tid]] = sum(retval); }
  delete(@file[tid]);
  delete(@function[tid]);
}
kprobe:vfs_fsync_range {
  $name = str(((struct file *)arg0)->f_path.dentry->d_name.name);
  @calls[comm, $name, func] = count();
}
"""
_MAPS = ("@calls", "@bytes")
#: bpftrace leaves out what exceeds it without a message; its default is 4096.
MOST_KEYS = 65_536
#: Files with the most calls or bytes; a server has thousands.
_MOST = 50


class BpfTrace(Observer):
    """Counts calls and bytes of files with one script."""

    name = "bpftrace:files"
    started = "tracing"

    def program(self) -> Path:
        return find_program(
            "bpftrace", "BPFTRACE_HOME", ("bpftrace", "bin/bpftrace"), ("bpftrace",)
        )

    def collect(self, tree: Path) -> Sequence[str]:
        limit = f"BPFTRACE_MAP_KEYS_MAX={MOST_KEYS}"
        return ["env", limit, str(self.program()), "-f", "json", "-e", _SCRIPT]

    def figures(self, tree: Path, output: str) -> list[ObservedNumber]:
        return parse(output)


def parse(text: str) -> list[ObservedNumber]:
    """Calls and bytes by program, file and function, the most first.

    ValueError without a map of calls, and for a map that is full.
    """
    maps: dict[str, Any] = {}
    for document in _documents(text):
        data = document.get("data")
        if document.get("type") == "map" and isinstance(data, dict):
            maps |= {name: entries for name, entries in data.items() if name in _MAPS}
    if "@calls" not in maps:
        raise ValueError("bpftrace printed no map of calls")
    figures = []
    for name, entries in maps.items():
        if not isinstance(entries, dict):
            continue
        if len(entries) >= MOST_KEYS:
            raise ValueError(f"bpftrace counted {MOST_KEYS} files in {name}, and left out others")
        numbers = {
            key: float(value)
            for key, value in entries.items()
            if type(value) in (int, float) and math.isfinite(value)
        }
        most = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))[:_MOST]
        figures += [ObservedNumber((name[1:], *key.split(",")), value) for key, value in most]
    return figures


def _documents(text: str) -> Iterator[dict[str, Any]]:
    """One JSON object per line; other lines are messages."""
    for line in text.splitlines():
        try:
            document = jsonfile.parse(line)
        except ValueError:
            continue
        if isinstance(document, dict):
            yield document


OBSERVERS: Sequence[Observer] = [BpfTrace()]
