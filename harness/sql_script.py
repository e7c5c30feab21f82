r"""The statements of SQL scripts that others wrote: a user's files, dumps of databases.

A script is read line by line, since a dump may be larger than memory. Comments are left out,
except those that a server reads (``/*! … */``, ``/*+ … */``). A dump of PostgreSQL has the rows of
``COPY … FROM stdin`` after the statement, up to a line with ``\.``. Commands of a client
(``\ir FILE``, ``\! COMMAND``) are refused with their line: a server does not know them.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

_COPY = re.compile(r"copy\b.*\bfrom\s+stdin\b", re.IGNORECASE | re.DOTALL)
_DELIMITER = re.compile(r"delimiter\s+(\S+)", re.IGNORECASE)
#: psql's commands in dumps of PostgreSQL that say nothing to a server.
_PSQL = re.compile(r"\\(un)?restrict\b")
#: Statements about owners, rights and limits of the server that a dump was made on.
_OF_ORIGIN = re.compile(
    r"alter\b[^']*\bowner\s+to\b|alter\s+default\s+privileges\b|grant\b|revoke\b|set\s+\w+_timeout\b",
    re.IGNORECASE,
)
_READ_COMMENT = re.compile(r"/\*(!|\+|M!(?!999999))")
_NEXT = {
    True: re.compile(r"""--(?=\s|$)|#|/\*|'(?:[^'\\]|\\.|'')*'|['"`]|""", re.DOTALL),
    False: re.compile(r"""--|/\*|(?<!\w)[eE]'|'(?:[^']|'')*'|['"]|\$(?:[A-Za-z_]\w*)?\$|"""),
}
_CLOSING = {
    "'": re.compile("''|(')"),
    '"': re.compile('""|(")'),
    "`": re.compile("``|(`)"),
    "*/": re.compile(r"(\*/)"),
    "\\'": re.compile(r"\\.|''|(')", re.DOTALL),
    '\\"': re.compile(r'\\.|""|(")', re.DOTALL),
}


@dataclass(frozen=True)
class ScriptStatement:
    """One statement without its end; ``rows``: of a COPY, to be read before the next statement."""

    text: str
    rows: Iterator[str] | None = None


class _Reader:
    """The state between two lines. ``backslash``: MySQL's strings, comments and DELIMITER.

    ``masks``: strings and quoted names become as many letters x.
    """

    def __init__(self, backslash: bool, masks: bool = False, end: str = ";") -> None:
        self.backslash = backslash
        self._masks = masks
        self.end = end
        #: What closes the string or comment that is open.
        self.inside = ""
        self.dropping = False
        self.pieces: list[str] = []
        self._set_end(end)

    def _set_end(self, end: str) -> None:
        self.end = end
        of_style = _NEXT[self.backslash]
        self._next = re.compile(f"{of_style.pattern}({re.escape(end)})", of_style.flags)

    def take(self) -> str:
        text, self.pieces = "".join(self.pieces).strip(), []
        return text

    def command(self, line: str) -> bool:
        """Return whether a line between two statements is one for the client, not the server."""
        if self.inside or "".join(self.pieces).strip():
            return False
        if self.backslash and (match := _DELIMITER.match(line)):
            self._set_end(match[1])
            return True
        if not line.lstrip().startswith("\\"):
            return False
        if self.backslash or not _PSQL.match(line):
            raise UsageError(
                "",
                f"a command of a client, which no server executes: {head(line, 80)}",
                "write SQL statements alone; rows of other files belong into load/",
            )
        return True

    def read(self, line: str) -> Iterator[str]:
        """Yield the statements that end in this line."""
        position = 0
        while position < len(line):
            if self.inside:
                position = self._close(line, position)
                continue
            match = self._next.search(line, position)
            if match is None:
                self.pieces.append(line[position:])
                return
            token = match[0]
            self.pieces.append(line[position : match.start()])
            position = match.end()
            if match[1]:
                if text := self.take():
                    yield text
            elif token in ("--", "#"):
                self.pieces.append("\n")
                return
            elif token == "/*":
                self.inside, self.dropping = "*/", not _READ_COMMENT.match(line, match.start())
                self.pieces += [] if self.dropping else [token]
            else:
                self.pieces.append("x" * len(token) if self._masks else token)
                self.inside = self._closing(token)

    def _closing(self, token: str) -> str:
        if token[0] == "$":
            return token
        if len(token) > 1 and token[0] == "'":  # a whole string
            return ""
        escaped = token in ("e'", "E'") or (self.backslash and token != "`")
        return f"\\{token[-1]}" if escaped else token

    def _close(self, line: str, position: int) -> int:
        """Read to the end of the string or comment, or of the line; return where that is."""
        closing = _CLOSING.get(self.inside) or re.compile(f"({re.escape(self.inside)})")
        match = closing.search(line, position)
        while match is not None and not match[1]:
            match = closing.search(line, match.end())
        end = len(line) if match is None else match.end()
        masked = self._masks and self.inside != "*/"
        text = "x" * (end - position) if masked else line[position:end]
        self.pieces.append(" " if self.dropping else text)
        if match is not None:
            self.inside, self.dropping = "", False
        return end


