"""A user's folder: tables, files to load, queries, expected answers, a check.

::

    tables.sql          CREATE TABLE …, keys, indexes, foreign keys
    load/orders.csv     rows of the table orders; several files: orders.1.csv
    load/shop.sql       a dump with rows of any tables
    queries/top.sql     one query
    answers/top.csv     its expected rows
    check.sql           queries that must return no rows
    replay.jsonl        a recorded load (harness.capture)

Whoever owns the folder may change it at any time. So it is opened once, no link in it is
followed, and what is loaded is a copy that has the digest of what was checked (data.py).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from harness.capture.replay_file import REPLAY, Header, read_header
from harness.errors import UsageError, nearest
from harness.store.spec import content_hash
from harness.supervise.user_files import open_regular

TABLES, CHECK = "tables.sql", "check.sql"
LOAD, QUERIES, ANSWERS = "load", "queries", "answers"
#: The files of rows by their extension, of which texts may be compressed, and dumps.
TEXTS, PARQUET, DUMP = ("csv", "tsv", "tbl", "dat"), "parquet", "sql"
COMPRESSIONS = ("gz", "zst")
#: What an archive of pg_dump begins with.
_ARCHIVE = b"PGDMP"
#: Estimate of a file's size from what it is when compressed.
_EXPANSION = 5
#: Of a file that is read as a whole.
_MOST_BYTES = 16 << 20
_BLOCK = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
#: Digests by file: inode, size and times, which a change of the file changes.
_digests: dict[Path, tuple[tuple[int, ...], str]] = {}


@dataclass(frozen=True)
class LoadFile:
    """A file below ``load/``; see :func:`form_of`."""

    name: str
    stem: str
    format: str
    compression: str
    size_bytes: int


@dataclass(frozen=True)
class SqlFolder:
    """Files of a folder when it was read.

    ``queries`` and ``answers``: texts by the name of the file, in the order of names. What the
    statements of ``tables.sql`` are depends on the engine (schema.py).
    """

    path: Path
    tables_sql: str
    load: tuple[LoadFile, ...]
    queries: Mapping[str, str]
    answers: Mapping[str, str]
    check: str
    digests: Mapping[str, str] = field(repr=False)
    replay: Header | None = None
    replay_digest: str = ""

    @property
    def data_digest(self) -> str:
        """Digest of what is loaded: ``tables.sql`` and ``load/``."""
        return content_hash(dict(self.digests))

    @property
    def content(self) -> str:
        """Digests of the data, and of queries, answers, check and recorded load."""
        texts = {"queries": dict(self.queries), "answers": dict(self.answers), "check": self.check}
        if self.replay is not None:
            texts["replay"] = self.replay_digest
        others = content_hash(texts)
        return f"{self.data_digest}-{others}"

    @property
    def load_bytes(self) -> int:
        """Size of the files to load, of compressed ones an estimate."""
        return sum(file.size_bytes * (_EXPANSION if file.compression else 1) for file in self.load)


def read_folder(path: Path) -> SqlFolder:
    """Read a folder; UsageError names the first file that cannot be used."""
    with _Opened(path) as opened:
        tables_sql = opened.text(TABLES)
        if tables_sql is None:
            raise UsageError(
                f"folder {path}",
                f"it has no {TABLES}",
                "write CREATE TABLE statements into it, or `pg_dump --schema-only`; "
                f"`harness workload init {path.name or 'shop'}/` writes an example",
            )
        load = tuple(_load_file(path, name, opened) for name in opened.names(LOAD))
        digests = {TABLES: hashlib.blake2b(tables_sql.encode(), digest_size=16).hexdigest()}
        digests |= {f"{LOAD}/{file.name}": opened.digest(f"{LOAD}/{file.name}") for file in load}
        queries = opened.texts(QUERIES, "sql")
        answers = opened.texts(ANSWERS, "csv")
        check = opened.text(CHECK) or ""
        replay, replay_digest = None, ""
        if REPLAY in opened.names(""):
            with opened.file(REPLAY) as stream:
                replay = read_header(stream.readline(), f"{path}/{REPLAY}")
            replay_digest = opened.digest(REPLAY)
        return SqlFolder(
            path, tables_sql, load, queries, answers, check, digests, replay, replay_digest
        )


@contextmanager
def opened_file(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open ``load/orders.csv`` of a folder to be read; UsageError as of :func:`read_folder`."""
    with _Opened(path) as opened, opened.file(name) as stream:
        yield stream


