"""Runs on a server of the user's, played by one that the test starts itself."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest
from lab import open_lab

from harness.store.checkpoint import steps_kept


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    """Of a running PostgreSQL."""
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
    """Parameters off the shipped references need the source data, which nobody had made yet."""
    done = harness(*command("--query-seed", "7", "--queries", "1,6", "--json"), HARNESS_DSN=dsn)
    (run,) = done.json["runs"]
    answers = [(check["status"], check["detail"]) for check in run["checks"] if
               check["name"] == "answer"]  # fmt: skip
    assert [status for status, _ in answers] == ["passed", "passed"], answers
    assert (done.code, run["status"]) == (0, "complete"), done.err


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
    (run,) = done.json["runs"]
    assert f"not resuming {cut_off.name}" in done.err
    assert run["resumed"] == []
    assert run["run_id"] != cut_off.name
    assert (done.code, run["status"]) == (0, "complete"), done.err


def _finished_steps(harness) -> int:
    return sum(steps_kept(run) for run in (harness.results / "runs").glob("*"))


def test_tpcc_loads_anew_for_every_run_since_the_one_before_has_changed_the_data(harness, dsn):
    argv = ["run", "tpcc", "--engine", "postgres", "--option", "dsn=env", "--warehouses", "1",
            "--users", "2", "--rate", "50", "--ramp-up", "0s", "--repeats", "2"]  # fmt: skip
    done = harness(*argv, "--duration", "5s", "--json", HARNESS_DSN=dsn)
    assert done.code == 0, done.err
    first, second = done.json["runs"]
    for run in (first, second):
        assert run["status"] == "complete"
        names = [check["name"] for check in run["checks"]]
        assert names.count("consistency") == 12
    assert harness("data", "list", "--json").json["data"] == [], "no source, no golden data"


def test_ycsb_finds_its_records_whatever_the_run_before_has_inserted(harness, dsn):
    argv = ["run", "ycsb", "--engine", "postgres", "--option", "dsn=env", "--records", "1000",
            "--threads", "2", "--operations", "1000", "--repeats", "2", "--json"]  # fmt: skip
    for workload in ("d", "c"):
        done = harness(*argv, "--workload", workload, HARNESS_DSN=dsn)
        assert done.code == 0, done.err
        assert [run["status"] for run in done.json["runs"]] == ["complete"] * 2
    assert harness("data", "list", "--json").json["data"] == [], "no source, no golden data"


def test_tpcc_does_not_kill_a_server_of_the_user(harness, dsn):
    argv = ["run", "tpcc", "--engine", "postgres", "--option", "dsn=env", "--warehouses", "1",
            "--test", "durability"]  # fmt: skip
    done = harness(*argv, HARNESS_DSN=dsn)
    assert done.code == 2, done.out + done.err
    assert "test durability on postgres" in done.err
