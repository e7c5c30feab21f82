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

from harness.errors import UsageError
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
    with subprocess.Popen([program, "-dc"], stdin=stream, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield cast(BinaryIO, process.stdout)
        finally:
            process.kill()


def by_time(files: Sequence[Path], time_of: Callable[[bytes], int | None]) -> list[Path]:
    """The files in the order of their first times; UsageError for one without any.

    ``time_of``: of a line, None if it has none.
    """
    began: list[tuple[int, int, Path]] = []
    for number, path in enumerate(files):
        with opened_log(path) as stream:
            try:
                lines = (stream.readline() for _ in range(_FIRST_LINES))
                times = (time_us for line in lines if (time_us := time_of(line)) is not None)
                first = next(times, None)
            except (OSError, EOFError) as error:
                raise UsageError(f"log {path}", str(error), "copy it again") from error
        if first is not None:
            began.append((first, number, path))
        elif path.stat().st_size:
            raise UsageError(
                f"log {path}",
                f"no time in its first {_FIRST_LINES} lines: it is of another kind",
                "name csvlog or jsonlog of PostgreSQL, or a slow or general log of MySQL",
            )
    return [path for _, _, path in sorted(began)]
