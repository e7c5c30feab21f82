"""A deviation in any single value is found; what the specification allows is not one."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import date, timedelta
from decimal import Decimal

import duckdb
import pytest
from narrowed import present
from patience import eventually

from harness.errors import RunFailed
from harness.store.datasets import DatasetStore
from harness.supervise.supervisor import Supervisor
from harness.workloads.tpch import data
from harness.workloads.tpch.answer_checks import Answered, check_answers, sum_tolerance
from harness.workloads.tpch.answers import (
    SHAPES,
    TOLERANT,
    AmbiguousAnswer,
    CanonicalAnswer,
    MalformedAnswer,
    canonical,
    compare,
    within,
)
from harness.workloads.tpch.qgen import QUERIES, parameters
from harness.workloads.tpch.reference import NoReference, References, read_kept, shipped
from harness.workloads.tpch.refresh_data import orders_per_set
from harness.workloads.tpch.source_database import SourceDatabase, open_views, rows_of
from harness.workloads.tpch.statements import TpchStatement, query_sql

SCALE = 0.01


@pytest.fixture(scope="module")
def answers(sources, tmp_path_factory):
    connection = open_views(sources["parquet"], tmp_path_factory.mktemp("spill"))
    return {
        query: rows_of(connection, query_sql(query, parameters(query, None, SCALE)))
        for query in QUERIES
    }


def agrees(query, rows, reference=None):
    reference = reference or shipped(SCALE)[query]
    return compare(SHAPES[query], reference, rows, sum_tolerance(SCALE))


@pytest.mark.parametrize("scale", [0.01, 0.1, 1])
def test_references_are_shipped_for_every_query(scale):
    assert set(shipped(scale)) == set(QUERIES)


def test_shipped_row_counts_at_scale_1_are_the_specifications():
    rows = {query: answer.rows for query, answer in shipped(1).items()}
    assert rows == {
        1: 4, 2: 100, 3: 10, 4: 5, 5: 5, 6: 1, 7: 4, 8: 2, 9: 175, 10: 20, 11: 1048,
        12: 2, 13: 42, 14: 1, 15: 1, 16: 18314, 17: 1, 18: 57, 19: 1, 20: 186, 21: 100, 22: 7,
    }  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_the_right_answer_agrees(answers, query):
    assert agrees(query, answers[query]).agrees


#: The nearest value that the specification calls wrong, by kind.
WRONG = {
    "char": lambda value: value[:-1] + ("x" if value[-1] != "x" else "y"),
    "text": lambda value: value[:-1] + ("x" if value[-1] != "x" else "y"),
    "date": lambda value: value + timedelta(days=1),
    "integer": lambda value: value + 1,
    "money": lambda value: value + Decimal("0.01"),
    "sum": lambda value: value + Decimal("1.01"),
    "sum-ratio": lambda value: value + 1.01,
    "average": lambda value: value * 1.011,
    "ratio": lambda value: value * 1.011 or 0.01,
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_change_of_any_single_value_is_found(answers, query):
    rows = answers[query]
    for number in {0, len(rows) // 2, len(rows) - 1} if rows else ():
        for position, column in enumerate(SHAPES[query].columns):
            row = list(rows[number])
            value = row[position]
            row[position] = 1 if value is None else WRONG[column.kind](value)
            changed = [*rows[:number], tuple(row), *rows[number + 1 :]]
            agreement = agrees(query, changed)
            assert not agreement.agrees
            assert column.name in agreement.detail or column.kind not in TOLERANT


@pytest.mark.parametrize("query", QUERIES)
def test_null_instead_of_any_value_is_found(answers, query):
    for position, _ in enumerate(SHAPES[query].columns):
        for number, row in enumerate(answers[query][:1]):
            changed = list(answers[query])
            nulled = None if row[position] is not None else 0
            changed[number] = (*row[:position], nulled, *row[position + 1 :])
            assert not agrees(query, changed).agrees


@pytest.mark.parametrize("query", QUERIES)
def test_a_missing_a_repeated_and_an_added_row_are_found(answers, query):
    rows = answers[query]
    extra = rows[-1] if rows else tuple([None] * len(SHAPES[query].columns))
    assert "row count" in agrees(query, [*rows, extra]).detail
    if rows:
        assert "row count" in agrees(query, rows[:-1]).detail
    if len(rows) > 1:
        assert not agrees(query, [rows[0], rows[0], *rows[2:]]).agrees


@pytest.mark.parametrize("query", QUERIES)
def test_rows_in_another_order_are_found_unless_they_tie(answers, query):
    rows = answers[query]
    order = SHAPES[query].order
    for first in range(min(len(rows) - 1, 30)):
        swapped = [*rows[:first], rows[first + 1], rows[first], *rows[first + 2 :]]
        tied = all(rows[first][i] == rows[first + 1][i] for i in order)
        assert agrees(query, swapped).agrees is tied


def test_tied_rows_may_come_in_any_order_and_are_still_compared():
    shape = SHAPES[11]  # ordered by value only
    rows = [(7, Decimal(9)), (3, Decimal(5)), (1, Decimal(5)), (2, Decimal(5)), (4, Decimal(1))]
    reference = CanonicalAnswer.of(shape, rows)
    assert reference.ties == ((1, 3),)
    assert agrees(11, [rows[0], rows[3], rows[1], rows[2], rows[4]], reference).agrees
    assert not agrees(11, [rows[1], rows[0], rows[3], rows[2], rows[4]], reference).agrees
    assert not agrees(11, [rows[0], (8, Decimal(5)), *rows[2:]], reference).agrees


def test_a_tie_across_the_row_limit_has_no_single_answer():
    shape = SHAPES[3]
    rows = [(key, Decimal(100 - min(key, 10)), date(1995, 1, 1), 0) for key in range(1, 12)]
    with pytest.raises(AmbiguousAnswer, match="10 and 11"):
        CanonicalAnswer.of(shape, rows)
    assert CanonicalAnswer.of(shape, rows[:10]).rows == 10


def test_types_of_an_engine_do_not_matter_but_values_do():
    assert canonical("GERMANY   ", "char") == canonical("GERMANY", "char")
    assert canonical("text ", "text") != canonical("text", "text")
    assert canonical(Decimal("1995"), "integer") == canonical(1995, "integer") == "1995"
    assert canonical(123.45, "money") == canonical(Decimal("123.450"), "money") == "123.45"
    assert canonical("1995-03-05", "date") == canonical(date(1995, 3, 5), "date")
    assert canonical(Decimal("-0.00"), "sum") == canonical(0, "sum") == "0"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.5, "integer"),
        (0.001, "money"),
        (float("nan"), "sum"),
        ("05.03.1995", "date"),
    ],
)
def test_what_cannot_be_of_a_kind_is_malformed(value, kind):
    with pytest.raises(MalformedAnswer):
        canonical(value, kind)


@pytest.mark.parametrize(
    ("kind", "want", "have", "agree"),
    [
        ("sum", "1000000", "1000100", True),  # clause 2.1.3.5 c: within $100
        ("sum", "1000000", "1000100.01", False),
        ("average", "25.52", "25.774", True),  # d: within 1 %
        ("average", "25.52", "25.776", False),
        ("ratio", "0.0344", "0.0345", True),
        ("ratio", "0.0344", "0.0301", False),  # both round to 0.03, and are 12 % apart
        ("ratio", "0.034999999", "0.035000001", True),  # either side of a rounding edge
        ("sum-ratio", "5000", "5090", False),  # within $100, not within 1 %
        ("sum-ratio", "348406.05", "348506.06", False),  # within 1 %, not within $100
    ],
)
def test_tolerances_are_those_of_the_specification(kind, want, have, agree):
    assert within(kind, want, have, sum_tolerance(1)) is agree


def test_below_scale_1_a_sum_may_differ_by_less():
    assert sum_tolerance(0.01) == 1
    assert sum_tolerance(100) == 100


def test_a_check_that_breaks_is_unknown_and_never_passed(answers, monkeypatch, quiet):
    def broken(*_):
        raise ZeroDivisionError("in the checker")

    monkeypatch.setattr("harness.workloads.tpch.answer_checks.compare", broken)
    answered = Answered(TpchStatement(6, parameters(6, None, SCALE), ""), answers[6])
    (check,) = check_answers(SCALE, "postgres", None, [answered], quiet)
    assert (check.status, "ZeroDivisionError" in check.detail) == ("unknown", True)


# The generated files after refresh functions: what references are computed from -----

SET = orders_per_set(SCALE)


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
    assert len({str(CanonicalAnswer.of(SHAPES[1], rows)) for rows in answers}) == 3

    def check(state, *, states, between=False, engine="postgres"):
        answered = Answered(TpchStatement(1, values, "", 2), answers[state], states, between)
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
    assert "seen half" in check.detail
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


def test_a_statement_without_an_end_is_interrupted_at_its_limit(monkeypatch):
    monkeypatch.setenv("HARNESS_SILENCE", "statement=0.2")
    with closing(duckdb.connect(config={"threads": 2})) as connection:
        with pytest.raises(RunFailed):
            rows_of(connection, ENDLESS)
        assert rows_of(connection, "select 1") == [(1,)]


# References computed from the source data leave nothing behind ----------------------

WAITING = f"""
import sys
from pathlib import Path
from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.reference import References
from harness.workloads.tpch.statements import TpchStatement
with References({SCALE}, "postgres", Path(sys.argv[1])) as references:
    print(references.of(TpchStatement(6, parameters(6, 5, {SCALE}), "")).origin, flush=True)
    sys.stdin.read()
