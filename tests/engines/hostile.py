"""Whoever runs as the servers' user turns on root: planting what may lead root astray.

``python hostile.py SPEC``: becomes the user, says "ready", and until it is killed keeps putting
links, FIFOs, directories and forged pid files at the names that root is known to use in every
directory that the user can write. SPEC (JSON): roots, uid, gid, names, everything (also at every
name that it finds), share (of the names), file, folder (root's own, to link to), pid, seed.
"""

import contextlib
import itertools
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Kind = Callable[[Path, dict[str, Any]], None]
_PID_FILE = "{pid}\n/data\n1\n5432\n/tmp\n\n  5432001 {segment}\nready   \n"


def main() -> None:
    spec = json.loads(sys.argv[1])
    os.setgroups([])
    os.setgid(spec["gid"])
    os.setuid(spec["uid"])
    chance = random.Random(spec["seed"])
    chosen = {name for name in spec["names"] if chance.random() < spec["share"]}
    print("ready", flush=True)
    while True:
        for folder, below, files in itertools.chain(*map(os.walk, spec["roots"])):
            if not os.access(folder, os.W_OK):
                continue
            names = chosen | (set(below + files) if spec["everything"] else set())
            for name in names:
                if spec["everything"] and chance.random() > spec["share"]:
                    continue
                with contextlib.suppress(OSError):
                    plant(Path(folder), name, chance.choice(KINDS), spec)
        time.sleep(0.002)


def plant(folder: Path, name: str, kind: Kind, spec: dict[str, Any]) -> None:
    """Put one thing at a name, in place of what is there."""
    made = folder / f".planted-{os.getpid()}"
    shutil.rmtree(made, ignore_errors=True)
    made.unlink(missing_ok=True)
    kind(made, spec)
    path = folder / name
    try:
        made.rename(path)  # takes the place of a file at once
    except OSError:
        path.rename(f"{path}.away-{time.monotonic_ns()}")
        made.rename(path)


def link_to_file(path: Path, spec: dict[str, Any]) -> None:
    path.symlink_to(spec["file"])


def link_to_folder(path: Path, spec: dict[str, Any]) -> None:
    path.symlink_to(spec["folder"])


def link_to_new_file(path: Path, spec: dict[str, Any]) -> None:
    path.symlink_to(Path(spec["folder"], "new"))


def fifo(path: Path, spec: dict[str, Any]) -> None:
    os.mkfifo(path)


def directory(path: Path, spec: dict[str, Any]) -> None:
    path.mkdir()


def pid_file(path: Path, spec: dict[str, Any]) -> None:
    path.write_text(_PID_FILE.format(pid=spec["pid"], segment=spec["segment"]))


KINDS = (link_to_file, link_to_folder, link_to_new_file, fifo, directory, pid_file)

if __name__ == "__main__":
    main()
