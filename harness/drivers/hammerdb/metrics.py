"""HammerDB's extended time profile: response times by transaction.

It reports no histogram of latencies and no counts by transaction in the measurement window, and
of transactions that it gave up only the server's errors.

The profile is its file hdbxtprofile.log. Its summary's CALLS are twice the calls of the users when
it also stores them (4.12): the users' own are added up instead. Percentiles are the summary's,
over the calls of all users. All of it counts from a user's first transaction, its ramp-up
included.
"""

from __future__ import annotations

import re
from collections import Counter

from harness.drivers.result import Operation

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
    """Return the response times by our name of the transaction; empty without a summary."""
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
    found: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        if match := _PROCEDURE.match(line):
            found.append((match[1], {}))
        elif found:
            found[-1][1].update(_FIELD.findall(line))
    return found
