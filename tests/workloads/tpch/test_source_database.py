"""The generated files after refresh functions: what references are computed from."""

import os
import signal
import threading
import time
from contextlib import closing

import duckdb
import pytest

from harness.workloads.tpch.answers import SHAPES, Answer, compare
from harness.workloads.tpch.qgen import QUERIES, parameters
from harness.workloads.tpch.reference import Answered, check_answers, shipped, sum_tolerance
from harness.workloads.tpch.refresh_data import orders_per_set, prepare
from harness.workloads.tpch.source_database import SourceDatabase, rows_of
from harness.workloads.tpch.statements import Statement, query_sql

SCALE = 0.01
SET = orders_per_set(SCALE)


@pytest.fixture(scope="module")
def refresh(tmp_path_factory, quiet):
    return prepare(SCALE, range(1, 3), tmp_path_factory.mktemp("sets"), quiet)


@pytest.fixture(params=[False, True], ids=["read for each", "loaded once"])
def database(request, sources, refresh, tmp_path):
    with closing(SourceDatabase(sources["csv"], tmp_path, refresh, request.param)) as opened:
        yield opened


def keys(connection):
    return {key for (key,) in rows_of(connection, "select o_orderkey from orders")}


def lines_of(connection):
    return {key for (key,) in rows_of(connection, "select distinct l_orderkey from lineitem")}


def test_every_function_adds_or_removes_the_keys_of_its_pair(database, refresh):
    base = keys(database.at(0))
    first, second = refresh.pair(1), refresh.pair(2)
    wanted = [
        base,
        base | set(first.insert_keys),
        (base | set(first.insert_keys)) - set(first.delete_keys),
        (base | {*first.insert_keys, *second.insert_keys}) - set(first.delete_keys),
        (base | {*first.insert_keys, *second.insert_keys})
        - {*first.delete_keys, *second.delete_keys},
    ]
    for state in (0, 3, 1, 4, 2, 0):  # in any order
        connection = database.at(state)
        assert keys(connection) == wanted[state] == lines_of(connection)
    assert [len(state) - len(base) for state in wanted] == [0, SET, 0, SET, 0]


def test_the_shipped_answers_after_rf1_are_those_of_the_data_after_rf1(database):
    of_loaded, after_rf1 = shipped(SCALE), shipped(SCALE, 1)
    assert after_rf1.keys() == of_loaded.keys() == set(QUERIES)
    assert sum(of_loaded[query] != after_rf1[query] for query in QUERIES) > 5
    for query in QUERIES:
        rows = rows_of(database.at(1), query_sql(query, parameters(query, None, SCALE)))
        agreement = compare(SHAPES[query], after_rf1[query], rows, sum_tolerance(SCALE))
        assert agreement.agrees, f"Q{query}: {agreement.detail}"


ENDLESS = "select sum(hash(i) % 7) from range(1000000000000) t(i)"


def interrupting(*numbers, apart_s=0.0):
    """A thread that sends these signals once a statement is under way."""
    begun = time.process_time()

    def interrupt():
        while time.process_time() - begun < 0.5:
            time.sleep(0.01)
        for number in numbers:
            os.kill(os.getpid(), number)
            if apart_s:
                time.sleep(apart_s)

    return threading.Thread(target=interrupt)


@pytest.mark.parametrize("apart_s", [0.01, 0.0])
def test_a_second_ctrl_c_right_behind_leaves_no_statement_running(apart_s):
    """The terminal's, and what a program above passes on of it, as another signal here: of two
    that wait, the second is raised in the middle of what follows the first.
    """
    there = set(threading.enumerate())
    replaced = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    with closing(duckdb.connect(config={"threads": 2})) as connection:
        thread = interrupting(signal.SIGINT, signal.SIGUSR1, apart_s=apart_s)
        try:
            with pytest.raises(KeyboardInterrupt):
                thread.start()
                try:
                    rows_of(connection, ENDLESS)
                finally:
                    thread.join()
        finally:
            signal.signal(signal.SIGUSR1, replaced)
        for left in set(threading.enumerate()) - there:
            left.join()  # the second Ctrl-C lets nobody wait for them
        assert rows_of(connection, "select 1") == [(1,)]


# Checks ------------------------------------------------------------------------------


@pytest.fixture
def checked(sources, refresh, tmp_path, monkeypatch, quiet):
    """Check of an answer to query 1 that was taken at one state, as one of others."""
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    values = parameters(1, 5, SCALE)
    source = sources["csv"].files["region"][0].parents[1]
    with closing(SourceDatabase(sources["csv"], tmp_path, refresh)) as database:
        answers = [rows_of(database.at(state), query_sql(1, values)) for state in range(3)]
    assert len({str(Answer.of(SHAPES[1], rows)) for rows in answers}) == 3

    def check(state, *, states, between=False, engine="postgres"):
        answered = Answered(Statement(1, values, "", 2), answers[state], states, between)
        (check,) = check_answers(SCALE, engine, source, [answered], quiet, refresh)
        return check

    return check


def test_an_answer_is_right_when_it_is_that_of_one_state_it_may_have_seen(checked):
    check = checked(1, states=(0, 1, 2))
    assert (check.status, check.labels) == ("passed", {"query": "1", "stream": "2"})
    assert "after 1 refresh functions" in check.detail
    assert checked(1, states=(1,)).status == "passed"


def test_an_answer_that_is_none_of_all_states_is_wrong(checked):
    check = checked(1, states=(0, 2))
    assert check.status == "failed"
    assert "nor at 1 other states" in check.detail


def test_what_may_have_seen_half_a_function_is_unknown_unless_it_agrees(checked):
    assert checked(1, states=(0, 1), between=True).status == "passed"
    check = checked(1, states=(0, 2), between=True)
    assert (check.name, check.status) == ("stream-answers", "unknown")
    assert "half of a refresh function" in check.detail
    assert checked(1, states=(), between=True).status == "unknown"


def test_without_an_independent_reference_nothing_is_passed(checked):
    check = checked(1, states=(1,), engine="duckdb")
    assert check.status == "unknown"
    assert "1 of 1 answers not compared" in check.detail
    assert checked(1, states=(1,)).status == "passed"
    assert checked(1, states=(1,), engine="duckdb").status == "passed"  # another engine agreed
    assert checked(1, states=(0,), engine="duckdb").status == "unknown"


def test_ctrl_c_ends_a_statement_that_would_take_for_ever():
    with closing(duckdb.connect(config={"threads": 2})) as connection:
        thread = interrupting(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            rows_of(connection, ENDLESS)
        thread.join()
        assert rows_of(connection, "select 1") == [(1,)]
