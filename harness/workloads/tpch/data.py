"""Source data: made by tpchgen-cli, in chunks, with every row counted.

The generator is started once for all tables, because each start builds the same
300 MB pool of text. ``source.json`` is written last: a folder without it is not whole.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import _duckdb as duckdb  # the package around it takes three times as long to import

from harness.engine import LoadFormat
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import Part
from harness.progress import Progress
from harness.store.datasets import SOURCE_RECORD, source_record
from harness.store.documents import write_json_atomically
from harness.supervise import programs
from harness.supervise.silence import VARIABLE, limit_s
from harness.units import MIB
from harness.workloads.tpch.tables import TABLES, expected_rows

_POLL_S = 0.25
#: Bytes of one refresh set per unit of scale.
_SET_BYTES = 2_000_000
#: Bytes of generated files per unit of scale, for the progress bar and the estimate.
_SOURCE_BYTES: Mapping[str, int] = {
    "csv": 1_115_000_000,
    "tbl": 1_100_000_000,
    "parquet": 365_000_000,
}


@dataclass(frozen=True)
class GeneratedFiles:
    """Generated files: chunk files and row count of every table."""

    files: Mapping[str, tuple[Path, ...]]
    row_counts: Mapping[str, int]
    format: LoadFormat


@cache
def generator() -> str:
    """Name and version of the generator: with scale and format it decides every byte."""
    return f"tpchgen-{version('tpchgen-cli')}"


def source_name(scale: float, load_format: LoadFormat) -> str:
    """``tpch-sf1-csv-tpchgen-4.0.0``."""
    return f"tpch-sf{scale!r}-{load_format}-{generator()}"


def refresh_name(scale: float, sets: int) -> str:
    """``tpch-sf1-refresh3-tpchgen-4.0.0``: the first three refresh sets."""
    return f"tpch-sf{scale!r}-refresh{sets}-{generator()}"


def chunks(scale: float) -> int:
    """Files per table: an eighth of a unit of scale each, so that a load can be parallel."""
    return max(1, min(256, math.ceil(scale * 8 - 1e-9)))


def generate(scale: float, load_format: LoadFormat, folder: Path, progress: Progress) -> None:
    """Make all tables in ``folder``; nothing is done when they are there already.

    RunFailed with the generator's own words when it fails, is killed, fills the disk,
    or makes another number of rows than the specification has.
    """
    if (folder / SOURCE_RECORD).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [load_format, "--scale-factor", repr(scale), "--parts", str(chunks(scale))]
    title = f"TPC-H data at scale {scale:g} ({load_format})"
    run_generator(arguments, folder, source_bytes(scale, load_format), title, progress)
    row_counts = _count(folder, load_format, progress)
    _verify(scale, row_counts)
    record = {
        "scale": scale,
        "format": load_format,
        "generator": generator(),
        "chunks": chunks(scale),
        "row_counts": row_counts,
    }
    write_json_atomically(folder / SOURCE_RECORD, record)


def read_source(folder: Path) -> GeneratedFiles:
    """The files that :func:`generate` made in ``folder``; RunFailed if they have changed since."""
    record = source_record(folder)
    files = {table: _files(folder, table, record["format"]) for table in TABLES}
    return GeneratedFiles(files, record["row_counts"], record["format"])


def estimate_bytes(scale: float, load_format: str) -> dict[Part, int]:
    """Upper estimate of the bytes in each part, some 10 % to 40 % above what was measured.

    Measured at scale 1: PostgreSQL 18 has 1.38 GB of tables and 0.37 GB of indexes and
    spills up to 0.57 GB in one query; DuckDB 2.0 has 0.93 GB with keys and indexes.
    Columnar engines read Parquet, row stores text.
    """
    gigabytes = (1.1, 0.0, 0.2, 0.7) if load_format == "parquet" else (1.5, 0.5, 0.3, 0.7)
    data, index, wal, temp = (int(each * 1e9 * scale) for each in gigabytes)
    fixed = 64 * MIB
    return {
        "data": fixed + data,
        "index": index,
        "wal": fixed + wal,
        "temp": fixed + temp,
    }


def source_bytes(scale: float, load_format: str) -> int:
    """Estimate of the bytes that :func:`generate` writes."""
    largest = max(_SOURCE_BYTES.values())
    return int(_SOURCE_BYTES.get(load_format, largest) * scale) + MIB


def run_generator(
    arguments: Sequence[str], folder: Path, expected_bytes: int, title: str, progress: Progress
) -> None:
    """Run tpchgen-cli with ``arguments``; it writes into ``folder``.

    ``expected_bytes``: about what it writes, for the progress bar and for what is said when
    the disk is full. RunFailed with the generator's own words when it fails or is killed.
    """
    command = _command(arguments, folder)
    log = folder / "generator.log"
    with (
        log.open("w") as stderr,
        progress.task(f"generate {title} (MB)", expected_bytes / 1e6) as task,
    ):
        process = programs.start(command, stdout=stderr, stderr=stderr)
        try:
            done, heard = 0.0, time.monotonic()
            while process.returncode is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_S)
                now = _written(folder) / 1e6
                task.advance(max(0.0, now - done))
                heard = time.monotonic() if now > done else heard
                done = max(done, now)
                if time.monotonic() - heard >= (limit := limit_s("load")):
                    raise RunFailed(
                        f"generate {title}",
                        f"tpchgen-cli has written nothing for {limit:g} s, the limit; it is killed",
                        f"see what its disk waits for, or raise the limit: {VARIABLE}=load=SECONDS",
                    )
        finally:
            programs.end(process)
    if process.returncode != 0:
        raise _generator_failed(title, folder, expected_bytes, process.returncode, log)
    log.unlink()


def refresh_bytes(scale: float, sets: int) -> int:
    """Estimate of the bytes of refresh sets, with the rows that RF2 removes.

    Measured at scale 1: 1.83 MB a set.
    """
    return sets * (int(_SET_BYTES * scale) + MIB)


def _command(arguments: Sequence[str], folder: Path) -> list[str]:
    program = Path(sys.executable).parent / "tpchgen-cli"
    if not program.exists():
        raise UsageError("TPC-H data", f"{program} is missing", "pip install tpchgen-cli")
    return [
        # No generator outlives the harness, not even one killed before the request was made.
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid())),
        str(program),
        *arguments,
        *("--num-threads", str(len(os.sched_getaffinity(0)))),
        *("--output-dir", str(folder)),
        # Files of an interrupted generator would be skipped, not completed.
        "--overwrite",
        "--no-progress",
        "--quiet",
    ]


def _generator_failed(
    title: str, folder: Path, expected_bytes: int, status: int, log: Path
) -> RunFailed:
    words = log.read_text(errors="replace").strip()[-2000:] or "it said nothing"
    how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    full = "os error 28" in words or free < 16 * MIB
    cause = f"disk full under {folder}; " if full else ""
    return RunFailed(
        f"generate {title}",
        f"{cause}tpchgen-cli: {how}: {words}",
        f"make room (about {expected_bytes / 1e9:.3g} GB)" if full else "run again",
    )


def _written(folder: Path) -> int:
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # renamed by the generator meanwhile
                total += (Path(directory) / name).stat().st_size
    return total


def _files(folder: Path, table: str, load_format: str) -> tuple[Path, ...]:
    def number(path: Path) -> int:
        return int(path.name.split(".")[1])

    return tuple(sorted((folder / table).glob(f"{table}.*.{load_format}"), key=number))


def _count(folder: Path, load_format: LoadFormat, progress: Progress) -> dict[str, int]:
    """Rows of every table, counted in the files themselves."""
    files = [(table, file) for table in TABLES for file in _files(folder, table, load_format)]
    counts = dict.fromkeys(TABLES, 0)
    with (
        progress.task("count TPC-H rows (files)", len(files)) as task,
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
    ):
        rows = pool.map(lambda item: _rows(item[1], load_format), files)
        for (table, _), count in zip(files, rows, strict=True):
            counts[table] += count
            task.advance()
    return counts


def _rows(file: Path, load_format: LoadFormat) -> int:
    if load_format == "parquet":
        with duckdb.connect() as connection:
            query = "select sum(num_rows) from parquet_file_metadata($1)"
            row = connection.execute(query, [str(file)]).fetchone()
        return int(row[0]) if row else 0
    lines = 0
    with file.open("rb", buffering=0) as stream:
        while block := stream.read(MIB):  # no value of TPC-H contains a line end
            lines += block.count(b"\n")
    return lines - 1 if load_format == "csv" else lines


def _verify(scale: float, row_counts: Mapping[str, int]) -> None:
    for table, count in row_counts.items():
        expected = expected_rows(table, scale)
        lowest = expected_rows("orders", scale) or 0
        wrong = count < lowest if expected is None else count != expected
        if wrong:
            raise RunFailed(
                f"generate TPC-H data at scale {scale:g}",
                f"{table} has {count} rows, not {expected or f'at least {lowest}'}",
                "the generator was cut off or is another version; run again",
            )
