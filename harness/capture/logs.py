"""Files of a log: found, decompressed, in the order of their times."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from harness.capture.losses import Losses
from harness.errors import UsageError
from harness.supervise import programs
from harness.supervise.user_files import open_regular

#: Lines that may come before the first one with a time.
_FIRST_LINES = 1000


def log_files(paths: Sequence[Path]) -> list[Path]:
    """The files that are named, and those of folders that are named."""
    files: list[Path] = []
    for path in paths:
        inside = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
        if not inside:
            raise UsageError(f"log {path}", "the folder has no files", "name the log's files")
        files += inside
    return files


@contextmanager
def opened_log(path: Path) -> Iterator[BinaryIO]:
    """Open a log, decompressed if it is .gz or .zst; UsageError where it cannot be read."""
    try:
        descriptor = open_regular(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"log {path}", error.strerror or str(error), "correct the path") from error
    with os.fdopen(descriptor, "rb") as stream:
        if path.suffix == ".gz":
            with closing(gzip.open(stream)) as text:
                yield cast(BinaryIO, text)
        elif path.suffix == ".zst":
            with _decompressed(path, stream) as text:
                yield text
        else:
            yield stream


@contextmanager
def _decompressed(path: Path, stream: BinaryIO) -> Iterator[BinaryIO]:
    program = shutil.which("zstd")
    if program is None:
        raise UsageError(f"log {path}", "there is no zstd", "apt-get install zstd")
    process = programs.start([program, "-dcq"], stdin=stream.fileno(), stdout=subprocess.PIPE)
    try:
        yield cast(BinaryIO, process.stdout)
    finally:
        programs.end(process)


def by_time(
    files: Sequence[Path],
    time_of: Callable[[bytes], tuple[str, int] | None],
    preferred: str,
    losses: Losses,
) -> list[Path]:
    """The files in the order of their first times; UsageError where none has a time.

    ``time_of``: kind and time of a line, None if it has none. A server may write each statement
    into logs of two kinds: those of kind ``preferred`` are read if there are any.
    """
    began: list[tuple[int, int, Path, str]] = []
    for number, path in enumerate(files):
        with opened_log(path) as stream:
            try:
                lines = (stream.readline() for _ in range(_FIRST_LINES))
                first = next(filter(None, map(time_of, lines)), None)
            except (OSError, EOFError) as error:
                raise UsageError(f"log {path}", str(error), "copy it again") from error
        if first is not None:
            began.append((first[1], number, path, first[0]))
        elif path.stat().st_size:
            losses.add("files of another kind", path.name)
    if not began:
        raise UsageError(
            f"log {', '.join(map(str, files[:3]))}",
            f"no time in its first {_FIRST_LINES} lines: it is of another kind",
            "name csvlog or jsonlog of PostgreSQL, or a slow or general log of MySQL",
        )
    if any(kind == preferred for *_, kind in began):
        for _, _, path, kind in began:
            if kind != preferred:
                losses.add(f"files that repeat the {preferred}", path.name)
        began = [entry for entry in began if entry[3] == preferred]
    return [path for _, _, path, _ in sorted(began)]
