"""``harness advise`` on a real engine: within its budget, and with the numbers of ``compare``."""

from __future__ import annotations

import shlex

#: Runs of a second or two.
SMALL = ["ycsb", "--engine", "rocksdb", "--records", "1000", "--operations", "2000"]
TIERS = ["--from", "ssd", "--to", "pmem", "--emulate", "pmem"]
BUDGET_S = 20


def test_answers_within_the_budget_have_the_numbers_of_compare(loaded):
    done = loaded("advise", *SMALL, *TIERS, "--budget", f"{BUDGET_S}s", "--json")
    assert done.code == 0, done.err
    answers = done.json["answers"]
    assert len(answers) == 3
    for answer in answers:
        arms = (f"placement={answer['a']}", f"placement={answer['b']}")
        experiment = f"experiment={done.json['experiment']}"
        (group,) = loaded("compare", *arms, experiment, "--json").json["groups"]
        (row,) = [one for one in group["rows"] if one.items() >= group["headline"].items()]
        value = answer["value"]
        assert value["value"] == row["ratio"]
        assert [value["low"], value["high"]] == row["interval"]
    if more := done.json["more"]:
        words = shlex.split(more["command"])
        assert words[-2:] == ["--budget", f"{more['duration_ns'] // 60_000_000_000}m"]


def test_queries_have_no_phases(loaded, tmp_path):
    assert loaded("workload", "init", tmp_path / "shop").code == 0
    of_queries = ("sql", "--folder", tmp_path / "shop", "--engine", "duckdb")
    assert loaded("advise", *of_queries, *TIERS, "--budget", "2m", "--dry-run").code == 0


def test_without_a_second_tier_a_curve_answers(loaded, tmp_path):
    """The log of a load that syncs, on modelled devices; too few repeats show nothing."""
    argv = ["advise", "ycsb", "--engine", "rocksdb", "--records", "1000", "--from", "ssd"]
    refused = loaded(*argv, "--budget", "1m", "--json")
    assert refused.code == 2
    assert "--budget" in refused.json["error"]["hint"]
    # Long enough for the trace to be read in time on a busy host.
    done = loaded(*argv, "--operations", "8000", "--budget", "6m", "--json")
    assert done.code == 0, done.err
    for answer in done.json["answers"]:
        assert answer["question"] and answer["sentence"] and answer["why"]
        value = answer["value"]
        assert value is None or value["value"] > 0
        assert (answer["verdict"] == "part not used") == (value is None)