"""


def test_killed_while_computing_it_leaves_no_file(sources, tmp_path):
    source = sources["parquet"].files["region"][0].parents[1]
    answers = tmp_path / "data" / "answers"
    environment = {**os.environ, "HARNESS_DATA": str(tmp_path / "data")}
    environment.pop("HARNESS_STATE", None)
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, str(source)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
    ) as process:  # fmt: skip
        assert present(process.stdout).readline().startswith("computed by DuckDB")
        (spill,) = answers.glob("tb-*")
        (spill / "duckdb_temp_storage-0.tmp").write_bytes(bytes(4096))
        process.kill()
    assert eventually(lambda: not spill.exists())


def test_computed_ones_are_kept_and_their_spill_is_removed(sources, tmp_path, monkeypatch):
    source = sources["parquet"].files["region"][0].parents[1]
    answers = tmp_path / "data" / "answers"
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("HARNESS_STATE", raising=False)
    statement = TpchStatement(6, parameters(6, 5, SCALE), "")
    with References(SCALE, "postgres", source) as references:
        computed = references.of(statement)
        assert list(answers.glob("tb-*"))
    assert not list(answers.glob("tb-*"))
    with References(SCALE, "postgres", None) as references:
        assert references.of(statement).answer == computed.answer


@pytest.mark.parametrize("content", ["", "{", "5", "{}", '{"totals": NaN}', "[" * 10_000])
def test_a_damaged_file_of_what_was_computed_is_left_out_by_name(tmp_path, capsys, content):
    file = tmp_path / f"kept-{len(content)}.json"
    assert read_kept(file, lambda document: document["totals"]["lineitem"]) is None
    assert capsys.readouterr().err == ""
    file.write_text(content)
    assert read_kept(file, lambda document: document["totals"]["lineitem"]) is None
    warned = capsys.readouterr().err
    assert warned.startswith("warning: answer-unreadable: ") and str(file) in warned


def test_nothing_is_computed_from_files_that_have_changed(tmp_path, monkeypatch, quiet):
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    statement = TpchStatement(6, parameters(6, 5, 0.001), "")
    with Supervisor(tmp_path / "state") as supervisor:
        store = DatasetStore(tmp_path / "source", supervisor.journal)
        with store.building("tpch", quiet) as building:
            assert building is not None
            data.generate(0.001, "parquet", building.content, quiet)
            source = building.publish({}, {}, quiet).content
        file = source / "nation" / "nation.1.parquet"
        file.write_bytes(file.read_bytes()[:-1] + b"x")
        with (
            References(0.001, "postgres", source) as references,
            pytest.raises(NoReference, match=file.name),
        ):
            references.of(statement)