def script(
    lines: Iterable[str], backslash: bool, name: str = "SQL script"
) -> Iterator[ScriptStatement]:
    """Yield the statements of a script; UsageError with ``name`` and line for a client's command.

    ``backslash``: whether a backslash escapes in strings, as on MySQL.
    """
    reader, source = _Reader(backslash), enumerate(lines, 1)
    for number, line in source:
        try:
            if reader.command(line):
                continue
        except UsageError as error:
            raise UsageError(f"{name}, line {number}", error.context, error.hint) from None
        for text in reader.read(line):
            yield ScriptStatement(text, _rows(source) if _COPY.match(text) else None)
    if reader.inside and not reader.dropping:
        raise UsageError(name, f"its end is inside of a string: no closing {reader.inside}")
    if text := reader.take():
        yield ScriptStatement(text)


def dumped(
    lines: Iterable[str], backslash: bool, name: str = "SQL script"
) -> Iterator[ScriptStatement]:
    """Yield the statements of a dump that another server can execute, see :func:`script`."""
    for statement in script(lines, backslash, name):
        if not _OF_ORIGIN.match(statement.text):
            yield statement


def split(text: str, backslash: bool, name: str = "SQL script") -> list[str]:
    """The texts of the statements of a short script, see :func:`script`."""
    return [statement.text for statement in script(lines_of(text), backslash, name)]


def masked(statement: str, backslash: bool) -> str:
    """One statement of :func:`split` with each character of strings and quoted names as an x."""
    reader = _Reader(backslash, masks=True, end="\0")
    for line in lines_of(statement):
        list(reader.read(line))
    return reader.take()


def lines_of(text: str) -> Iterable[str]:
    """Lines that end with a line feed, as a server sees them: ``str.splitlines`` has other ends."""
    return io.StringIO(text, newline="\n")


def _rows(source: Iterator[tuple[int, str]]) -> Iterator[str]:
    for _, line in source:
        if line.rstrip("\r\n") == r"\.":
            return
        yield line


def write_statements(folder: Path, stem: str, texts: list[str]) -> None:
    """Write a user's statements to be read by :func:`statements`."""
    (folder / f"{stem}.json").write_text(json.dumps(texts), encoding="utf-8")


_HEAD_LENGTH = 200


def tables_of(statement: str, tables: Iterable[str]) -> list[str]:
    """The ``tables`` that the statement names, in the order of their first mention.

    ``tables``: as SQL names them (``orders``, ``public."Orders"``).
    """
    names = {re.findall(r"\w+", table.lower())[-1]: table for table in tables}
    words = re.findall(r"\w+", statement.lower())
    return [names[word] for word in dict.fromkeys(words) if word in names]


def head(sql: str, length: int = _HEAD_LENGTH) -> str:
    """The statement on one line, shortened for a message."""
    line = " ".join(sql.split())
    return line if len(line) <= length else f"{line[:length]} …"
