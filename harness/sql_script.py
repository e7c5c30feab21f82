r"""The statements of SQL scripts that others wrote: a user's files, dumps of databases.

A script is read line by line, since a dump may be larger than memory. Comments are left out,
except those that a server reads (``/*! … */``, ``/*+ … */``). A dump of PostgreSQL has the rows of
``COPY … FROM stdin`` after the statement, up to a line with ``\.``. Commands of a client
(``\ir FILE``, ``\! COMMAND``) are refused with their line: a server does not know them.

What a statement is for is decided in a single place, :func:`kind_of`. A script is executed in a
database of the run's own, so the name of the database that it was made for says nothing here
(``USE``, ``\connect``), and statements of a second database are refused.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from harness.errors import UsageError

_DELIMITER = re.compile(r"\s*delimiter\s+(\S+)", re.IGNORECASE)
#: psql's commands that say nothing to a server, and the one that changes the database.
_PSQL = re.compile(
    r"\\(?:(?:un)?restrict|echo|qecho|timing|pset|encoding|set\s+ON_ERROR_STOP"
    r"|(?P<connect>connect|c)(?:\s+(?:-reuse-previous=\w+\s+)?(?P<database>[^\s;]+))?)(?!\w)"
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
#: Words and signs; the marks of comments that a server reads are no words.
_TOKEN = re.compile(r"""/\*(?:M?!\d*|\+)|\*/|[\w$@]+|'[^']*'|"[^"]*"|`[^`]*`|[^\s\w]""")
_FIRST_WORD = re.compile(r"(?:/\*M?!\d*|[\s(])*(\w+)")
_DEFINER = re.compile(
    r"""\bdefiner\s*=\s*(?:current_user(?:\s*\(\s*\))?|(?:`[^`]*`|'[^']*'|"[^"]*"|[\w%.-]+)"""
    r"""(?:\s*@\s*(?:`[^`]*`|'[^']*'|"[^"]*"|[\w%.-]+))?)""",
    re.IGNORECASE,
)

What = Literal[
    "table", "drop", "definition", "key", "index", "attachment", "foreign key", "final", "rows",
    "copy", "file", "session", "transaction", "database", "origin", "other",
]  # fmt: skip


@dataclass(frozen=True)
class StatementKind:
    """What a statement is for.

    ``table``: creates the table ``name``, as SQL has it; ``drop``: drops tables. ``definition``:
    creates what tables may need. ``attachment``: makes an index that of a partition. ``final``:
    needs loaded rows, or would act on them. ``rows``: adds or changes rows. ``copy``: rows follow
    in the script. ``file``: reads a file. ``session``: a setting. ``database``: creates, drops or
    chooses the database ``name``. ``origin``: about owners, rights, limits or the log of the server
    that a dump was made on. ``other``: any other.
    """

    what: What
    name: str = ""


@dataclass(frozen=True)
class ScriptStatement:
    """One statement without its end, and the line in which it begins.

    ``rows``: of a COPY, to be read before the next statement.
    """

    text: str
    line: int
    kind: StatementKind
    rows: Iterator[str] | None = None


@dataclass(frozen=True)
class TableColumn:
    """A column of CREATE TABLE.

    ``type``: the first word of its type. ``generated``: the server computes it, so no file gives
    its values.
    """

    name: str
    type: str
    generated: bool


