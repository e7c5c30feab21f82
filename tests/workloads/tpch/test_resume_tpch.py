"""How a sitting catches up with what an earlier one did, in each cache mode."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from harness.workloads.query_runs import ResumeCursor


@dataclass
class Session:
    """Notes what is done, in order."""

    done: list = field(default_factory=list)
    said: list = field(default_factory=list)

    @property
    def progress(self):
        return self

    def say(self, text):
        self.said.append(text)

    def cold_start(self, label):
        self.done.append(f"cold {label}")

    def connect(self):
        self.done.append("connect")
        return self

    def close(self):
        self.done.append("close")


#: RF1, three queries, RF2.
WORK = ["rf1", "q14", "q2", "q9", "rf2"]


def sitting(cache, kept):
    """What is done in a sitting that finds the first ``kept`` pieces of work done."""
    session: Any = Session()
    cursor = ResumeCursor(session, session, cache, 3)
    cursor.cold_point("run")
    for number, work in enumerate(WORK):
        if number < kept:
            again = partial(session.done.append, f"again {work}")
            cursor.skip(again, changes_data=work.startswith("rf"), query=work.startswith("q"))
        else:
            cursor.ready(work, work.upper())
            session.done.append(work)
    return session


@pytest.mark.parametrize(
    ("cache", "done"),
    [
        ("cold-per-query", ["cold rf1", "rf1", "cold q14", "q14", "cold q2", "q2", "cold q9", "q9",
                            "cold rf2", "rf2"]),
        ("cold-per-run", ["cold run", *WORK]),
        ("warm", WORK),
    ],
)  # fmt: skip
def test_a_run_in_one_sitting_does_everything_once(cache, done):
    session = sitting(cache, 0)
    assert (session.done, session.said) == (done, [])


@pytest.mark.parametrize(
    ("cache", "done"),
    [
        ("cold-per-query", ["again rf1", "cold q9", "q9", "cold rf2", "rf2"]),
        ("cold-per-run", ["cold run-resumed", "again rf1", "again q14", "again q2", "q9", "rf2"]),
        ("warm", ["again rf1", "again q14", "again q2", "q9", "rf2"]),
    ],
)
def test_a_later_sitting_makes_data_and_caches_what_they_were_and_goes_on(cache, done):
    session = sitting(cache, 3)
    assert session.done == done
    (said,) = session.said
    assert said.startswith("resuming at Q9: 2 of 3 queries kept")


@pytest.mark.parametrize("cache", ["cold-per-query", "cold-per-run", "warm"])
def test_where_everything_is_kept_nothing_is_done(cache):
    assert sitting(cache, len(WORK)).done == []


def test_data_before_a_later_cold_point_are_changed_before_it():
    """The plan pass begins cold: queries before it need not run again, refresh functions do."""
    session: Any = Session()
    cursor = ResumeCursor(session, session, "cold-per-run", 1)
    cursor.cold_point("run")
    cursor.skip(partial(session.done.append, "again rf1"), changes_data=True)
    cursor.skip(partial(session.done.append, "again q14"), query=True)
    cursor.cold_point("run-plan")
    cursor.skip(partial(session.done.append, "again q14-plan"))
    cursor.ready("q2-plan", "Q2's plan")
    assert session.done == ["again rf1", "cold run-plan-resumed", "again q14-plan"]


def test_the_check_of_the_data_needs_the_data_alone():
    session: Any = Session()
    cursor = ResumeCursor(session, session, "warm", 1)
    cursor.skip(partial(session.done.append, "again rf1"), changes_data=True)
    cursor.skip(partial(session.done.append, "again q14"), query=True)
    cursor.data_ready("the check")
    assert session.done == ["again rf1"]


def test_a_cold_start_ends_the_connection():
    session: Any = Session()
    cursor = ResumeCursor(session, session, "cold-per-query", 2)
    cursor.ready("q1", "Q1")
    assert cursor.connection() is cursor.connection()
    cursor.ready("q2", "Q2")
    cursor.connection()
    cursor.close()
    assert session.done == ["cold q1", "connect", "close", "cold q2", "connect", "close"]
