"""The file of a recorded load: one line of JSON for each statement, in the order of their times.

::

    {"format":1,"dialect":"postgres","duration_us":60000000,"classes":[…],…}
    [3,1250,0,180,"",null,"",null,false]

The first line is a :class:`Header`, the others are :class:`Event` as lists. Whoever reads it reads
line by line: a record may be larger than memory. It has the values of the user's data, so it is
private (mode 0600).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.errors import UsageError
from harness.structs import Struct

FORMAT = 1
#: Name of the file in a folder of harness.workloads.sql.
REPLAY = "replay.jsonl"
#: Name of the sessions that dump a server, whose statements are not the user's load.
APPLICATION = "harness-capture"

Dialect = Literal["postgres", "mysql"]


class StatementClass(Struct, frozen=True):
    """Statements with the same text but for their literals.

    ``text``: with ``?`` or ``$1`` in place of literals. ``took_us``: all together, without the
    ``untimed`` ones, whose time the log does not have. ``errors``: those that failed.
    """

    name: str
    text: str
    count: int
    took_us: int
    errors: int = 0
    untimed: int = 0


class LeftOut(Struct, frozen=True):
    """Lines or statements that are not in the record: why, how many, and where the first one is."""

    reason: str
    count: int
    first: str


class Header(Struct, frozen=True):
    """Facts of a record.

    ``classes``: the longest in total first; statements of any further class have the last one.
    ``errors_known``: whether the log says which statements failed. ``spread``: whether the log has
    whole seconds only, in which statements are spread evenly.
    """

    format: int
    dialect: Dialect
    source: str
    database: str
    began: str
    duration_us: int
    sessions: int
    most_sessions: int
    statements: int
    transactions: int
    classes: tuple[StatementClass, ...]
    left_out: tuple[LeftOut, ...] = ()
    errors_known: bool = True
    spread: bool = False

    documented = "docs/your-own-workload.md"


class Event(msgspec.Struct, array_like=True, gc=False):
    """A statement: its session, its start since the record's, and its class by number.

    ``took_us``: -1 where the log does not have it. ``error``: the server's code, as recorded.
    ``sql``: None: the text of the class. ``prepared``: the name of the client's prepared statement.
    ``values``: of the parameters, as text; None: the statement was sent as a whole.
    ``last``: its session ends with it.
    """

    session: int
    at_us: int
    class_number: int
    took_us: int
    error: str
    sql: str | None
    prepared: str
    values: list[str | None] | None
    last: bool


def read_header(line: bytes, problem: str) -> Header:
    """Read the first line of a file; UsageError where it is no replay file of this release."""
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(problem, f"not a recorded load: {error}", "record it again") from error
    if header.format != FORMAT:
        raise UsageError(problem, f"format {header.format}, expected {FORMAT}", "record it again")
    return header


decode_event = msgspec.json.Decoder(Event).decode
encode = msgspec.json.Encoder().encode