class _LineReader:
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

    @property
    def empty(self) -> bool:
        """Whether no statement has begun."""
        return not self.inside and all(not text or text.isspace() for text in self.pieces)

    def take(self) -> str:
        text, self.pieces = "".join(self.pieces).strip(), []
        return text

    def command(self, line: str) -> re.Match[str] | bool:
        """Return whether a line between two statements is one for the client, not the server.

        The match of psql's, which may name a database.
        """
        if not self.empty:
            return False
        if self.backslash and (match := _DELIMITER.match(line)):
            self._set_end(match[1])
            return True
        if not line.lstrip().startswith("\\"):
            return False
        if self.backslash or not (match := _PSQL.match(line.lstrip())):
            raise UsageError(
                "",
                f"a command of a client, which no server executes: {head(line, 80)}",
                "write SQL statements alone; rows of other files belong into load/",
            )
        return match

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
                if self.end == ";" and _in_body("".join(self.pieces), self.backslash):
                    self.pieces.append(token)
                elif text := self.take():
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
    reader, source = _LineReader(backslash), enumerate(lines, 1)
    begin = 0
    for number, line in source:
        try:
            command = reader.command(line.removeprefix("\ufeff") if number == 1 else line)
        except UsageError as error:
            raise UsageError(f"{name}, line {number}", error.context, error.hint) from None
        if command is True:
            continue
        if command:
            if command["connect"] and command["database"]:
                kind = StatementKind("database", command["database"])
                yield ScriptStatement(line.strip(), number, kind)
            continue
        if reader.empty:
            reader.pieces.clear()
            begin = number
        for text in reader.read(line.removeprefix("\ufeff") if number == 1 else line):
            kind = kind_of(text, backslash)
            rows = _rows(source) if kind.what == "copy" else None
            yield ScriptStatement(text, begin, kind, rows)
            begin = number
    if reader.inside and not reader.dropping:
        raise UsageError(name, f"its end is inside of a string: no closing {reader.inside}")
    if text := reader.take():
        yield ScriptStatement(text, begin, kind_of(text, backslash))


def dumped(
    lines: Iterable[str],
    backslash: bool,
    name: str = "SQL script",
    databases: set[str] | None = None,
) -> Iterator[ScriptStatement]:
    """Yield the statements of a dump that another server can execute, see :func:`script`.

    Left out are those about the origin: rights, its log, the name of its database, which is added
    to ``databases``. UsageError with ``name`` and line for statements of a second database, and
    for those that read a file.
    """
    databases = set() if databases is None else databases
    for statement in script(lines, backslash, name):
        what, problem = statement.kind.what, f"{name}, line {statement.line}"
        if what == "file":
            raise UsageError(
                problem,
                f"it reads a file that is not in the folder: {head(statement.text, 80)}",
                "leave the statement out, and put the file into load/, named after its table",
            )
        if what == "database":
            databases.add(statement.kind.name.strip("\"'`").lower())
            if len(databases) > 1:
                raise UsageError(
                    problem,
                    f"a second database: {' and '.join(sorted(databases))}",
                    "write a folder for each: names of databases are left out, and all rows would "
                    "be in the same one",
                )
        elif what != "origin":
            yield _without_definer(statement)


def _without_definer(statement: ScriptStatement) -> ScriptStatement:
    """The statement without DEFINER=: the origin's user does not exist here."""
    text = statement.text
    if not re.match(r"(?:/\*M?!\d*\s*)?(?:create|alter)\b", text, re.IGNORECASE):
        return statement
    start = _DEFINER.search(text, 0, _HEAD_LENGTH)
    if start is None:
        return statement
    text = text[: start.start()] + text[start.end() :]
    return ScriptStatement(text, statement.line, statement.kind, statement.rows)


def split(text: str, backslash: bool, name: str = "SQL script") -> list[str]:
    """The texts of the statements of a short script, see :func:`script`."""
    return [statement.text for statement in script(lines_of(text), backslash, name)]


def masked(statement: str, backslash: bool) -> str:
    """One statement of :func:`split` with each character of strings and quoted names as an x."""
    reader = _LineReader(backslash, masks=True, end="\0")
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


# What a statement is for --------------------------------------------------------


@dataclass(frozen=True)
class _Token:
    """``word``: in lower case; of a quoted name or a string, letters x. ``depth``: parentheses."""

    word: str
    text: str
    depth: int


_Decides = Callable[[list[_Token], bool], StatementKind]
_ADDED: dict[str, What] = {
    "foreign": "foreign key", "primary": "key", "unique": "key", "index": "index", "key": "index",
    "fulltext": "index", "spatial": "index", "exclude": "index",
}  # fmt: skip
#: What CREATE makes, and what that is for.
_CREATED: dict[str, What] = {
    "table": "table", "index": "index", "database": "database", "view": "other",
    "function": "other", "procedure": "other", "role": "other", "user": "other",
    **dict.fromkeys(("type", "domain", "sequence", "schema", "extension"), "definition"),
    **dict.fromkeys(("trigger", "event", "rule", "policy", "publication", "subscription",
                     "statistics"), "final"),
}  # fmt: skip
#: What may have a body of several statements.
_ROUTINES = frozenset({"procedure", "function", "trigger", "event"})
_CHANGE_ROWS = frozenset({"insert", "replace", "update", "delete", "merge", "truncate", "call"})
#: Kinds that the first word says.
_VERBS: dict[str, What] = {
    **dict.fromkeys(_CHANGE_ROWS, "rows"),
    **dict.fromkeys(("import", "source"), "file"),
    **dict.fromkeys(("grant", "revoke", "change"), "origin"),  # CHANGE MASTER TO
    **dict.fromkeys(("commit", "end", "rollback", "lock", "unlock", "start"), "transaction"),
    **dict.fromkeys(("refresh", "analyze", "vacuum", "cluster"), "final"),
}


