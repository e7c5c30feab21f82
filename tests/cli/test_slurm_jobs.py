"""Experiments as jobs of a real Slurm with two hosts: ended, requeued after failures, resumed."""

import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from patience import eventually
from slurm_cluster import HOSTS, POLL_S, Cluster, cluster

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


class HeldRuns:
    """The workload in a folder of its own, whose runs wait until they are allowed."""

    def __init__(self, folder: Path, results: Path) -> None:
        self.folder, self._results = folder, results
        shutil.copytree(TOY, folder / "counting")
        with (folder / "counting/workload.py").open("a") as file:
            file.write(HOLDS.format(folder=str(folder), results=str(results)))

    def commands(self, host: str) -> list[str]:
        """Return the process ids of the commands that a host has begun."""
        return [path.name.rpartition("-")[2] for path in self.folder.glob(f"begun-{host}-*")]

    def begun(self, count: int) -> bool:
        """Return whether each host begins this number of commands, waiting for it."""
        return eventually(lambda: all(len(self.commands(host)) >= count for host in HOSTS))

    def ended(self, host: str) -> bool:
        """Return whether all commands of a host end, waiting for it."""
        folders = [Path(f"/proc/{process}") for process in self.commands(host)]
        return eventually(lambda: not any(folder.exists() for folder in folders))

    def made(self, count: int) -> bool:
        """Allow this number of runs, and return whether they are made, waiting for it."""
        for number in range(count):
            (self.folder / f"allowed-{number}").touch()
        return eventually(lambda: len([*self._results.glob("runs/*/run.json")]) == count)


@pytest.fixture
def slurm(open_path):
    with cluster(open_path) as made:
        yield made


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes hosts of namespaces")
def test_requeued_tasks_resume_and_repeat_no_run(harness, slurm: Cluster):
    profile = harness.root / "counts.yml"
    profile.write_text(PROFILE)
    runs = HeldRuns(harness.root / "workloads", harness.results)
    environment = {
        "HARNESS_WORKLOAD_PATH": str(runs.folder),
        "PATH": f"{slurm.path}:{harness.environment['PATH']}",
    }
    words = ("experiment", "submit", profile, "--slurm", "--hosts", ",".join(HOSTS), "--json")

    def tasks(job_id):
        (state,) = harness("experiment", "status", job_id, "--json", **environment).document[
            "submissions"
        ]
        assert state["planned"] == PLANNED
        return {task["host"]: task for task in state["tasks"]}

    # Of the product's own workload, whose commands need no start of their own.
    other = harness.root / "other.yml"
    other.write_text(PROFILE.replace("counting", "tpch").replace("times: [1, 2]", "scale: [0.01]"))
    for option, value in (("--hosts", "nowhere"), ("--constraint", "what"), ("--time", "soon")):
        harness.refused("experiment", "submit", other, option, value, PATH=environment["PATH"])
    script = harness(*words[:-1], "--dry-run", **environment).out
    assert script.startswith("#!/bin/sh\n#SBATCH ")
    assert not harness.results.exists()

    # Cancelled while runs are made: all that was started ends, and complete runs stay.
    first = harness(*words, **environment).document
    assert first["hosts"] == [*HOSTS]
    assert runs.begun(1)
    assert runs.made(1)
    slurm.printed("scancel", str(first["job_id"]))
    assert eventually(lambda: set(slurm.states().values()) == {"CANCELLED"}, POLL_S)
    assert {task["exit_status"] for task in tasks(first["job_id"]).values()} == {143}
    assert harness.settled() == []

    # Submitted again: one host fails under way, the other's job comes to the end of its time.
    second = harness(*words, **environment).document
    profile.unlink()  # the jobs have their own
    job_id = second["job_id"]
    of_node1, of_node2 = (f"{job_id}_{task}" for task in range(2))
    assert runs.begun(2)
    assert runs.made(2)
    slurm.kill("node1")
    slurm.printed("scancel", "--batch", "--signal=USR1", of_node2)
    assert eventually(lambda: slurm.states()[of_node1] == "PENDING", POLL_S)
    # Slurm lets no job start in the second in which it ended what the host had of it.
    slurm.printed("scontrol", "hold", of_node1)
    slurm.start("node1")
    assert runs.ended("node1")
    time.sleep(1.1)
    slurm.printed("scontrol", "release", of_node1)
    assert runs.begun(3)
    assert runs.made(PLANNED * len(HOSTS))
    assert eventually(
        lambda: {slurm.states()[task] for task in (of_node1, of_node2)} == {"COMPLETED"}, POLL_S
    )

    ended = tasks(job_id)
    assert {host: ended[host]["state"] for host in HOSTS} == dict.fromkeys(HOSTS, "completed")
    assert {(task["complete"], task["failed"]) for task in ended.values()} == {(PLANNED, 0)}
    assert "requeued to resume" in Path(ended["node2"]["log"]).read_text()
    assert harness.settled() == []
    heads = [run.head for run in Store(harness.results).runs()]
    numbers = Counter((run.host, run.spec_hash) for run in heads if run.status == "complete")
    assert len(numbers) == PLANNED * len(HOSTS)
    assert set(numbers.values()) == {1}
