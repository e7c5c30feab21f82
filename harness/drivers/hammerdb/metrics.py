"""The result of a timed run of HammerDB, and the response times of its extended time profile.

It reports no histogram of latencies and no counts by transaction in the measurement window, and
of transactions that it gave up only the server's errors.

The profile is its file hdbxtprofile.log. Its summary's CALLS are twice the calls of the users when
it also stores them (4.12): the users' own are added up instead. Percentiles are the summary's,
over the calls of all users. All of it counts from a user's first transaction, its ramp-up
included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

#: HammerDB's names of the transactions, and ours.
_TRANSACTIONS = {
    "NEWORD": "new_order",
    "PAYMENT": "payment",
    "OSTAT": "order_status",
    "DELIVERY": "delivery",
    "SLEV": "stock_level",
}
_PROCEDURE = re.compile(r">>>>> PROC: (\w+)\s*$")
_FIELD = re.compile(r"(CALLS|MIN|AVG|MAX|P99|P95|P50): ([\d.]+)")


@dataclass(frozen=True)
class ResponseTimes:
    """Of one transaction, ramp-up included, in ns. ``calls``: of all users together."""

    calls: int
    least_ns: int
    mean_ns: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    most_ns: int


@dataclass(frozen=True)
class Measured:
    """One timed run.

    ``new_orders_per_minute``: from the growth of d_next_o_id. ``transactions_per_minute``:
    the server's commits and rollbacks, whoever made them. ``started_ns``, ``duration_ns``:
    the window between HammerDB's two counts, on the monotonic clock; HammerDB divides by its
    whole minutes. ``client_cpu_ns``: of its process in that window. ``refused``: transactions
    that it gave up, by the server's error number, its ramp-up included.
    """

    version: str
    database_version: str | None
    users: int
    new_orders_per_minute: int
    transactions_per_minute: int
    started_ns: int
    duration_ns: int
    client_cpu_ns: int | None
    refused: Mapping[str, int] = field(default_factory=dict)
    response_times: Mapping[str, ResponseTimes] = field(default_factory=dict)

    @property
    def transactions(self) -> float:
        """In the measured window, after HammerDB's rate of them."""
        return self.transactions_per_minute * self.duration_ns / 60e9


def response_times(text: str) -> Mapping[str, ResponseTimes]:
    """By our name of the transaction; empty where there is no summary."""
    users, _, summary = text.partition(">>>>> SUMMARY OF")
    calls: dict[str, int] = {}
    for name, fields in _procedures(users):
        calls[name] = calls.get(name, 0) + int(fields["CALLS"])
    found = {name: _of(fields) for name, fields in _procedures(summary)}
    return {
        _TRANSACTIONS[name]: replace(times, calls=calls[name])
        for name, times in found.items()
        if name in _TRANSACTIONS and name in calls
    }


def _procedures(text: str) -> list[tuple[str, dict[str, str]]]:
    """Every procedure's fields, as they stand."""
    found: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        if match := _PROCEDURE.match(line):
            found.append((match[1], {}))
        elif found:
            found[-1][1].update(_FIELD.findall(line))
    return found


def _of(fields: Mapping[str, str]) -> ResponseTimes:
    return ResponseTimes(
        calls=int(fields["CALLS"]),
        least_ns=_ns(fields["MIN"]),
        mean_ns=_ns(fields["AVG"]),
        p50_ns=_ns(fields["P50"]),
        p95_ns=_ns(fields["P95"]),
        p99_ns=_ns(fields["P99"]),
        most_ns=_ns(fields["MAX"]),
    )


def _ns(milliseconds: str) -> int:
    return round(float(milliseconds) * 1e6)
