"""TPC-H's answers, configuration and counters of MySQL and MariaDB."""

from __future__ import annotations

import json
import time
from importlib import resources
from typing import Any

import pytest
from patience import PATIENCE_S

from harness.sql_script import statements
from harness.workloads.tpch.answers import SHAPES, Answer, compare
from harness.workloads.tpch.qgen import QUERIES, parameters
from harness.workloads.tpch.reference import sum_tolerance
from harness.workloads.tpch.statements import query_sql

SCALE = 0.01


def test_all_answers_are_the_reference_ones(innodb, connection):
    shipped = resources.files("harness.workloads.tpch") / "answers" / f"sf{SCALE}.json"
    references = json.loads(shipped.read_text())["answers"]
    for query in QUERIES:
        sql = query_sql(query, parameters(query, None, SCALE), innodb.sql_folder / "tpch")
        rows = connection.execute(sql, timeout_s=300).rows
        reference = Answer.from_json(references[str(query)])
        agreement = compare(SHAPES[query], reference, rows, sum_tolerance(SCALE))
        assert agreement.agrees, f"Q{query}: {agreement.detail}"


def test_the_configuration_has_what_was_set_and_no_secret(innodb: Any) -> None:
    config = innodb.effective_config()
    assert config["innodb_buffer_pool_size"] == str(128 << 20)
    assert config["innodb_flush_log_at_trx_commit"] == "1"
    assert "version" in config
    assert not [name for name in config if "password" in name or name.startswith("ssl_")]
    assert innodb._password not in config.values()


def test_reading_counters_adds_nothing_to_them(innodb: Any) -> None:
    # What the server still does in the background by itself comes to an end.
    first, deadline = innodb.counters(), time.monotonic() + PATIENCE_S
    while (second := innodb.counters()) != first and time.monotonic() < deadline:
        first = second
    assert first == second
    assert {name.rpartition("_")[2] for name in first} <= {"bytes", "count", "ns"}
    assert first["innodb_data_read_bytes"] > 0


def test_a_sort_that_does_not_fit_is_counted(innodb, connection):
    before = innodb.counters()
    connection.execute("set session sort_buffer_size = 65536")
    connection.execute("select l_comment from lineitem order by l_comment, l_tax limit 50000, 1")
    after = innodb.counters()
    assert after["server_sort_merge_passes_count"] > before["server_sort_merge_passes_count"]
    if innodb.flavour == "mysql":
        # At least the comments themselves, 27 bytes each on average.
        assert after["spilled_bytes"] - before["spilled_bytes"] > 60_000 * 20
    else:  # its performance schema does not count a sort's files: left out, not zero
        assert "spilled_bytes" not in after


def test_log_bytes_are_counted(innodb, connection):
    connection.execute("create table logged (t longtext)")
    before = innodb.counters()["innodb_log_written_bytes"]
    connection.execute("insert into logged values (repeat('x', 1000000))")
    grown = innodb.counters()["innodb_log_written_bytes"] - before
    connection.execute("drop table logged")
    assert 1_000_000 <= grown < 3_000_000


def test_the_redo_log_and_its_checkpoint_are_counted(innodb: Any) -> None:
    counters = innodb.counters()
    assert counters["innodb_redo_bytes"] >= counters["innodb_redo_checkpointed_bytes"] > 0


@pytest.mark.parametrize("stem", ["20_keys", "30_indexes", "40_foreign_keys"])
def test_both_row_stores_have_the_same_keys_and_indexes(innodb: Any, stem: str) -> None:
    postgres = innodb.sql_folder.parents[1] / "postgres" / "sql" / "tpch"
    theirs = statements(postgres, stem)
    assert theirs == statements(innodb.sql_folder / "tpch", stem)[: len(theirs)]
    assert theirs
