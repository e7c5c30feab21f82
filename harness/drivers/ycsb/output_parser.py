"""A parser of the lines that the official client prints.

The official client ends with status 0 whatever has become of it: exceptions are printed and
its threads give up silently. The first line that reports a failure counts as one, and only
a client that has printed ``[OVERALL]`` at its end has done its work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from harness import jsonfile

#: A status line: its moment (wall clock, UTC) and the operations of all threads so far.
_STATUS = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d):(?P<ms>\d{3}) \d+ sec: (?P<operations>\d+) operations;"
)
_OURS = re.compile(r"tierbench: (?P<name>\S+) ?(?P<words>.*)")
_EXCEPTION = re.compile(
    r"(?:Exception in thread \S+ )?(?P<what>(?:[a-z]\w*\.)+\w*(?:Exception|Error)\b.*)"
)
_REFUSAL = re.compile(
    r"(Unknown DB .*|Error initializing datastore bindings.*|Invalid combination of .*"
    r"|Must have constant field size .*|Missing property.*|Could not export measurements.*"
    r"|Error inserting, not retrying.*|Unable to open the properties file.*"
    r"|Could not find exporter.*|Error: Could not find or load main class.*"
    r"|# A fatal error has been detected.*|Error occurred during initialization of VM.*)"
)
_RESULT = re.compile(r"\[(?P<group>[^\]]+)\], (?P<name>[^,]+), (?P<value>\S+)")
_FEWER = "Warning: the threadcount is bigger"


@dataclass(frozen=True)
class Tick:
    """One status line: when it was made by the client's wall clock, and operations so far."""

    at_ms: int
    operations: int


@dataclass
class Words:
    """The state that the client's lines describe; a ``failure`` ends the client.

    ``results``: those printed at its end, by group and name. ``retried``: by the engine's
    code. By the name of the query, ``clocks``: its wall clock in milliseconds
    and its monotonic one in nanoseconds (that of the host, as ours); ``counters``: the
    engine's. ``ended``: it has done what it will do, and waits for its stdin to end.
    """

    failure: str | None = None
    ended: bool = False
    fewer_threads: bool = False
    retried: Counter[str] = field(default_factory=Counter)
    clocks: dict[str, tuple[int, int]] = field(default_factory=dict)
    counters: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    results: dict[tuple[str, str], float] = field(default_factory=dict)

    def read_line(self, line: str) -> Tick | None:
        """Read a line of its stderr; the status in it, if any."""
        if found := _STATUS.search(line):
            moment = datetime.strptime(found["at"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
            at_ms = int(moment.timestamp()) * 1000 + int(found["ms"])
            return Tick(at_ms, int(found["operations"]))
        if found := _OURS.match(line):
            self._read_ours(found["name"], found["words"])
        elif self.failure is None and (found := _EXCEPTION.match(line) or _REFUSAL.match(line)):
            self.failure = line.strip()
        return None

    def read_result(self, line: str) -> None:
        """A line of its stdout."""
        if found := _RESULT.match(line):
            with suppress(ValueError):  # other words are no result
                self.results[found["group"], found["name"]] = float(found["value"])
        elif line.startswith(_FEWER):
            self.fewer_threads = True
        elif self.failure is None and (_EXCEPTION.match(line) or _REFUSAL.match(line)):
            self.failure = line.strip()

    def total(self, group: str, name: str) -> int:
        """A count printed at its end; 0 where there is none."""
        return int(self.results.get((group, name), 0))

    def _read_ours(self, name: str, words: str) -> None:
        if name == "failed" and self.failure is None:
            self.failure = words
        elif name == "retried":
            self.retried[words.rpartition(" ")[2]] += 1
        elif name == "counters":
            name, _, counters = words.partition(" ")
            self.counters[name] = jsonfile.parse(counters or "{}")
        elif name == "clock":
            name, wall_ms, monotonic_ns = words.split()
            self.clocks[name] = int(wall_ms), int(monotonic_ns)
        elif name == "ended":
            self.ended = True
