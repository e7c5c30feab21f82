"""A process that rewrites a user's files of rows for an engine's loader.

The files are another's: they are decompressed and parsed as the servers' user, which the process
becomes before it opens one. Values of text files stay texts, so that the engine alone reads them as
its types. What is written as CSV has every text in quotes, and NULL without.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _duckdb as duckdb  # the package around it takes three times as long to import

from harness import jsonfile
from harness.sql_script import TableColumn
from harness.supervise import linux, programs
from harness.workloads.sql.folder import PARQUET, form_of, is_utf_16, not_utf_8

#: Of what is written; DuckDB alone reads the Parquet.
_OPTIONS = {
    "csv": "FORMAT csv, HEADER, DELIMITER ',', QUOTE '\"', ESCAPE '\"', NULLSTR 'NULL', "
    "FORCE_QUOTE *",
    "parquet": "FORMAT parquet",
}
#: Separators of the formats whose first line names the columns, and of those that have no names.
_NAMED, _NAMELESS = {"csv": ",", "tsv": "\t"}, "|"
_DECOMPRESS = {"gz": "gzip", "zst": "zstd"}
_FORM = (
    "CSV: comma separated, texts in double quotes where needed, names of columns in the first line"
)
_PIPED = "rows of .tbl and .dat: one on each line, fields separated by |, an empty one is NULL"
_ESCAPES = (
    "a quote is written \"\", and NULL as nothing: COPY (FROM read_csv('OLD', escape = '\\', "
    "nullstr = '\\N', all_varchar = true)) TO 'NEW.csv', in DuckDB"
)
_REWRITE = (
    "write it so: COPY (SELECT * REPLACE ({value} AS {name}) FROM 'old.parquet') TO 'new.parquet'"
)
#: Names of types in CREATE TABLE: of moments, and of numbers that have all their digits.
_MOMENTS = re.compile(r"date|time|timestamp\w*|datetime\w*")
_WHOLE = re.compile(r"(?:u|tiny|small|medium|big|huge)*int\w*|(?:small|big)?serial")
_EXACT = re.compile(rf"{_WHOLE.pattern}|numeric|decimal|dec")
_INTEGERS = re.compile(r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?")
#: From here on, a DOUBLE stands for several whole numbers.
_DOUBLE_DIGITS = 2**53
#: A column for what follows the last separator of a line.
_REST = "after the last |"
#: Before DuckDB's words.
_ERROR = "Invalid Input Error: "
_ESCAPED_NULL = "a field is \\N"


class Refused(Exception):
    """A file that says something else than its rows; ``hint``: the cure."""

    def __init__(self, problem: str, hint: str = _FORM) -> None:
        super().__init__(problem)
        self.hint = hint


@dataclass(frozen=True)
class Conversion:
    """Rewrite ``source`` as ``name``; ``columns``: of its table, none where they are not known."""

    source: Path
    name: str
    columns: tuple[TableColumn, ...]

    def to_json(self) -> Sequence[object]:
        return [str(self.source), self.name, [[c.name, c.type, c.generated] for c in self.columns]]


def main() -> int:
    """Convert the ``files`` of the request on stdin, a line for each done."""
    request: dict[str, Any] = jsonfile.parse(sys.stdin.read())
    if request["user"] is not None:
        user, group = request["user"]
        linux.become(user, group, [group])
    folder = Path(request["folder"])
    connection = duckdb.connect(config={"temp_directory": str(folder)})
    connection.execute("SET TimeZone = 'UTC'")  # not the host's, for moments that become texts
    for source, name, columns in request["files"]:
        files = Conversion(Path(source), name, tuple(TableColumn(*column) for column in columns))
        try:
            convert(connection, files, folder, request["zones"])
        except (OSError, csv.Error, duckdb.Error, Refused) as error:
            words = str(error).removeprefix(_ERROR)
            hint = error.hint if isinstance(error, Refused) else ""
            print(json.dumps({"error": words, "hint": hint}), flush=True)
            return 1
        print(json.dumps({"done": source}), flush=True)
    return 0


def convert(
    connection: duckdb.DuckDBPyConnection, files: Conversion, folder: Path, zones: bool
) -> None:
    """Write the rows of a file into ``folder``; the names of both say in which formats.

    ``zones``: whether the server reads a moment's zone.
    """
    target = folder / files.name
    _, kind, compression = form_of(files.source.name)
    with _decompressed(files.source, compression, folder) as plain:
        if kind == PARQUET:
            rows = f"read_parquet({_text(plain)})"
        else:
            rows = _csv(plain, kind, files.columns)
        listed = connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()
        kinds = {str(name): str(column_kind) for name, column_kind, *_ in listed}
        of_csv = target.suffix == ".csv"
        values = ", ".join(
            _parquet_values(kinds, files.columns, of_csv, zones)
            if kind == PARQUET
            else _text_values(kinds, files.columns)
        )
        options = _OPTIONS[target.suffix[1:]]
        try:
            connection.execute(f"COPY (SELECT {values} FROM {rows}) TO {_text(target)} ({options})")
        except duckdb.Error as error:
            if kind == PARQUET:
                raise
            raise _explained(str(error), plain, kind) from error


@contextmanager
def _decompressed(source: Path, compression: str, folder: Path) -> Iterator[Path]:
    """The file, or what it has when decompressed, in a file that goes at the end.

    By a program that refuses what is cut off, which DuckDB does not always.
    """
    if not compression:
        yield source
        return
    program, plain = _DECOMPRESS[compression], folder / "decompressed"
    try:
        with source.open("rb") as packed, plain.open("xb") as stream:
            try:
                process = programs.start(
                    [program, "-dcq"], stdin=packed.fileno(), stdout=stream, stderr=subprocess.PIPE
                )
            except FileNotFoundError as error:
                raise Refused(f"{program} is not installed", f"apt install {program}") from error
            errors = process.communicate()[1]
        if process.returncode:
            words = errors.decode(errors="replace").strip()
            hint = f"the file is cut off, or of another kind (`{program} -t {source.name}`)"
            raise Refused(words or f"{program} ends with {process.returncode}", hint)
        yield plain
    finally:
        plain.unlink(missing_ok=True)


def _csv(plain: Path, kind: str, columns: Sequence[TableColumn]) -> str:
    """The call that reads a text file, each of whose columns has a name then."""
    with plain.open("rb") as binary:
        if is_utf_16(begin := binary.read(2)):
            raise Refused("it is UTF-16", not_utf_8("", begin).hint)
    try:
        with plain.open(encoding="utf-8", newline="") as stream:
            line = stream.readline().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise Refused(f"not UTF-8: {error}", not_utf_8("", b"").hint) from error
    if kind in _NAMED:
        separator, quote, header = _NAMED[kind], '"', True
        names = _header(line, separator, columns)
    else:
        separator, quote = _NAMELESS, ""
        names, header = _nameless(line.rstrip("\r\n"), columns)
    listed = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv({_text(plain)}, columns = {{{listed}}}, auto_detect = false, header = {header}, "
        f"delim = '{separator}', quote = '{quote}', escape = '{quote}', nullstr = '', "
        "allow_quoted_nulls = false, max_line_size = 67108864)"
    )


def _header(line: str, separator: str, columns: Sequence[TableColumn]) -> list[str]:
    """The names in the first line of a CSV file."""
    names = next(csv.reader([line], delimiter=separator), [])
    of_table = {column.name.lower() for column in columns}
    lower = {*map(str.lower, names)}
    if of_table and not lower & of_table:
        cure = separator.join(column.name for column in columns if not column.generated)
        raise Refused(
            f"its first line names no column of the table: {line.strip()[:80]}",
            f"write the names above the rows, as they come: {cure!r}; files without names, "
            "separated by |, are .tbl",
        )
    if not names or len(lower) < len(names) or not all(names):
        raise Refused("its first line does not name each column once")
    return names


def _nameless(line: str, columns: Sequence[TableColumn]) -> tuple[list[str], bool]:
    """The names of the columns of a file that has none, and whether it has them all the same."""
    every = [column.name for column in columns]
    stored = [column.name for column in columns if not column.generated]
    fields = line.split(_NAMELESS)
    if not columns:
        raise Refused(
            "it has no names, and CREATE TABLE lists not all columns of its table",
            "write it as .csv, with the names in its first line",
        )
    if len(fields) > 1 and {*map(str.lower, filter(None, fields))} <= {*map(str.lower, every)}:
        return [field or _REST for field in fields], True
    for names in (stored, every):
        if not line or len(fields) == len(names):
            return names, False
        if len(fields) == len(names) + 1 and not fields[-1]:
            return [*names, _REST], False
    raise Refused(
        f"its first line has {len(fields)} fields, and the table {len(stored)} columns", _PIPED
    )


def _text_values(names: Mapping[str, str], columns: Sequence[TableColumn]) -> Iterator[str]:
    """The values of a text file, of which what cannot be meant is an error."""
    rest = f"WHEN {_name(_REST)} IS NOT NULL THEN error('too many fields')" * (_REST in names)
    generated = {column.name.lower() for column in columns if column.generated}
    for name in names:
        if name != _REST and name.lower() not in generated:
            value, error = _name(name), _text(f"{_ESCAPED_NULL} in column {name}")
            wrong = f"{rest} WHEN {value} = '\\N' THEN error({error})"
            yield f"CASE {wrong} ELSE {value} END AS {value}"


def _parquet_values(
    kinds: Mapping[str, str], columns: Sequence[TableColumn], of_csv: bool, zones: bool
) -> Iterator[str]:
    """The values of a Parquet file; Refused for what the table's column would misread."""
    by_name = {column.name.lower(): column for column in columns}
    for name, kind in kinds.items():
        column = by_name.get(name.lower(), TableColumn(name, "", False))
        if column.generated:
            continue
        nested = kind == "BLOB" or kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION"))
        if of_csv and nested:
            value = f"decode({name})" if kind == "BLOB" else f"to_json({name})"
            raise Refused(
                f"column {name} is {kind}, which a text cannot stand for",
                _REWRITE.format(value=value, name=name),
            )
        if _MOMENTS.fullmatch(column.type) and _INTEGERS.fullmatch(kind):
            value = f"DATE '1970-01-01' + {name}"
            raise Refused(
                f"column {name} is {kind}, and {column.type} in the table: days, seconds or digits",
                f"{_REWRITE.format(value=value, name=name)}, where they are days since 1970",
            )
        value = _name(name)
        if kind in ("DOUBLE", "FLOAT") and _EXACT.fullmatch(column.type):
            value = _exact(name, kind, column)
        elif of_csv and kind == "BOOLEAN":  # PostgreSQL reads 1 as true, the others no word
            value = f"CAST({value} AS INTEGER)"
        elif of_csv and kind == "TIMESTAMP WITH TIME ZONE" and not zones:
            value = f"CAST({value} AS TIMESTAMP)"
        yield f"{value} AS {_name(name)}"


