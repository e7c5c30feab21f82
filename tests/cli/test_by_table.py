"""Single tables and indexes on a tier of their own, of a database of which one table is hot."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

#: Today's tier reads slowly, so that no real device matters.
TIERS = ("--model", "slow=latency:2ms", "--model", "fast=zero")
_ROWS = {"hot": 4000, "cold": 16000}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables: one is read at random, the larger one not at all.

    A read of it that a busy host delays would make it one that matters.
    """
    folder = tmp_path_factory.mktemp("tables")
    (folder / "load").mkdir()
    (folder / "queries").mkdir()
    (folder / "tables.sql").write_text(
        "".join(
            f"CREATE TABLE {table} (id integer PRIMARY KEY, pad varchar(600) NOT NULL);\n"
            for table in _ROWS
        )
    )
    for table, rows in _ROWS.items():
        with (folder / f"load/{table}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "pad"])
            writer.writerows([i, f"{i:05d}" * 100] for i in range(rows))
    ids = (i * 7919 % _ROWS["hot"] for i in range(200))  # none next to the one before it
    each = " union all ".join(f"select id s from hot where id = {i} and pad <> ''" for i in ids)
    (folder / "queries/lookups.sql").write_text(f"select sum(s) s from ({each}) found\n")
    return folder


def run(loaded: Any, folder: Path, *more: object, engine: str = "postgres") -> Any:
    of_queries = ("run", "sql", "--folder", folder, "--engine", engine, *TIERS)
    return loaded(*of_queries, "--cache", "cold-per-run", "--no-plans", *more, "--json")


def artifact(loaded: Any, document: Any, name: str) -> list[Any]:
    (stored,) = loaded.results.rglob(f"{document['run_id']}/artifacts/{name}.json")
    entries: list[Any] = json.loads(stored.read_text())
    return entries


def relations(loaded: Any, document: Any) -> dict[str, Any]:
    return {entry["name"]: entry for entry in artifact(loaded, document, "io-relations")}


def test_a_table_is_placed_and_verified(loaded: Any, folder: Path) -> None:
    placement = "data=slow,table:hot=fast,index:cold_pkey=fast"
    document = run(loaded, folder, "--placement", placement).run
    checks = {check["name"]: check["status"] for check in document["checks"]}
    assert checks["relations-placed"] == "passed"
    every = relations(loaded, document)
    assert {name: entry["kind"] for name, entry in every.items()} == {
        "cold": "table",
        "cold_pkey": "index",
        "hot": "table",
        "hot_pkey": "index",
    }
    moved = every["hot"]["bytes"] + every["cold_pkey"]["bytes"]
    assert document["part_bytes"]["relations"] == pytest.approx(moved, abs=100)
    (read,) = [io for io in every["hot"]["io"] if io["operation"] == "read"]
    assert read["role"] == "foreground" and read["calls"] > 50
    assert every["hot_pkey"]["table"] == "hot"
    operations = artifact(loaded, document, "io-operations")
    waiting = {entry["part"] for entry in operations if entry["modelled"]}
    assert waiting & {"data", "relations"} == {"data"}


@pytest.mark.parametrize("engine", ["mysql", "mariadb"])
def test_a_table_of_innodb_is_placed_with_its_indexes(
    loaded: Any, folder: Path, engine: str
) -> None:
    # MariaDB maps its log on a tmpfs; MySQL makes its whole buffer pool at each start.
    placement = ("--placement", "data=slow,wal=ssd,table:hot=fast", "--memory-limit", "512MiB")
    options = ("--set", "innodb_use_native_aio=OFF", *placement)
    document = run(loaded, folder, *options, engine=engine).run
    checks = {check["name"]: check["status"] for check in document["checks"]}
    assert checks["relations-placed"] == "passed"
    every = relations(loaded, document)
    assert set(every) == {"cold", "hot"}
    assert document["part_bytes"]["relations"] == every["hot"]["bytes"] > 1_000_000
    assert sum(io["calls"] for io in every["hot"]["io"] if io["operation"] == "read") > 50


@pytest.mark.parametrize(
    ("engine", "placement", "words"),
    [
        ("postgres", "data=slow,table:hott=fast", "hot"),
        ("postgres", "data=slow,table:hot=fast,table:cold=slow", "several tiers"),
        ("duckdb", "data=slow,table:hot=fast", "table:hot"),
        ("mysql", "data=slow,index:hot=fast", "one file"),
        ("mysql", "data=ssd,table:hott=ssd", "hot"),
    ],
)
def test_what_cannot_be_placed_is_refused(
    loaded: Any, folder: Path, engine: str, placement: str, words: str
) -> None:
    done = run(loaded, folder, "--placement", placement, "--dry-run", engine=engine)
    assert done.code == 2
    assert words in done.err


@pytest.mark.parametrize("small_disk", ["4M"], indirect=True)
def test_loaded_data_say_which_indexes_there_are_and_how_large_tables_are(
    loaded: Any, folder: Path, small_disk: Any
) -> None:
    host = ("--host", small_disk.host, "--placement")
    assert run(loaded, folder, *host, "data=slow").code == 0  # it loads
    missing = run(loaded, folder, *host, "data=slow,index:hot=fast", "--dry-run")
    assert (missing.code, "hot_pkey" in missing.err) == (2, True)
    assert run(loaded, folder, *host, "data=slow,table:hot=small", "--dry-run").code == 0
    large = run(loaded, folder, *host, "data=slow,table:cold=small", "--dry-run")
    assert (large.code, "small" in large.err) == (2, True)


def test_a_name_that_only_loading_shows_to_be_wrong_fails_the_run(
    harness: Any, folder: Path
) -> None:
    placement = ("--placement", "data=slow,index:hot=fast", "--retries", "0")
    done = run(harness, folder, *placement)
    assert (done.code, "hot_pkey" in done.out + done.err) == (1, True)


# Which of them to move ------------------------------------------------------------


#: Before the command: each arm runs once, and then the budget is spent.
ONE_PAIR = """
from harness.execution.run_time import Budget
left = [""]
Budget.refuses = lambda budget, cost_ns: left.pop() if left else "the budget is spent"
"""


def advise(loaded: Any, folder: Path, *more: object, engine: str = "postgres") -> Any:
    of_queries = ("advise", "sql", "--folder", folder, "--engine", engine, *TIERS, "--by-table")
    tiers = ("--from", "slow", "--to", "fast")
    return loaded(*of_queries, *tiers, "--cache", "cold-per-run", "--no-plans", *more, "--json")


def test_the_table_that_is_read_at_random_is_named(loaded: Any, folder: Path) -> None:
    """Its verdict depends on the host: a model has none where other programs are at work."""
    # Data are loaded and tables ranked; then no time is left for the arms.
    spent = advise(loaded, folder, "--budget", "1ms,100MB")
    assert (spent.code, "failed" in spent.json["error"]["hint"]) == (1, False)

    def compared_once(*argv: object) -> Any:
        return loaded.ended(loaded.start(*argv, first=ONE_PAIR))

    document = advise(compared_once, folder, "--budget", "4m,100MB").json
    (answer,) = document["answers"]
    assert "hot" in answer["sentence"] and "cold" not in answer["sentence"]
    shares = {row["relation"]: row["device_share"] for row in answer["rows"]}
    assert max(shares, key=lambda name: shares[name]) == "table:hot"
    *moved, everything = answer["arms"]
    assert everything["relations"] == [] and everything["bytes_share"] == 1
    sizes = {row["relation"]: row["bytes"] for row in answer["rows"]}
    for arm in moved:
        assert arm["bytes"] == sum(sizes[name] for name in arm["relations"])
    assert "table:hot" in moved[-1]["relations"] and moved[-1]["bytes_share"] < 0.5


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--budget", "40s,4kB"), "a larger size"),
        (("--budget", "40s,1GB,2GB"), "20m,10GB"),
        (("--no-monitor", "io"), "the I/O trace ranks"),
        (("--to", "slow"), "--to"),
    ],
)
def test_a_question_that_has_no_answer_is_refused(
    loaded: Any, folder: Path, more: tuple[str, ...], words: str
) -> None:
    done = advise(loaded, folder, *more)
    assert done.code == 2
    assert words in done.err


def test_engines_that_cannot_place_tables_are_refused(loaded: Any, folder: Path) -> None:
    assert advise(loaded, folder, engine="duckdb").code == 2
    ycsb = ("advise", "ycsb", "--engine", "rocksdb", "--from", "ssd", "--emulate", "pmem")
    done = loaded(*ycsb, "--to", "pmem", "--by-table")
    assert done.code == 2 and "one column family" in done.err
    sized = loaded(*ycsb, "--to", "pmem", "--budget", "10GB")
    assert sized.code == 2 and "--by-table" in sized.err
