"""Transactions and analytics at once through the command, on a real server."""

import pytest
from run_values import values

from harness import hdr

#: Queries that take a hundredth of a window: each ends in it, however busy the host is.
HTAP = ("run", "htap", "--engine", "postgres", "--placement", "ssd-both", "--warehouses", "1",
        "--users", "2", "--queries", "13,22")  # fmt: skip
SHORT = ("--ramp-up", "0s", "--duration", "2s")
RATES = ("transactions_per_second", "queries_per_hour")


@pytest.fixture(scope="module")
def measured(loaded):
    """What the command prints of a run, and the run."""
    done = loaded(*HTAP, *SHORT, "--seed", "1", "--name", "both", COLUMNS="1000")
    assert done.code == 0, done.err
    (run,) = loaded("runs", "list", "experiment=both", "--json").document["runs"]
    return done.out, run


def test_each_rate_is_measured_alone_and_together(loaded, measured):
    _, run = measured
    assert (run["status"], run["spec"]["driver"]) == ("complete", "loadgen"), run["checks"]
    for name, share in zip(RATES, ("transactions", "queries"), strict=True):
        together, alone = (values(run, f"{phase}_{name}") for phase in ("together", "alone"))
        assert together > 0 and alone > 0
        assert values(run, f"{share}_retained_share") == pytest.approx(together / alone)
    latencies = {
        (m["labels"]["phase"], m["labels"]["transaction"])
        for m in run["metrics"]
        if m["name"] == "transaction_duration_ns" and hdr.decode(m["hdr"]).total
    }
    assert {("alone", "new_order"), ("together", "new_order")} <= latencies
    times = {
        (m["labels"]["phase"], m["labels"]["query"]): m["samples"]
        for m in run["metrics"]
        if m["name"] == "query_duration_ns"
    }
    assert {key for key in times if times[key]} == {
        (phase, query) for phase in ("alone", "together") for query in ("13", "22")
    }
    assert loaded.settled() == []


def test_data_and_answers_are_checked(measured):
    _, run = measured
    checks = [(check["name"], check["status"]) for check in run["checks"]]
    assert checks.count(("consistency", "passed")) == 12
    assert checks.count(("answer", "passed")) == checks.count(("repeated", "passed")) == 2
    assert {"counted", "mix", "population", "remote"} <= {name for name, _ in checks}


def test_the_answer_is_printed_first_and_in_the_report_with_a_picture(loaded, measured, tmp_path):
    printed, _ = measured
    _, words, rates = printed.splitlines()[0].partition("with 2 terminals and 1 stream: ")
    assert words and rates.count("%") == 2
    done = loaded("report", "-e", "both", "-o", str(tmp_path))
    assert done.code == 0, done.err
    assert words + rates in (tmp_path / "report.md").read_text().replace("\n", " ")
    assert list((tmp_path / "figures").glob("*-together.svg"))


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (("--engine", "duckdb", "--placement", "ssd-both"), "htap"),
        (("--engine", "postgres", "--placement", "ssd-both", "--streams", "0"), "streams"),
        (("--engine", "postgres", "--placement", "ssd-both", "--queries", "23"), "queries"),
        (("--engine", "postgres", "--placement", "ssd-both", "--users", "90", "--streams", "5",
          "--set", "max_connections=60"), "max_connections"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(harness, argv, word):
    done = harness("run", "htap", *argv)
    assert done.code == 2
    assert word in done.err
