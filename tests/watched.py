"""A third user who watches directories while a test or a command works in them (watcher.py).

``python tests/watched.py COMMAND …``, as root: its exit status is the command's, or 1 if the user
has won something.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

#: A user that owns nothing here.
THIRD_UID = 65533
#: Where every user may write, and where root works.
_SHARED = (
    "/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/run/tierbench", "/var/lib/tierbench/run"
)  # fmt: skip
#: Names that root, the servers' user or a run uses in their directories.
_NAMES = ("libiotrace.so", "source.duckdb", "server.log", "pg_hba.conf", "server.cnf", "native")
#: Paths that some release has used.
_FORESEEN = ("/tmp/unused", "/tmp/tierbench", "/var/tmp/tierbench", "/run/tierbench/run")


@dataclass
class Watched:
    """``won``: what the user has won; ``seen``: names that appeared. Known at the end."""

    won: list[str] = field(default_factory=list)
    seen: int = 0


@contextmanager
def watched(*folders: Path, names: Sequence[str] = ()) -> Iterator[Watched]:
    """The user is at work in here, and has won nothing at the end."""
    spec = {
        "uid": THIRD_UID, "gid": THIRD_UID, "folder": "/root",
        "folders": [*filter(os.path.isdir, _SHARED), *map(str, folders)],
        "names": [*_NAMES, *names], "foreseen": [*_FORESEEN],
    }  # fmt: skip
    program = Path(__file__).with_name("watcher.py")
    process = subprocess.Popen(
        [sys.executable, str(program), json.dumps(spec)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    watch = Watched()
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield watch
        out, _ = process.communicate("")
        watch.won, watch.seen = (json.loads(out)[name] for name in ("won", "seen"))
    finally:
        process.kill()
        process.wait()
    assert watch.won == []


if __name__ == "__main__":
    with watched() as user:
        done = subprocess.run(sys.argv[1:], check=False)
    print(f"nothing won; names seen: {user.seen}")
    sys.exit(done.returncode)
