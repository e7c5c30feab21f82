"""Experiments as jobs of a real Slurm with two hosts: ended, requeued after failures, resumed."""

import os
import shutil
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
TOY = Path(__file__).parents[1] / "toy_workloads/counting"
#: Added to the workload: each command that begins makes a file, and a run waits until there is one
#: more ``allowed`` file than complete runs.
HOLDS = """
import os
import socket
import time
from pathlib import Path

_FOLDER, _RESULTS = Path({folder!r}), Path({results!r})
(_FOLDER / f"begun-{{socket.gethostname()}}-{{os.getpid()}}").touch()
_measure = Counting.measure


def _wait_and_measure(workload, params, session):
    while len([*_RESULTS.glob("runs/*/run.json")]) >= len([*_FOLDER.glob("allowed-*")]):
        time.sleep(0.05)
    return _measure(workload, params, session)


Counting.measure = _wait_and_measure
"""


@pytest.fixture
def slurm(open_path):
    with cluster(open_path) as made:
        yield made


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes hosts of namespaces")
def test_requeued_tasks_resume_and_repeat_no_run(harness, slurm: Cluster):
    profile = harness.root / "counts.yml"
    profile.write_text(PROFILE)
    workloads = harness.root / "workloads"
    shutil.copytree(TOY, workloads / "counting")
    with (workloads / "counting/workload.py").open("a") as file:
        file.write(HOLDS.format(folder=str(workloads), results=str(harness.results)))
    environment = {
        "HARNESS_WORKLOAD_PATH": str(workloads),
        "PATH": f"{slurm.path}:{harness.environment['PATH']}",
    }
    words = ("experiment", "submit", profile, "--slurm", "--hosts", ",".join(HOSTS), "--json")

    def tasks(job_id):
        (state,) = harness("experiment", "status", job_id, "--json", **environment).document[
            "submissions"
        ]
        assert state["planned"] == PLANNED
        return {task["host"]: task for task in state["tasks"]}

    def begun(commands):
        """Return whether each host has begun so many commands."""
        return all(len([*workloads.glob(f"begun-{host}-*")]) >= commands for host in HOSTS)

    def made(runs):
        """Allow so many runs, and return whether they are complete."""
        for number in range(runs):
            (workloads / f"allowed-{number}").touch()
        return eventually(lambda: len([*harness.results.glob("runs/*/run.json")]) == runs)

    for option, value in (("--hosts", "nowhere"), ("--constraint", "what"), ("--time", "soon")):
        harness.refused("experiment", "submit", profile, option, value, **environment)
    script = harness(*words[:-1], "--dry-run", **environment).out
    assert script.startswith("#!/bin/sh\n#SBATCH ")
    assert not harness.results.exists()

    # Cancelled while runs are made: all that was started ends, and complete runs stay.
    first = harness(*words, **environment).document
    assert first["hosts"] == [*HOSTS]
    assert eventually(lambda: begun(1))
    assert made(1)
    slurm.printed("scancel", str(first["job_id"]))
    assert eventually(lambda: set(slurm.states().values()) == {"CANCELLED"})
    assert {task["exit_status"] for task in tasks(first["job_id"]).values()} == {143}
    assert harness.settled() == []

    # Submitted again: one host fails under way, the other's job comes to the end of its time.
    second = harness(*words, **environment).document
    profile.unlink()  # the jobs have their own
    job_id = second["job_id"]
    of_node1, of_node2 = (f"{job_id}_{task}" for task in range(2))
    assert eventually(lambda: begun(2))
    assert made(2)
    slurm.kill("node1")
    slurm.printed("scancel", "--batch", "--signal=USR1", of_node2)
    assert eventually(lambda: slurm.states()[of_node1] == "PENDING")
    slurm.start("node1")
    assert eventually(lambda: begun(3))
    assert made(PLANNED * len(HOSTS))
    assert eventually(
        lambda: {slurm.states()[task] for task in (of_node1, of_node2)} == {"COMPLETED"}
    )

    ended = tasks(job_id)
    assert {host: ended[host]["state"] for host in HOSTS} == dict.fromkeys(HOSTS, "completed")
    assert {(task["complete"], task["failed"]) for task in ended.values()} == {(PLANNED, 0)}
    assert "requeued to resume" in Path(ended["node2"]["log"]).read_text()
    assert harness.settled() == []
    runs = [run.head for run in Store(harness.results).runs()]
    numbers = Counter((run.host, run.spec_hash) for run in runs if run.status == "complete")
    assert len(numbers) == PLANNED * len(HOSTS)
    assert set(numbers.values()) == {1}
