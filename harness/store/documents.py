"""JSON documents as they are stored: whole or absent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from harness.errors import RunFailed
from harness.supervise.user_files import replacing


def write_json_atomically(path: Path, document: Any) -> bytes:
    """Write, fsync, rename, fsync the directory: the file is whole or absent.

    Returns what is in it. RunFailed where it cannot be written; no partial file is left then.
    """
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    content = text.encode()
    try:
        with replacing(path) as stream:
            stream.write(content)
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise not_written(path, error) from error
    return content


def not_written(path: Path, error: OSError) -> RunFailed:
    """The failure to write a file into its directory."""
    gone = isinstance(error, FileNotFoundError)
    return RunFailed(
        f"write {path.name} into {path.parent}",
        "the directory was removed" if gone else error.strerror or str(error),
        "run again, and leave it there" if gone else "make room there, or name another place",
    )