class _Opened:
    """A folder that is open: its names are looked up in the same directory to the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptors: dict[str, int] = {}

    def __enter__(self) -> _Opened:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            top = self._descriptors[""] = os.open(self._path, flags)
            for name in (LOAD, QUERIES, ANSWERS):
                with suppress(FileNotFoundError):
                    self._descriptors[name] = os.open(name, flags | os.O_NOFOLLOW, dir_fd=top)
        except OSError as error:
            self.__exit__()
            raise self._refused(error.filename or str(self._path), error) from error
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def names(self, folder: str) -> list[str]:
        """Files of the folder, of ``load``, ``queries`` or ``answers``, hidden ones left out."""
        if (descriptor := self._descriptors.get(folder)) is None:
            return []
        entries = (path.name for path in Path(f"/proc/self/fd/{descriptor}").iterdir())
        return sorted(name for name in entries if not name.startswith("."))

    @contextmanager
    def file(self, name: str) -> Iterator[BinaryIO]:
        folder, _, last = name.rpartition("/")
        if folder not in self._descriptors:
            raise self._refused(name, FileNotFoundError(2, os.strerror(2)))
        try:
            way = Path(f"/proc/self/fd/{self._descriptors[folder]}/{last}")
            descriptor = open_regular(way, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._refused(name, error) from error
        with os.fdopen(descriptor, "rb") as stream:
            yield stream

    def text(self, name: str) -> str | None:
        """Return a file's text; None where there is no such file."""
        try:
            with self.file(name) as stream:
                content = stream.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise UsageError(
                    f"{self._path}/{name}",
                    f"it is larger than {_MOST_BYTES >> 20} MiB",
                    f"rows belong into files of {LOAD}/ (pg_dump --data-only, mysqldump "
                    "--no-create-info)",
                )
            return content.decode("utf-8-sig")
        except UsageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        except UnicodeDecodeError as error:
            raise not_utf_8(f"{self._path}/{name}", content, f"not UTF-8: {error}") from error

    def texts(self, folder: str, extension: str) -> dict[str, str]:
        """Return the texts of ``queries/*.sql`` or ``answers/*.csv``, by name."""
        by_stem = {}
        for name in self.names(folder):
            stem, dot, last = name.rpartition(".")
            if not dot or last != extension or not _NAME.fullmatch(stem):
                raise UsageError(
                    f"{self._path}/{folder}/{name}",
                    f"not a name of letters, digits, - and _ with the extension .{extension}",
                    "rename it, or remove it",
                )
            text = self.text(f"{folder}/{name}")
            if text is not None:
                by_stem[stem] = text
        return by_stem

    def digest(self, name: str) -> str:
        """Digest of a file, computed once as long as its inode, size and times are the same."""
        with self.file(name) as stream:
            facts = os.fstat(stream.fileno())
            stamp = (
                facts.st_dev,
                facts.st_ino,
                facts.st_size,
                facts.st_mtime_ns,
                facts.st_ctime_ns,
            )
            entry = _digests.get(self._path / name)
            if entry is None or entry[0] != stamp:
                digest = hashlib.blake2b(digest_size=16)
                while block := stream.read(_BLOCK):
                    digest.update(block)
                entry = _digests[self._path / name] = (stamp, digest.hexdigest())
            return entry[1]

    def size(self, name: str) -> int:
        with self.file(name) as stream:
            return os.fstat(stream.fileno()).st_size

    def _refused(self, name: str, error: OSError) -> UsageError:
        with suppress(OSError):
            if stat.S_ISLNK((self._path / name).lstat().st_mode):
                return UsageError(
                    f"{self._path / name}", "it is a symbolic link", "copy the file itself there"
                )
        return UsageError(f"{self._path / name}", error.strerror or str(error), "correct the path")


def is_utf_16(content: bytes) -> bool:
    """Return whether a file begins as UTF-16 does."""
    return content.startswith((b"\xff\xfe", b"\xfe\xff"))


def not_utf_8(problem: str, content: bytes, context: str = "not UTF-8") -> UsageError:
    """Error for a text in another form, with the command that rewrites it."""
    if content.startswith(_ARCHIVE):
        return UsageError(
            problem,
            "an archive of pg_dump (-Fc)",
            f"rewrite it: pg_restore --schema-only -f {TABLES} ARCHIVE; "
            f"pg_restore --data-only -f {LOAD}/rows.sql ARCHIVE",
        )
    encoding = "UTF-16" if is_utf_16(content) else "LATIN1"
    return UsageError(problem, context, f"rewrite it: iconv -f {encoding} -t UTF-8")


def form_of(name: str) -> tuple[str, str, str]:
    """Stem, format and compression of a file's name: those of ``Orders.1.CSV.gz``.

    ``orders.tbl.1`` is ``orders.1.tbl``, as dbgen names the parts of a table.
    """
    stem, _, last = name.rpartition(".")
    compression, number = "", ""
    if last.lower() in COMPRESSIONS:
        compression = last.lower()
        stem, _, last = stem.rpartition(".")
    if last.isdecimal():
        number = f".{last}"
        stem, _, last = stem.rpartition(".")
    return f"{stem}{number}", last.lower(), compression


def _load_file(path: Path, name: str, opened: _Opened) -> LoadFile:
    stem, extension, compression = form_of(name)
    problem = f"{path}/{LOAD}/{name}"
    with opened.file(f"{LOAD}/{name}") as stream:
        begin = stream.read(len(_ARCHIVE))
    if extension != PARQUET and not compression and (is_utf_16(begin) or begin == _ARCHIVE):
        raise not_utf_8(problem, begin)
    if extension not in (*TEXTS, PARQUET, DUMP):
        raise UsageError(
            problem,
            f"unknown extension{nearest(extension, [*TEXTS, PARQUET, DUMP])}",
            "load .csv or .tsv (names of columns in the first line), .tbl or .dat (separated by |, "
            "no names), each also as .gz or .zst; .parquet, or .sql (a dump)",
        )
    if compression and extension not in TEXTS:
        raise UsageError(
            problem,
            f".{extension} is not read from a compressed file",
            f"decompress it: {'gzip' if compression == 'gz' else 'zstd'} -d {name}",
        )
    return LoadFile(name, stem, extension, compression, opened.size(f"{LOAD}/{name}"))
