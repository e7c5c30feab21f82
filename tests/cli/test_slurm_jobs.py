"""Experiments as jobs of a real Slurm with two hosts: ended, requeued after failures, resumed."""

import os
from collections import Counter
from pathlib import Path

import pytest
from patience import eventually
from slurm_cluster import HOSTS, Cluster, cluster

from harness.store.run_store import Store

PROFILE = """
schema: 1
name: counts
description: the cheapest runs with an engine's process
workload: counting
axes:
  engine: [duckdb]
  placement: [ssd-both]
  params: {times: [1, 2]}
repeats: 2
"""
PLANNED = 4
TOYS = {"HARNESS_WORKLOAD_PATH": str(Path(__file__).parents[1] / "toy_workloads")}


@pytest.fixture
def slurm(open_path):
    with cluster(open_path) as made:
        yield made


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes hosts of namespaces")
def test_requeued_tasks_resume_and_repeat_no_run(harness, slurm: Cluster):
    profile = harness.root / "counts.yml"
    profile.write_text(PROFILE)
    environment = {**TOYS, "PATH": f"{slurm.path}:{harness.environment['PATH']}"}
    words = ("experiment", "submit", profile, "--slurm", "--hosts", ",".join(HOSTS), "--json")

    def tasks(job_id):
        (state,) = harness("experiment", "status", job_id, "--json", **environment).document[
            "submissions"
        ]
        assert state["planned"] == PLANNED
        return {task["host"]: task for task in state["tasks"]}

    def complete():
        return len([*harness.results.glob("runs/*/run.json")])

    for option, value in (("--hosts", "nowhere"), ("--constraint", "what"), ("--time", "soon")):
        harness.refused("experiment", "submit", profile, option, value, **environment)
    script = harness(*words[:-1], "--dry-run", **environment).out
    assert script.startswith("#!/bin/sh\n#SBATCH ")
    assert not harness.results.exists()

    # Cancelled while runs are made: all that was started ends, and complete runs stay.
    first = harness(*words, **environment).document
    assert first["hosts"] == [*HOSTS]
    assert eventually(lambda: complete() >= 1)
    slurm.printed("scancel", str(first["job_id"]))
    assert eventually(lambda: set(slurm.states().values()) == {"CANCELLED"})
    assert {task["exit_status"] for task in tasks(first["job_id"]).values()} == {143}
    assert harness.settled() == []

    # Submitted again: one host fails under way, the other's job comes to the end of its time.
    before = complete()
    second = harness(*words, **environment).document
    profile.unlink()  # the jobs have their own
    job_id = second["job_id"]
    of_node1, of_node2 = (f"{job_id}_{task}" for task in range(2))
    assert eventually(lambda: complete() > before)
    slurm.kill("node1")
    slurm.printed("scancel", "--batch", "--signal=USR1", of_node2)
    assert eventually(lambda: slurm.states()[of_node1] == "PENDING")
    slurm.start("node1")
    assert eventually(
        lambda: {slurm.states()[task] for task in (of_node1, of_node2)} == {"COMPLETED"}
    )

    ended = tasks(job_id)
    assert {host: ended[host]["state"] for host in HOSTS} == dict.fromkeys(HOSTS, "completed")
    assert {(task["complete"], task["failed"]) for task in ended.values()} == {(PLANNED, 0)}
    assert "requeued to resume" in Path(ended["node2"]["log"]).read_text()
    assert harness.settled() == []
    runs = [run.head for run in Store(harness.results).runs()]
    made = Counter((run.host, run.spec_hash) for run in runs if run.status == "complete")
    assert len(made) == PLANNED * len(HOSTS)
    assert set(made.values()) == {1}
