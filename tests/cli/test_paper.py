"""``harness paper``: a small paper of the user's, run for real."""

from __future__ import annotations

PAPER = """
schema: 1
title: "A small paper"
figures:
  - {figure: "Fig 1: query 6", profile: fig1.yml}
  - {figure: "Fig 2: loads", suite: loads.yml, tiers: [dram, none_such]}
  - {figure: "Fig 3", missing: "needs another machine"}
"""
PROFILE = """
schema: 1
name: small-fig1
description: one query
workload: tpch
axes:
  placement: [ssd-both, pmem-both, missing-both]
fixed:
  engine: duckdb
  params: {scale: 0.01, queries: [6], cache: cold-per-run, plans: false}
published: [fig1]
"""
PUBLISHED = """figure,series,x,y,unit,read_off_error,metric,note
fig1,duckdb/pmem-both,6,1,ms,0.5,query_duration_ns,
fig1,duckdb/memory-both,6,1,ms,0.5,query_duration_ns,
"""
#: Ended by a count: a busy machine makes no measurement of it empty.
SUITE = """
schema: 1
name: loads
description: loads
defaults: {range: 1MiB}
measurements:
  one: {args: {kernel: load, pattern: sequential, access: 64, count: 1000}}
"""


def test_a_paper_is_run_once_and_its_page_has_both_numbers(loaded):
    folder = loaded.root / "of-mine"
    folder.mkdir()
    for name, text in (("mine.yml", PAPER), ("fig1.yml", PROFILE), ("published.csv", PUBLISHED),
                       ("loads.yml", SUITE)):  # fmt: skip
        (folder / name).write_text(text)
    options = "--emulate pmem -p warm_up=1ms --budget 10m --json"
    command = ("paper", "of-mine/mine.yml", *options.split())
    done = loaded(*command)
    assert done.code == 0, done.err
    query, loads, missing = done.json["paper"]["figures"]
    assert (query["planned"], query["complete"], len(query["runs"])) == (3, 2, 2)
    (left_out,) = query["left_out"]
    assert "missing-both" in left_out["what"] and "missing" in left_out["why"]
    measured = [row["measured here"] for row in query["published"]]
    assert measured[0]["numbers"][0]["emulated"] and measured[1]["missing"] == "no-counterpart"
    assert (loads["planned"], loads["complete"]) == (2, 1)
    assert "none_such" in loads["left_out"][0]["why"]
    assert missing["missing"] == "needs another machine"
    assert (loaded.root / "paper" / "paper.html").exists()

    lines = [figure["command"] for figure in (query, loads)]
    assert ["-p warm_up=1ms" in line for line in lines] == [False, True]

    again = loaded(*command, "--dry-run")
    assert again.code == 0, again.err
    plan = again.json["plan"]
    assert [row["to_do"] for row in plan] == [[], [], []]
    assert [row["estimated_ns"] for row in plan] == [None, None, None]
    complete = [run_id for row in plan for run_id in row["complete"]]
    assert sorted(complete) == sorted(query["runs"] + loads["runs"])


def test_some_of_a_papers_figures(harness):
    named = ("paper", "nvm-for-databases", "table5", "fig4", "--emulate", "pmem", "--dry-run")
    done = harness(*named, "--json")
    assert done.code == 0, done.err
    shown = {one["figure"].partition(":")[0] for one in done.json["plan"]}
    assert shown == {"Fig 4", "Table 5"}
    assert harness("paper", "nvm-for-databases", "fig99", "--dry-run").code == 2
