"""The user's own queries, and runs on a server of the user's."""

import json
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from lab import open_lab
from patience import eventually

from harness.store.checkpoint import steps_kept

#: Of Spark, engines/test_own_data.py measures the example.
ENGINES = ("duckdb", "postgres", "mariadb")


@pytest.fixture
def shop(loaded: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    assert len(loaded("workload", "init", folder, "--json").document["files"]) == 15
    return folder


def measure(loaded: Any, shop: Path, engine: str, *more: object) -> tuple[int, Any]:
    command = ("run", "sql", "--folder", shop, "--engine", engine, "--placement", "ssd-both")
    done = loaded(*command, *more, "--json")
    (run,) = done.json["runs"]
    return done.code, run


@pytest.mark.parametrize("engine", ENGINES)
def test_the_example_runs_as_it_is(loaded: Any, shop: Path, engine: str) -> None:
    code, run = measure(loaded, shop, engine, "--cache", "cold-per-run")
    assert (code, run["status"]) == (0, "complete")
    assert {check["status"] for check in run["checks"]} == {"passed"}
    assert sorted(check["name"] for check in run["checks"]) == ["answer"] * 5 + ["check.sql"] * 2
    names = {path.stem for path in (shop / "queries").iterdir()}
    for metric in ("query_duration_ns", "plan_run_duration_ns"):
        names_measured = [m["labels"]["query"] for m in run["metrics"] if m["name"] == metric]
        assert set(names_measured) == names and len(names_measured) == 5


@pytest.mark.parametrize(
    ("benchmark", "queries", "of_all"), [("tpcds", "q3,q78", 99), ("ssb", "q1_1,q3_1", 13)]
)
def test_a_public_benchmark_has_the_answers_of_another_engine(
    loaded: Any, tmp_path: Path, benchmark: str, queries: str, of_all: int
) -> None:
    folder = tmp_path / benchmark
    size = ("--from", benchmark, "--scale", "0.01", "--engine", "postgres")
    made = loaded("workload", "init", folder, *size, "--json").document["files"]
    assert sum("/queries/" in name for name in made) == of_all
    only = ("--queries", queries, "--no-plans", "--cache", "warm")
    code, run = measure(loaded, folder, "postgres", *only)
    assert (code, run["status"]) == (0, "complete")
    assert [check["status"] for check in run["checks"]] == ["passed"] * 2


@pytest.mark.parametrize(
    "wrong",
    [
        ("--from", "tpcd"),
        ("--from", "ssb", "--scale", "0"),
        ("--from", "ssb", "--scale", "nan"),
        ("--from", "ssb", "--engine", "rocksdb"),
        ("--scale", "2"),
    ],
)
def test_what_no_public_benchmark_can_be_is_an_error_of_usage(
    loaded: Any, tmp_path: Path, wrong: tuple[str, ...]
) -> None:
    assert loaded("workload", "init", tmp_path / "new", *wrong).code == 2
    assert not (tmp_path / "new").exists()


def test_a_row_of_the_check_and_a_wrong_answer_fail_the_run(loaded: Any, shop: Path) -> None:
    (shop / "check.sql").write_text("select 1 as bad where 1 = 2; select id from customer;")
    (shop / "answers/never_bought.csv").write_text("id,name\n1,Product 1\n")
    only = ("--queries", "never_bought", "--no-plans", "--retries", "0", "--keep-answers", "none")
    code, run = measure(loaded, shop, "postgres", *only)
    assert (code, run["status"]) == (1, "failed")
    assert "Product" not in str(run["checks"]), "no value of the data is stored"
    assert not (loaded.results / "runs" / run["run_id"] / "artifacts/answers.json").exists()
    failed = [(c["name"], c["labels"]) for c in run["checks"] if c["status"] == "failed"]
    assert failed == [("answer", {"query": "never_bought"}), ("check.sql", {"statement": "2"})]


def test_scripts_fail_where_a_row_of_the_check_is_a_key_drawn_twice(
    loaded: Any, tmp_path: Path
) -> None:
    folder, script = tmp_path / "keys", tmp_path / "draw.sql"
    folder.mkdir()
    (folder / "tables.sql").write_text("create table drawn (rare bigint, same int);")
    (folder / "check.sql").write_text(
        "select rare from drawn group by rare having count(*) > 1;\n"
        "select same from drawn group by same having count(*) > 1;\n"
    )
    script.write_text(
        f"\\set rare random(1, {10**15})\n\\set same random(1, 1)\n"
        "insert into drawn values (:rare, :same);\n"
    )
    load = ("--driver", "pgbench", "--script", script, "--users", "2", "--rate", "50")
    window = ("--ramp-up", "0s", "--duration", "1s", "--retries", "0")
    code, run = measure(loaded, folder, "postgres", *load, *window)
    assert (code, run["status"]) == (1, "failed")
    rows = {check["labels"]["statement"]: check["status"] for check in run["checks"]}
    assert rows == {"1": "passed", "2": "failed"}


def test_pgbench_runs_its_own_scripts_on_its_own_tables(loaded: Any) -> None:
    command = ("run", "sql", "--engine", "postgres", "--placement", "ssd-both", "--json")
    load = ("--driver", "pgbench", "--script", "tpcb-like@3", "--script", "select-only")
    size = ("--scale", "2", "--users", "3", "--rate", "100", "--ramp-up", "0s", "--duration", "1s")
    done = loaded(*command, *load, *size)
    (run,) = done.json["runs"]
    assert (done.code, run["status"]) == (0, "complete")
    assert run["spec"]["params"]["protocol"] == "simple"
    checks = [(check["labels"]["table"], check["status"]) for check in run["checks"]]
    assert checks == [("accounts", "passed"), ("branches", "passed")]
    done_by = {m["labels"]["operation"]: m["value"] for m in run["metrics"]
               if m["name"] == "operation_count"}  # fmt: skip
    assert done_by.keys() == {"tpcb-like", "select-only"} and sum(done_by.values()) > 0
    assert "branches-contended" in {warning["code"] for warning in run["uncontrolled"]}
    folder = loaded.results / "runs" / run["run_id"] / "artifacts"
    client = json.loads((folder / "client.json").read_text())
    assert client["scale"] == 2
    assert [(script["name"], script["weight"]) for script in client["scripts"]] == [
        ("tpcb-like", 3), ("select-only", 1),
    ]  # fmt: skip


def test_scale_is_the_rows_of_pgbench_branches(loaded: Any, tmp_path: Path) -> None:
    folder, script = tmp_path / "bank", tmp_path / "note.sql"
    (folder / "load").mkdir(parents=True)
    tables = "create table seen (scale int);"
    (folder / "tables.sql").write_text(f"create table public.pgbench_branches (bid int); {tables}")
    (folder / "load/pgbench_branches.csv").write_text("bid\n1\n2\n3\n")
    (folder / "check.sql").write_text("select scale from seen where scale <> 3;")
    script.write_text("insert into seen values (:scale);\n")
    load = ("--driver", "pgbench", "--script", script, "--users", "2", "--ramp-up", "0s")
    code, run = measure(loaded, folder, "postgres", *load, "--rate", "50", "--duration", "1s")
    assert (code, run["status"]) == (0, "complete")
    (folder / "tables.sql").write_text(tables)
    (folder / "load/pgbench_branches.csv").unlink()
    where = ("--folder", folder, "--engine", "postgres", "--placement", "ssd-both")
    assert "scale" in loaded("run", "sql", *where, *load).err
    done = loaded("run", "sql", *where, "--driver", "pgbench", "--script", "select-only")
    assert done.code == 2 and "pgbench_branches" in done.err


def test_a_client_s_command_in_a_dump_is_an_error_of_usage(loaded: Any, shop: Path) -> None:
    (shop / "load/more.sql").write_text("\\ir /etc/shadow\n")
    command = ("run", "sql", "--folder", shop, "--engine", "postgres", "--placement", "ssd-both")
    done = loaded(*command, "--json")
    assert done.code == 2 and "load/more.sql, line 1" in done.err


def test_a_load_that_fails_is_attempted_and_explained_once(loaded: Any, shop: Path) -> None:
    rows = (shop / "load/customer.csv").read_text().partition("\n")[2]
    (shop / "load/customer.csv").write_text(rows)
    command = ("run", "sql", "--folder", shop, "--engine", "duckdb", "--placement", "ssd-both")
    done = loaded(*command, "--repeats", "2")
    assert done.code == 1 and "and 1 other run: error" in done.out
    words = "its first line names no column"
    assert [done.err.count(words), done.out.count(words)] == [1, 1]


def test_a_query_that_fails_leaves_the_times_of_the_others(loaded: Any, shop: Path) -> None:
    (shop / "queries/colours.sql").write_text("select colour from product")
    code, run = measure(loaded, shop, "postgres", "--queries", "colours,never_bought")
    assert (code, run["status"]) == (0, "unknown")
    times = [m["labels"] for m in run["metrics"] if m["name"] == "query_duration_ns"]
    assert times == [{"query": "never_bought"}]
    (check,) = [c for c in run["checks"] if c["status"] == "unknown"]
    assert check["labels"] == {"query": "colours"} and "colour" in check["detail"]


def test_answers_of_a_run_become_the_expected_ones(loaded: Any, shop: Path, tmp_path: Path) -> None:
    shipped = (shop / "answers/top_customers.csv").read_text()
    for path in (shop / "answers").iterdir():
        path.unlink()
    _, run = measure(loaded, shop, "duckdb", "--no-plans")
    assert [c["name"] for c in run["checks"] if c["status"] == "unknown"] == ["answers-compared"]
    folder = loaded.results / "runs" / run["run_id"]
    assert folder.stat().st_mode & 0o777 == 0o700
    archive = tmp_path / "runs.tar.gz"
    assert "export-of-private-runs" in loaded("runs", "export", run["run_id"], "-o", archive).err
    loaded("runs", "import", archive, "--results", tmp_path / "taken")
    (taken,) = (tmp_path / "taken" / "runs").iterdir()
    assert taken.stat().st_mode & 0o777 == 0o700
    done = loaded("workload", "answers", shop, run["run_id"], "--json")
    assert len(done.document["files"]) == 5
    written = (shop / "answers/top_customers.csv").read_text()
    assert sorted(written.splitlines()[1:]) == sorted(shipped.splitlines()[1:])
    _, again = measure(loaded, shop, "duckdb", "--no-plans", "--keep-answers", "digest")
    assert again["status"] == "complete"
    stored = [
        json.loads((folder.with_name(measured["run_id"]) / "artifacts/answers.json").read_text())
        for measured in (run, again)
    ]
    assert {name: answer["digest"] for name, answer in stored[0].items()} == {
        name: answer["digest"] for name, answer in stored[1].items()
    }
    assert {*stored[1]["top_customers"]} == {"row_count", "digest"}


# A recorded load ------------------------------------------------------------------

RECORDED = Path(__file__).parents[1] / "capture/recordings/postgres-15.csv"


def test_a_log_is_recorded_without_printing_its_literals(loaded: Any, tmp_path: Path) -> None:
    command = ("workload", "capture", tmp_path / "made", "--log", RECORDED, "--engine")
    done = loaded(*command, "postgres")
    assert done.code == 0 and "o'x" not in done.out and "b=?" in done.out
    document = loaded(*command, "postgres", "--literals", "keep", "--json").document
    assert document["statements"] == 42 and "series(1,1000)" in str(document["examples"])
    assert loaded(*command, "mysql").code == 2
    both = ("--dsn", "dbname=d")
    assert loaded(*command, "postgres", *both).code == 2
    assert loaded(*command[:3], "--engine", "mysql", *both).code == 2
    assert loaded(*command, "postgres", "--for", "10m").code == 2


def test_an_interrupted_capture_of_a_server_leaves_nothing(harness: Any, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    options = ("--engine", "postgres", "--dsn", "env")
    with open_lab() as lab:
        engine = lab.started("postgres", {"shared_preload_libraries": "pg_stat_statements"})
        address = engine.native_connection()
        dsn = " ".join(f"{name}={address[name]}" for name in ("host", "port", "user", "password"))
        given = {"HARNESS_DSN": f"{dsn} dbname=harness"}
        command = ("workload", "capture", folder, *options)
        assert harness(*command, "--for", "1s", **given).code == 2, "it counts no statements"
        assert not folder.exists()
        with closing(engine.connect()) as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
        process = harness.start(*command, "--for", "10m", **given)
        assert eventually(lambda: [*folder.glob(".capture-*/load/harness.sql")])
        process.send_signal(signal.SIGINT)
        process.communicate()
        engine.kill()
    assert process.returncode == 130
    assert not folder.exists()


#: A self reference, a circle, two columns, a generated one, partitions, a table without a key.
REFERRING = """
    CREATE TABLE staff (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "the boss" int,
        team int NOT NULL, name text, twice int GENERATED ALWAYS AS (team * 2) STORED);
    CREATE TABLE team (id int PRIMARY KEY, head int);
    CREATE TABLE branch (bank int, nr int, note text, PRIMARY KEY (bank, nr));
    CREATE TABLE sale (id int, at date, bank int, nr int, seller int, PRIMARY KEY (id, at))
        PARTITION BY RANGE (at);
    CREATE TABLE sale_1 PARTITION OF sale FOR VALUES FROM ('2026-01-01') TO ('2026-01-11');
    CREATE TABLE sale_2 PARTITION OF sale FOR VALUES FROM ('2026-01-11') TO ('2026-02-01');
    CREATE TABLE refund (id int PRIMARY KEY, sale int, sold date);
    CREATE TABLE visit (bank int, nr int, text text);
    INSERT INTO team SELECT g FROM generate_series(0, 99) g;
    INSERT INTO staff ("the boss", team, name)
        SELECT nullif(g / 3, 0), g % 100, E'tab\\t\\\\ ' || g FROM generate_series(1, 3000) g;
    UPDATE team SET head = id * 7 + 1;
    INSERT INTO branch SELECT g / 50, g % 50, 'x' FROM generate_series(0, 2499) g;
    INSERT INTO sale SELECT g, date '2026-01-01' + g % 20, g % 50, g % 60, g % 2000 + 1
        FROM generate_series(1, 5000) g WHERE g % 60 < 50;
    INSERT INTO refund SELECT id, id, at FROM sale;
    INSERT INTO visit SELECT g % 50, g % 50, 'v' FROM generate_series(1, 2000) g;
    ALTER TABLE staff ADD FOREIGN KEY ("the boss") REFERENCES staff,
        ADD FOREIGN KEY (team) REFERENCES team;
    ALTER TABLE team ADD FOREIGN KEY (head) REFERENCES staff;
    ALTER TABLE sale ADD FOREIGN KEY (bank, nr) REFERENCES branch,
        ADD FOREIGN KEY (seller) REFERENCES staff;
    ALTER TABLE refund ADD FOREIGN KEY (sale, sold) REFERENCES sale;
    ALTER TABLE visit ADD FOREIGN KEY (bank, nr) REFERENCES branch;
"""


def test_a_sample_of_a_server_has_all_rows_that_it_refers_to(loaded: Any, tmp_path: Path) -> None:
    folder = tmp_path / "part"
    with open_lab() as lab:
        engine = lab.started("postgres")
        with closing(engine.connect()) as connection:
            connection.raw.execute(REFERRING)
        address = engine.native_connection()
        dsn = " ".join(f"{name}={address[name]}" for name in ("host", "port", "user", "password"))
        options = ("--engine", "postgres", "--dsn", "env", "--rows")
        given = {"HARNESS_DSN": f"{dsn} dbname=harness"}
        assert loaded("workload", "capture", folder, *options, "0%", **given).code == 2
        done = loaded("workload", "capture", folder, *options, "5%", "--json", **given)
        again = loaded("workload", "capture", tmp_path / "b", *options, "5%", **given)
        assert "public.visit" in again.out.splitlines()[-2]
        engine.kill()
    sample = {table["name"].removeprefix("public."): table for table in done.json["sample"]}
    for name, rows in {"staff": 3000, "branch": 2500, "refund": 4167, "visit": 2000}.items():
        assert 0.02 * rows < sample[name]["drawn"] < 0.09 * rows, name
    assert sample["staff"]["parents"] and sample["sale_1"]["parents"] and sample["team"]["parents"]
    assert [name for name, table in sample.items() if not table["key"]] == ["visit"]
    written = (folder / "load/harness.sql").read_bytes()
    assert (tmp_path / "b/load/harness.sql").read_bytes() == written, "the same rows each time"
    (folder / "queries").mkdir()
    counts = ", ".join(f"(select count(*) from {name})" for name in sample)
    (folder / "queries/counts.sql").write_text(f"select {counts}")
    (folder / "answers").mkdir()
    counted = [str(table["drawn"] + table["parents"]) for table in sample.values()]
    (folder / "answers/counts.csv").write_text(f"{','.join(sample)}\n{','.join(counted)}\n")
    code, run = measure(loaded, folder, "postgres")  # foreign keys are made after the rows
    assert (code, run["status"]) == (0, "complete"), run["error"]
    assert [check["status"] for check in run["checks"]] == ["passed"]


#: A reference to a later table, a view of a view, a trigger, generated and binary columns.
OF_MYSQL = r"""
    CREATE TABLE b (id int PRIMARY KEY AUTO_INCREMENT, note varchar(40), at timestamp NULL,
        bits bit(9), raw varbinary(9), price decimal(9, 3), half double, doc json,
        twice decimal(9, 3) GENERATED ALWAYS AS (price * 2) STORED);
    CREATE TABLE a (b int NOT NULL, FOREIGN KEY (b) REFERENCES b (id));
    CREATE VIEW y AS SELECT id, note FROM b;
    CREATE VIEW x AS SELECT id FROM y;
    CREATE TRIGGER stamp BEFORE INSERT ON a FOR EACH ROW BEGIN SET @a = 1; SET @b = 2; END;
    INSERT INTO b (note, at, bits, raw, price, half, doc) VALUES
        ('it''s \\ \n "x" ä', '2026-01-02 03:04:05', b'100000001', 0x00ff27, -1.250, 0.1,
         '{"k": [1]}'),
        (NULL, NULL, NULL, '', NULL, NULL, NULL);
    INSERT INTO a VALUES (2), (2);
    CREATE USER reader IDENTIFIED BY 'secret word';
    GRANT SELECT, SHOW VIEW, TRIGGER ON harness.* TO reader;
    GRANT SELECT ON performance_schema.* TO reader;
"""


#: Has a row where a value was changed.
OF_ROWS = r"""
    SELECT 'changed' AS b WHERE (SELECT count(*) FROM a JOIN x ON x.id = a.b) <> 2
        OR (SELECT count(*) FROM b WHERE note IS NULL AND raw = '' AND bits IS NULL) <> 1
        OR (SELECT count(*) FROM b WHERE note = 'it''s \\ \n "x" ä' AND hex(raw) = '00FF27'
            AND bits + 0 = 257 AND price = -1.25 AND twice = -2.5 AND half = 0.1 AND id = 1
            AND at = '2026-01-02 03:04:05' AND json_extract(doc, '$.k[0]') = 1) <> 1;
"""


#: As REFERRING. The key of one table is a text, that of another one does not exclude NULL.
MYSQL_REFERRING = r"""
    CREATE DATABASE part;
    USE part;
    CREATE TABLE n (g int PRIMARY KEY);
    INSERT INTO n VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
    CREATE VIEW g AS SELECT a.g + 10 * b.g + 100 * c.g AS g FROM n a, n b, n c;
    CREATE TABLE team (id varchar(20) PRIMARY KEY, head int);
    CREATE TABLE staff (id int PRIMARY KEY, `the ``boss` int, team varchar(20) NOT NULL,
        twice int GENERATED ALWAYS AS (id * 2) STORED,
        FOREIGN KEY (`the ``boss`) REFERENCES staff (id), FOREIGN KEY (team) REFERENCES team (id));
    CREATE TABLE place (x double NOT NULL UNIQUE, code int UNIQUE);
    CREATE TABLE branch (bank int, nr varbinary(9), place int, PRIMARY KEY (bank, nr),
        FOREIGN KEY (place) REFERENCES place (code));
    CREATE TABLE visit (bank int, nr varbinary(9), note text,
        FOREIGN KEY (bank, nr) REFERENCES branch (bank, nr));
    INSERT INTO team SELECT concat('it''s \\ ', g), NULL FROM g WHERE g < 100;
    INSERT INTO staff (id, `the ``boss`, team)
        SELECT g + 1, nullif(g div 3, 0), concat('it''s \\ ', g % 100) FROM g ORDER BY g;
    UPDATE team SET head = (SELECT min(id) FROM staff WHERE team = team.id);
    ALTER TABLE team ADD FOREIGN KEY (head) REFERENCES staff (id);
    INSERT INTO place SELECT g / 8, g FROM g WHERE g < 30;
    INSERT INTO branch SELECT g % 50, char(g div 50), g % 30 FROM g;
    INSERT INTO visit SELECT g % 50, char(g % 20), 'v' FROM g;
    CREATE USER sampler;
    GRANT SELECT, SHOW VIEW, TRIGGER ON part.* TO sampler;
"""


#: Has a row where a reference has no row.
OF_PART = """
    SELECT c.id FROM staff c LEFT JOIN staff p ON p.id = c.`the ``boss`
        WHERE c.`the ``boss` IS NOT NULL AND p.id IS NULL;
    SELECT c.id FROM staff c LEFT JOIN team p ON p.id = c.team WHERE p.id IS NULL;
    SELECT c.id FROM team c LEFT JOIN staff p ON p.id = c.head WHERE p.id IS NULL;
    SELECT c.nr FROM branch c LEFT JOIN place p ON p.code = c.place WHERE p.code IS NULL;
    SELECT c.nr FROM visit c LEFT JOIN branch p ON p.bank = c.bank AND p.nr = c.nr
        WHERE p.nr IS NULL;
"""


def capture_whole(loaded: Any, folder: Path, engine: str, socket: str) -> None:
    """Capture the database of OF_MYSQL by a role that only reads."""
    options = ("--engine", engine, "--dsn", "env")
    given = {"HARNESS_DSN": f"mysql://reader:secret%20word@/harness?socket={socket}"}
    plain = loaded("workload", "capture", folder, *options[:3], given["HARNESS_DSN"])
    done = loaded("workload", "capture", folder, *options, "--json", **given)
    again = folder.with_name("again")
    assert loaded("workload", "capture", again, *options, "--for", "1ms", **given).code == 0
    assert (plain.code, done.code) == (2, 0), done.err
    tables, rows, weights = (Path(name).read_text("utf-8") for name in done.json["files"])
    assert "it's" not in tables and "secret" not in tables + rows + weights
    assert "INSERT INTO `a` VALUES" in weights


def capture_part(loaded: Any, folder: Path, engine: str, socket: str) -> Any:
    """Capture a sample of MYSQL_REFERRING's; return what it has of each table."""
    options = ("--engine", engine, "--dsn", "env", "--rows", "5%", "--json")
    given = {"HARNESS_DSN": f"mysql://sampler@/part?socket={socket}"}
    other = folder.with_name("other")
    document = loaded("workload", "capture", folder, *options, **given).document
    assert loaded("workload", "capture", other, *options, **given).code == 0
    written = [(path / "load/part.sql").read_bytes() for path in (folder, other)]
    assert written[0] == written[1], "the same rows each time"
    sample = {table["name"].strip("`"): table for table in document["sample"]}
    for name in ("staff", "branch", "visit"):
        assert 20 < sample[name]["drawn"] < 90, name
    assert sample["staff"]["parents"] and sample["branch"]["parents"] and sample["team"]["parents"]
    assert [name for name, table in sample.items() if not table["key"]] == ["place", "visit"]
    assert sample["place"]["drawn"] == 30, "a table without a key, to which others refer, is whole"
    return sample


@pytest.mark.parametrize("engine", ["mysql", "mariadb"])
def test_databases_of_mysql_are_read_whole_and_in_part(
    loaded: Any, tmp_path: Path, engine: str
) -> None:
    """A run loads both: no value has changed, and a sample has all rows that it refers to."""
    folder, part = tmp_path / "read", tmp_path / "part"
    with open_lab() as lab:
        server = lab.started(engine, {"performance_schema": "ON"})
        with closing(server.connect()) as connection:
            for statement in OF_MYSQL.split(";\n    "):
                connection.execute(statement.rstrip().rstrip(";"))
            assert connection.execute(OF_ROWS.rstrip().rstrip(";")).rows == []
            for statement in MYSQL_REFERRING.split(";\n    "):
                connection.execute(statement.rstrip().rstrip(";"))
        socket = server.native_connection()["socket"]
        capture_whole(loaded, folder, engine, socket)
        sample = capture_part(loaded, part, engine, socket)
        server.kill()
    (part / "load/part.sql").rename(folder / "load/part.sql")
    for name in ("queries", "answers"):
        (folder / name).mkdir(exist_ok=True)
    counts = ", ".join(f"(select count(*) from {name})" for name in sample)
    counted = [str(table["drawn"] + table["parents"]) for table in sample.values()]
    texts = {
        "tables.sql": (part / "tables.sql").read_text() + (folder / "tables.sql").read_text(),
        "queries/all.sql": "select count(*) as n from b, x",
        "answers/all.csv": "n\n4\n",
        "queries/counts.sql": f"select {counts}",
        "answers/counts.csv": f"{','.join(sample)}\n{','.join(counted)}\n",
        "check.sql": OF_ROWS + OF_PART,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    # MySQL makes its buffer pool at each start, and by default a large one.
    options = ("--queries", "all,counts", "--no-plans", "--memory-limit", "512MiB")
    code, run = measure(loaded, folder, engine, *options)
    assert (code, run["status"]) == (0, "complete"), run["error"] or run["checks"]
    assert {check["status"] for check in run["checks"]} == {"passed"}


def test_a_recorded_load_is_replayed_from_the_loaded_state(loaded: Any, tmp_path: Path) -> None:
    folder = tmp_path / "recorded"
    assert (
        loaded("workload", "capture", folder, "--log", RECORDED, "--engine", "postgres").code == 0
    )
    (folder / "tables.sql").write_text("create table filled (a int primary key);")
    (folder / "load").mkdir()
    (folder / "load/filled.csv").write_text("a\n1\n")
    (folder / "check.sql").write_text("select 1 where (select count(*) from t) <> 1000;")
    options = ("--replay", "--as-fast-as-possible", "--retries", "0", "--repeats", "2")
    command = ("run", "sql", "--folder", folder, "--engine", "postgres", "--placement", "ssd-both")
    done = loaded(*command, *options, "--json")
    assert done.code == 0, done.err
    for run in done.json["runs"]:  # the table is created in each
        assert {c["name"]: c["status"] for c in run["checks"]} == {
            "replay-errors": "passed",
            "check.sql": "passed",
        }
        counts = {m["labels"]["operation"]: m["value"] for m in run["metrics"]
                  if m["name"] == "operation_count"}  # fmt: skip
        assert counts["commit"] == 8 and counts["update-t"] == 6
        assert "operations_per_second" in {m["name"] for m in run["metrics"]}
    for wrong in (("--speed", "2"), ("--replay", "--users", "3")):
        assert loaded(*command, *wrong).code == 2
    assert loaded(*command[:5], "mariadb", *command[6:], "--replay").code == 2


# A server of the user's -----------------------------------------------------------


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with open_lab() as lab:
        engine = lab.started("postgres")
        address = engine.native_connection()
        given = {name: address[name] for name in ("host", "port", "user", "password")}
        yield " ".join(f"{name}={value}" for name, value in {**given, "dbname": "harness"}.items())
        engine.kill()


def command(*more: object) -> list[object]:
    return ["run", "tpch", "--engine", "postgres", "--option", "dsn=env", "--scale", "0.01",
            "--cache", "warm", "--no-plans", *more]  # fmt: skip


def test_answers_of_the_first_run_are_held_against_the_data_just_loaded(harness, dsn):
    """Parameters off the shipped references need the source data, which did not exist yet."""
    run = harness(*command("--query-seed", "7", "--queries", "1,6", "--json"), HARNESS_DSN=dsn).run
    answers = [check for check in run["checks"] if check["name"] == "answer"]
    assert [check["status"] for check in answers] == ["passed", "passed"], answers
    assert run["status"] == "complete"


def test_a_run_that_was_cut_off_starts_over(harness, dsn):
    """Its owner may have changed anything on the server meanwhile."""
    for _ in range(10):  # a quick machine may be through before the kill
        process = harness.start(*command(), HARNESS_DSN=dsn)
        while process.poll() is None and not _finished_steps(harness):
            time.sleep(0.01)
        process.kill()
        process.communicate()
        (cut_off,) = (harness.results / "runs").iterdir()
        if not (cut_off / "run.json").exists():
            break
        shutil.rmtree(cut_off)
    done = harness(*command("--json"), HARNESS_DSN=dsn)
    run = done.run
    assert f"not resuming {cut_off.name}" in done.err
    assert (run["status"], run["resumed"]) == ("complete", [])
    assert run["run_id"] != cut_off.name


def _finished_steps(harness) -> int:
    return sum(steps_kept(run) for run in (harness.results / "runs").glob("*"))


def test_tpcc_loads_anew_for_every_run_since_the_one_before_has_changed_the_data(harness, dsn):
    argv = ["run", "tpcc", "--engine", "postgres", "--option", "dsn=env", "--warehouses", "1",
            "--users", "2", "--rate", "50", "--ramp-up", "0s", "--repeats", "2"]  # fmt: skip
    done = harness(*argv, "--duration", "5s", "--json", HARNESS_DSN=dsn)
    assert len(done.document["runs"]) == 2
    for run in done.json["runs"]:
        assert run["status"] == "complete"
        names = [check["name"] for check in run["checks"]]
        assert names.count("consistency") == 12
    assert harness("data", "list", "--json").json["data"] == [], "no source, no golden data"


def test_ycsb_finds_its_records_whatever_the_run_before_has_inserted(harness, dsn):
    argv = ["run", "ycsb", "--engine", "postgres", "--option", "dsn=env", "--records", "1000",
            "--threads", "2", "--operations", "1000", "--repeats", "2", "--json"]  # fmt: skip
    for workload in ("d", "c"):
        runs = harness(*argv, "--workload", workload, HARNESS_DSN=dsn).document["runs"]
        assert [run["status"] for run in runs] == ["complete"] * 2
    assert harness("data", "list", "--json").json["data"] == [], "no source, no golden data"


def test_tpcc_does_not_kill_a_server_of_the_user(harness, dsn):
    argv = ["run", "tpcc", "--engine", "postgres", "--option", "dsn=env", "--warehouses", "1",
            "--test", "durability"]  # fmt: skip
    done = harness(*argv, HARNESS_DSN=dsn)
    assert done.code == 2, done.out + done.err
    assert "durability on postgres" in done.err