def _exact(name: str, kind: str, column: TableColumn) -> str:
    """The value of a floating point column for a table that keeps all digits of a number."""
    value, whole = _name(name), _WHOLE.fullmatch(column.type) is not None
    error = _text(
        f"column {name} is {kind}, and {column.type} in the table: a number in it is "
        f"{'not whole, or ' if whole else ''}2^53 or more, and may have lost digits (DuckDB writes "
        "HUGEINT so: cast it to DECIMAL(38, 0) first)"
    )
    wrong = f"isfinite({value}) AND abs({value}) >= {_DOUBLE_DIGITS}"
    if whole:
        wrong += f" OR {value} <> trunc({value})"
    number = f"CAST({value} AS BIGINT)" if whole else value
    return f"CASE WHEN {wrong} THEN error({error}) ELSE {number} END"


def _explained(error: str, plain: Path, kind: str) -> Refused:
    """The error of DuckDB for a text file, with the cure of what is known to cause it."""
    complaint = error.partition("\nPossible")[0].removeprefix(_ERROR)
    if _ESCAPED_NULL in error:
        separator = re.escape(_NAMED.get(kind, _NAMELESS))
        field = re.compile(rf'(?:^|{separator})"?\\N"?(?:{separator}|$)')
        with plain.open(encoding="utf-8", errors="replace") as stream:
            numbers = (n for n, line in enumerate(stream, 1) if field.search(line.rstrip("\n")))
            return Refused(f"{complaint}, line {next(numbers, '?')}", _ESCAPES)
    if '\\"' in complaint and kind in _NAMED:
        return Refused(f'a backslash before a quote, \\"\n{complaint}', _ESCAPES)
    if "utf-8" in error.lower():
        return Refused(complaint, not_utf_8("", b"").hint)
    return Refused(complaint, _FORM if kind in _NAMED else _PIPED)


def _text(value: str | Path) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


if __name__ == "__main__":
    sys.exit(main())
