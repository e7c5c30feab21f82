"""A parser of the lines that HammerDB prints while it works.

It ends with status 0 and "ALL VIRTUAL USERS COMPLETE" also where all of them have failed,
and a build whose monitor has failed waits for minutes before it does: the first line that
names a failure counts as one.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from harness.drivers.result import Operation

#: Where a timed run is: nothing measured yet, in the measured window, after it.
Phase = Literal["starting", "measuring", "ending"]

_USER = re.compile(r"Vuser (\d+):(.*)")
_RESULT = re.compile(r"TEST RESULT : System achieved (\d+) NOPM from (\d+) .*TPM")
_VERSION = re.compile(r"DBVersion:(.+)")
_ACTIVE = re.compile(r"(\d+) Active Virtual Users configured")
#: Release 6 looks at what the database has, and calls that.
_ROUTINES = re.compile(r"Auto-switching pg_storedprocs to (true|false)")
_PROFILE = re.compile(r"Writing timing data to (.+)")
_ERROR = re.compile(
    r"Error in Virtual User \d+: ?(?P<user>.*)"
    r"|Error: ?(?P<own>.*)"
    r"|(?P<thread>Failed to created? .*)"
    r"|(?P<script>No Script loaded.*)"
)
_FAILED = re.compile(
    r"FINISHED FAILED|(.*exists but is not empty.*)|(the .* connection to .* could not be.*)"
    r"|(Monitor failed to notify ready state.*)"
)
#: What InnoDB, or SQL Server, says when a transaction is to be tried again, by its error number.
_TRANSIENT = {
    "1213": re.compile(r"Deadlock found", re.IGNORECASE),
    "1205": re.compile(r"Lock wait timeout exceeded|was deadlocked on", re.IGNORECASE),
    "1020": re.compile(r"Record has changed since last read", re.IGNORECASE),
}


@dataclass
class HammerDbOutput:
    """The state that HammerDB's lines describe; ``failure_complete``: all its lines are read.

    ``refused``: transactions that the server wanted retried and HammerDB gave up, by the
    server's error number. ``switched``: it calls functions, or procedures, though the other was
    set. ``customers``, ``orders``: districts that a build has filled.
    """

    failure: str | None = None
    failure_complete: bool = False
    phase: Phase = "starting"
    new_orders_per_minute: int | None = None
    transactions_per_minute: int | None = None
    users: int | None = None
    database_version: str | None = None
    profile: str | None = None
    profile_complete: bool = True
    refused: Counter[str] = field(default_factory=Counter)
    switched: str | None = None
    customers: int = 0
    orders: int = 0
    built: bool = False
    complete: bool = False
    _driving: set[int] = field(default_factory=set)

    def read_line(self, line: str) -> None:
        """Read one line; of a failure, also its continuation."""
        text = line.strip()
        if self.failure is not None:
            self.failure_complete = self.failure_complete or text.startswith("Vuser ")
            if text and not self.failure_complete:
                self.failure = f"{self.failure} {text}"
            return
        if match := _ERROR.match(text):
            self.failure = next((part for part in match.groups() if part), text)
        elif text == "ALL VIRTUAL USERS COMPLETE":
            self.complete = True
        elif match := _USER.match(text):
            self._read_user(int(match[1]), match[2].strip())

    def _read_user(self, user: int, said: str) -> None:
        if match := _FAILED.match(said):
            self.failure = next((part for part in match.groups() if part), f"Vuser {user}: {said}")
        elif said.startswith("Processing ") and "transactions" in said:
            self._driving.add(user)
        elif said == "FINISHED SUCCESS":
            self._driving.discard(user)
        elif user in self._driving:
            self._read_driving(user, said)
        else:
            self._read_progress(said)

    def _read_driving(self, user: int, said: str) -> None:
        """A user that drives says nothing but the server's errors."""
        for code, pattern in _TRANSIENT.items():
            if pattern.search(said):
                self.refused[code] += 1
                return
        if said:
            self.failure = f"Vuser {user}: {said}"

    def _read_progress(self, said: str) -> None:
        if said == "Customer Done":
            self.customers += 1
        elif said == "Orders Done":
            self.orders += 1
        elif said.endswith("SCHEMA COMPLETE"):
            self.built = True
        elif said.startswith("Timing test period of"):
            self.phase = "measuring"
        elif said.startswith("Test complete,"):
            self.phase = "ending"
        elif match := _RESULT.match(said):
            self.new_orders_per_minute = int(match[1])
            self.transactions_per_minute = int(match[2])
        elif match := _ACTIVE.match(said):
            self.users = int(match[1])
        elif match := _VERSION.match(said):
            self.database_version = match[1].strip()
        elif match := _ROUTINES.search(said):
            self.switched = "procedures" if match[1] == "true" else "functions"
        elif match := _PROFILE.search(said):
            self.profile = match[1].strip()
        elif said.startswith(("ERROR:Timing", "WARNING:Timing")):
            self.profile_complete = False


#: HammerDB's names of the transactions, and ours.
_TRANSACTIONS = {
    "NEWORD": "new_order",
    "PAYMENT": "payment",
    "OSTAT": "order_status",
    "DELIVERY": "delivery",
    "SLEV": "stock_level",
}
_PROCEDURE = re.compile(r">>>>> PROC: (\w+)\s*$")
_FIELD = re.compile(r"(CALLS|P99|P95|P50): ([\d.]+)")


def response_times(text: str) -> dict[str, Operation]:
    """Return the response times by our name of the transaction; empty without a summary.

    ``text``: hdbxtprofile.log, with times from a user's first transaction on, its ramp-up included.
    Percentiles are the summary's, over the calls of all users. The summary's CALLS are twice the
    calls of the users where it also stores them (4.12): the users' own are added up instead.
    """
    users, _, summary = text.partition(">>>>> SUMMARY OF")
    calls: Counter[str] = Counter()
    for name, fields in _procedures(users):
        calls[name] += int(fields["CALLS"])
    return {
        _TRANSACTIONS[name]: Operation(
            percentiles_ns={p: round(float(fields[f"P{p}"]) * 1e6) for p in ("50", "95", "99")},
            called_count=calls[name],
        )
        for name, fields in _procedures(summary)
        if name in _TRANSACTIONS and name in calls
    }


def _procedures(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return the fields of every procedure as text."""
    sections: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        if match := _PROCEDURE.match(line):
            sections.append((match[1], {}))
        elif sections:
            sections[-1][1].update(_FIELD.findall(line))
    return sections
