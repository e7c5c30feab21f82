"""What is looked for after a kill: of a journal, in rows that a database may have."""

from typing import Any

import pytest

from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.workloads.tpcc.durability import Journal, check_durability

LINES = """\
N 1 2 3001 17 9
N 1 2 3002 18 5
P 1 2 1 2 17 250000
P 1 2 1 2 17 250000
D 1 7 2101,0,2102,2101,2101,2101,2101,2101,2101,2101
"""


class Connection:
    """Answers the two questions from lists of rows."""

    def __init__(self, orders: list[tuple[Any, ...]], history: list[tuple[Any, ...]]) -> None:
        self.orders, self.history = orders, history

    def execute(self, sql: str, *, timeout_s: float | None = None) -> Any:
        rows = self.history if "history" in sql else self.orders
        return type("Result", (), {"rows": rows})()

    def close(self) -> None:
        pass


ORDERS = [
    (2, 3001, 17, 9, None),
    (2, 3002, 18, 5, 3),  # delivered meanwhile
    (1, 2101, 5, 5, 7),
    (3, 2102, 5, 5, 7),
    *((d, 2101, 5, 5, 7) for d in range(4, 11)),
]
HISTORY = [(1, 2, 1, 2, 17, "2500.00", 2)]


def statuses(tmp_path, orders, history, lines=LINES):
    file = tmp_path / "journal"
    file.write_text(lines)
    engine = type("Engine", (), {"connect": lambda self: Connection(orders, history)})()
    checks = check_durability(Journal.read([file]), engine, SilentProgress())
    return {check.labels["transaction"]: (check.status, check.detail) for check in checks}


def test_everything_there(tmp_path):
    found = statuses(tmp_path, ORDERS, HISTORY)
    assert {name: status for name, (status, _) in found.items()} == {
        "new_order": "passed",
        "payment": "passed",
        "delivery": "passed",
    }
    assert all("nothing about a loss of power" in detail for _, detail in found.values())


@pytest.mark.parametrize(
    ("orders", "history", "lost"),
    [
        (ORDERS[1:], HISTORY, "new_order"),
        ([(2, 3001, 16, 9, None), *ORDERS[1:]], HISTORY, "new_order"),
        ([(2, 3001, 17, 8, None), *ORDERS[1:]], HISTORY, "new_order"),
        ([*ORDERS[:2], (1, 2101, 5, 5, None), *ORDERS[3:]], HISTORY, "delivery"),
        ([*ORDERS[:2], (1, 2101, 5, 5, 8), *ORDERS[3:]], HISTORY, "delivery"),
        (ORDERS, [(1, 2, 1, 2, 17, "2500.00", 1)], "payment"),
        (ORDERS, [], "payment"),
    ],
)
def test_what_is_lost_is_named(tmp_path, orders, history, lost):
    found = statuses(tmp_path, orders, history)
    assert [name for name, (status, _) in found.items() if status == "failed"] == [lost]
    assert "w=1 d=" in found[lost][1]


def test_nothing_committed_proves_nothing(tmp_path):
    found = statuses(tmp_path, ORDERS, HISTORY, "")
    assert {status for status, _ in found.values()} == {"unknown"}


def test_a_line_that_is_none_is_named(tmp_path):
    with pytest.raises(RunFailed, match="line 2 is none"):
        statuses(tmp_path, ORDERS, HISTORY, "N 1 2 3001 17 9\nX 1\n")