def _tokens(statement: str, backslash: bool) -> list[_Token]:
    bare, tokens, depth = masked(statement, backslash), [], 0
    for match in _TOKEN.finditer(bare):
        if match[0].startswith("/*") or match[0] == "*/":
            continue
        depth -= match[0] == ")"
        tokens.append(_Token(match[0].lower(), statement[slice(*match.span())], depth))
        depth += match[0] == "("
    return tokens


def kind_of(statement: str, backslash: bool) -> StatementKind:
    """Decide what one statement of :func:`split` is for, by its words."""
    first = _FIRST_WORD.match(statement)
    verb = first[1].lower() if first else ""
    if verb in _VERBS:
        return StatementKind(_VERBS[verb])
    decides = _DECIDES.get(verb)
    return decides(_tokens(statement, backslash), backslash) if decides else StatementKind("other")


def _used(tokens: list[_Token], backslash: bool) -> StatementKind:
    return StatementKind("database", _name(tokens[1:]))


def _read_rows(tokens: list[_Token], backslash: bool) -> StatementKind:
    """Of COPY and LOAD."""
    words = [token.word for token in tokens]
    if words[0] == "load":
        return StatementKind("file" if words[1:2] in (["data"], ["xml"]) else "other")
    if "from" not in words:
        return StatementKind("other")
    return StatementKind("copy" if words[words.index("from") + 1 :][:1] == ["stdin"] else "file")


def _set(tokens: list[_Token], backslash: bool) -> StatementKind:
    words = {token.word for token in tokens}
    if words & {"gtid_purged", "sql_log_bin"} or any(word.endswith("_timeout") for word in words):
        return StatementKind("origin")
    return StatementKind("transaction" if "autocommit" in words else "session")


def _others(tokens: list[_Token], backslash: bool) -> StatementKind:
    """Of BEGIN, SELECT and WITH."""
    words = [token.word for token in tokens]
    if words[0] == "begin":
        return StatementKind("rows" if words[1:3] == ["not", "atomic"] else "transaction")
    if words[0] == "select":
        return StatementKind("session" if "set_config" in words else "other")
    return StatementKind("rows" if _CHANGE_ROWS & {*words} else "other")


def _created(tokens: list[_Token], backslash: bool) -> StatementKind:
    where = next((i for i, token in enumerate(tokens) if token.word in _CREATED), 0)
    created, named = tokens[where].word, tokens[where + 1 :]
    if [token.word for token in named[:3]] == ["if", "not", "exists"]:
        named = named[3:]
    what = _CREATED.get(created, "other")
    if created == "schema" and backslash:
        what = "database"
    if what == "table" and {"temporary", "temp"} & {token.word for token in tokens[:where]}:
        what = "other"
    return StatementKind(what, _name(named) if what in ("table", "database") else "")


#: What begins an item of CREATE TABLE that is no column; MySQL's further words are names elsewhere.
_CONSTRAINTS = frozenset({"constraint", "primary", "unique", "foreign", "check", "exclude"})
_KEYS = frozenset({"key", "index", "fulltext", "spatial", "period"})
#: Where a table has its columns from, besides its own list.
_TAKEN = frozenset({"as", "like", "of", "inherits", "select"})


def columns_of(statement: str, backslash: bool) -> tuple[TableColumn, ...]:
    """The columns that CREATE TABLE lists; none where it takes some from elsewhere."""
    tokens = _tokens(statement, backslash)
    if any(token.depth == 0 and token.word in _TAKEN for token in tokens):
        return ()
    items: list[list[_Token]] = []
    for token in tokens:
        if token.depth == 0 and token.word == ")":
            break
        if (token.depth, token.word) in ((0, "("), (1, ",")):
            items.append([])
        elif items:
            items[-1].append(token)
    columns = []
    for item in items:
        words = [token.word for token in item if token.depth == 1] + ["", ""]
        if words[0] == "like":
            return ()
        if words[0] in _CONSTRAINTS or (backslash and words[0] in _KEYS):
            continue
        name, quote = item[0].text, item[0].text[:1]
        if quote in ('"', "`"):
            name = name[1:-1].replace(quote * 2, quote)
        generated = {("as", "("), ("as", "row")} & {*pairwise(words)}
        columns.append(TableColumn(name, words[1], bool(generated)))
    return tuple(columns)


def _altered(tokens: list[_Token], backslash: bool) -> StatementKind:
    """Of ALTER and DROP."""
    verb, changed, *rest = [token.word for token in tokens] + [""]
    outer = [token.word for token in tokens if token.depth == 0]
    pairs = [*pairwise(outer)]
    added = {_ADDED[word] for word in _additions(outer) if word in _ADDED}
    what: What = "other"
    if changed == "database" or (changed == "schema" and backslash):
        return StatementKind("database", _name(tokens[4 if rest[:2] == ["if", "exists"] else 2 :]))
    if verb == "drop":
        what = "drop" if changed == "table" else "other"
    elif ("owner", "to") in pairs or ("default", "privileges") in pairs:
        what = "origin"
    elif changed == "index":
        what = "attachment" if ("attach", "partition") in pairs else "final"
    elif changed == "table":
        attached: What = "definition" if ("attach", "partition") in pairs else "other"
        order: tuple[What, ...] = ("foreign key", "key", "index")
        what = next((kind for kind in order if kind in added), attached)
    return StatementKind(what)


_DECIDES: dict[str, _Decides] = {
    "create": _created, "alter": _altered, "drop": _altered, "use": _used, "copy": _read_rows,
    "load": _read_rows, "set": _set, "begin": _others, "select": _others, "with": _others,
}  # fmt: skip


def _additions(words: list[str]) -> Iterator[str]:
    """Yield the word after each ADD of ALTER TABLE, of a constraint that after its name."""
    for number, word in enumerate(words):
        if word == "add":
            after = words[number + 1 : number + 4]
            if after[:1] == ["constraint"]:
                after = after[1:] if after[1:2] and after[1] in _ADDED else after[2:]
            yield from after[:1]


def _name(tokens: list[_Token]) -> str:
    """Return a name with its qualifiers, as SQL has it."""
    texts = [token.text for token in tokens]
    length = 1
    while texts[length : length + 1] == ["."]:
        length += 2
    return "".join(texts[:length])


def _in_body(statement: str, backslash: bool) -> bool:
    """Return whether the text ends inside of the body of a routine, BEGIN … END.

    In PostgreSQL, such a body begins with BEGIN ATOMIC; all others are strings.
    """
    first = _FIRST_WORD.match(statement)
    verb = first[1].lower() if first else ""
    if verb not in ("create", "alter", "begin"):
        return False
    words = [token.word for token in _tokens(statement, backslash)]
    pairs = [*pairwise(words)]
    starts: list[int] = []
    if verb == "begin":
        starts = [0] if words[1:3] == ["not", "atomic"] else []
    elif not backslash:
        starts = [i for i, pair in enumerate(pairs) if pair == ("begin", "atomic")]
    elif next((word for word in words if word in _CREATED), "") in _ROUTINES:
        starts = [i for i, word in enumerate(words) if word == "begin"]
        starts += [i + 1 for i, pair in enumerate(pairs) if pair == ("row", "if")]
    return bool(starts) and _is_open(words[min(starts) :])


def _is_open(words: list[str]) -> bool:
    """Return whether a block of BEGIN or IF, at whose first word these begin, has no end yet."""
    depth, of_if = 0, words[0] == "if"
    for before, word, after in zip([";", *words], words, [*words[1:], ""], strict=False):
        if before == ".":
            continue
        if word in ("begin", "case"):
            depth += before != "end"
        elif word == "if" and of_if:
            depth += before in (";", "then", "else", "begin", "do", "loop")
        elif word == "end" and after not in ("loop", "while", "repeat"):
            depth -= after != "if" or of_if
    return depth > 0


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
