"""Jobs of Slurm: the batch script, what is refused before anything is submitted, and states."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from patience import PATIENCE_S, eventually

from harness.cli.experiment import ExperimentOptions, SubmitOptions
from harness.cli.options import words_of
from harness.errors import RunFailed, UsageError
from harness.experiment import slurm, slurm_status
from harness.experiment.profile import Plan, load_profile
from harness.experiment.slurm import SlurmOptions
from harness.experiment.slurm_status import QueuedTask

PROFILE = """
schema: 1
name: ssd
description: of two runs
workload: tpch
axes: {engine: [duckdb], placement: [ssd-both], params: {scale: [0.01, 0.02]}}
"""
#: squeue of Slurm 22.05.8 (Debian 12), while a host was down; a reason is shortened.
RECORDED_QUEUE = """\
10_0|PENDING||Nodes required for job are DOWN, DRAINED or reserved
10_1|RUNNING|node2|None
7_0|COMPLETED|node1|None
"""
#: Of `scontrol --oneliner show node`, shortened, from the same installation.
RECORDED_NODES = "NodeName=node1 Arch=x86_64 NodeAddr={address} NodeHostName=node1 State=IDLE\n"


class Clients:
    """Programs of the names of Slurm's clients, which print and record their words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.answers("sbatch", "42")
        self.answers("scontrol", RECORDED_NODES.format(address="127.0.0.1"))
        self.answers("scancel")
        self.answers("squeue", RECORDED_QUEUE)

    def answers(self, name: str, text: str = "", fails_with: str = "") -> None:
        (self.folder / f"{name}.text").write_text(text)
        call = f'echo "{name} $*" >>{self.folder}/calls; cat {self.folder}/{name}.text'
        self.program(name, f"{call}; echo '{fails_with}' >&2; exit 1" if fails_with else call)

    def program(self, name: str, script: str) -> Path:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def clients(tmp_path, monkeypatch):
    made = Clients(tmp_path / "clients")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    return made


@pytest.fixture
def plan(tmp_path) -> Plan:
    path = tmp_path / "mine.yml"
    path.write_text(PROFILE)
    return load_profile(path)


def job_of(plan: Plan, folder: Path, *hosts: str, **options: str) -> slurm.ArrayJob:
    chosen, profile = SlurmOptions(hosts, **options), folder / "mine.yml"
    return slurm.new_job(folder / "results", plan, chosen, ["--size", "2"], profile)


def test_a_task_for_each_host_is_bound_to_it_before_any_starts(tmp_path, plan, clients):
    job = job_of(plan, tmp_path, "a", "b", partition="fast", time="8:00:00")
    submission = slurm.submit(job)
    assert (submission.job_id, submission.hosts, len(submission.spec_hashes)) == (42, ("a", "b"), 2)
    *_, submitted = [call for call in clients.calls if call.startswith("sbatch")]
    assert "--hold" in submitted and "--array=0-1" in submitted and "--partition=fast" in submitted
    assert clients.calls[-3:] == [
        "scontrol update JobId=42_0 ReqNodeList=a",
        "scontrol update JobId=42_1 ReqNodeList=b",
        "scontrol release 42",
    ]
    assert (job.folder / "profile.yml").read_text() == PROFILE
    assert [*slurm.submissions(tmp_path / "results")] == [(job.folder, submission)]


def test_a_job_has_the_options_of_its_submission():
    options = SubmitOptions(
        profile="demo", size=2.0, param=["users=1", "-p=x"], no_canary=True, host=Path("h.yml"),
        retries=1, hosts=["a"], partition="fast",
    )  # fmt: skip
    assert words_of(options, ExperimentOptions, {"profile"}) == [
        *("--param", "users=1", "--param", "-p=x", "--host", str(Path("h.yml").absolute())),
        *("--size", "2.0", "--no-canary"),
    ]


def test_a_submission_that_fails_leaves_nothing(tmp_path, plan, clients):
    job = job_of(plan, tmp_path, "a")
    clients.answers("scontrol", fails_with="slurm_update error: Invalid node name specified")
    with pytest.raises(RunFailed, match="Invalid node name"):
        slurm.submit(job)
    assert clients.calls[-1] == "scancel 42"
    assert not job.folder.exists()


def test_what_slurm_refuses_is_not_submitted(tmp_path, plan, clients):
    clients.answers("sbatch", fails_with="allocation failure: Invalid feature specification")
    with pytest.raises(UsageError, match="Invalid feature specification"):
        job_of(plan, tmp_path, constraint="what")
    assert all("--test-only" in call for call in clients.calls if call.startswith("sbatch"))
    assert not (tmp_path / "results").exists()


def test_without_sbatch_nothing_is_tried(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="sbatch"):
        slurm.expanded_hosts([])


def test_results_that_hosts_do_not_see_are_refused(tmp_path, plan, clients):
    """``tmp_path`` is on a local file system."""
    clients.answers("scontrol", RECORDED_NODES.format(address="192.0.2.7"))
    with pytest.raises(UsageError, match="node1") as refused:
        job_of(plan, tmp_path, "node1")
    assert "--results" in refused.value.hint
    assert not any(call.startswith("sbatch") for call in clients.calls)


def test_results_that_this_host_exports_are_shared(tmp_path, plan, clients, monkeypatch):
    exports = tmp_path / "etab"
    exports.write_text(f"{tmp_path}\t*(rw,sync,secure)\n")
    monkeypatch.setattr(slurm, "_EXPORTS", exports)
    clients.answers("scontrol", RECORDED_NODES.format(address="192.0.2.7"))
    assert job_of(plan, tmp_path, "node1").options.hosts == ("node1",)


def test_states_are_read_from_the_queue():
    tasks = dict(slurm_status.parse_queue(RECORDED_QUEUE))
    assert tasks["10_0"].state == "pending" and "DRAINED" in tasks["10_0"].reason
    assert tasks["10_1"] == QueuedTask("running", "node2", "")
    assert [*slurm_status.parse_queue("no queue\n\n")] == []


def test_a_job_that_slurm_has_forgotten_has_ended_or_is_lost(tmp_path, plan, clients):
    job = job_of(plan, tmp_path, "a", "b")
    slurm.submit(job)
    (job.folder / "0.host").write_text("a\na.example\n")
    (job.folder / "0.ended").write_text("1\n")
    (state,) = slurm_status.states(tmp_path / "results")
    first, second = state.tasks
    assert (first.host, first.state, first.exit_status) == ("a", slurm_status.ENDED, 1)
    assert (second.host, second.state, second.exit_status) == ("b", slurm_status.LOST, None)
    assert (state.planned, first.complete, first.failed) == (2, 0, 0)
    assert slurm_status.states(tmp_path / "results", "another") == []


@pytest.fixture
def script(tmp_path, plan, clients, monkeypatch):
    """The batch script, which starts the program ``harness`` of ``clients``."""
    monkeypatch.setattr(slurm, "harness_program", lambda: str(clients.folder / "harness"))
    job = job_of(plan, tmp_path, "a", "b")
    slurm.submit(job)
    return job.folder / "job.sh"


def started(script: Path, task: int = 0) -> subprocess.Popen[str]:
    environment = {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_JOB_ID": "42", "SLURMD_NODENAME": "a"}
    return subprocess.Popen(
        ["sh", script], env=os.environ | environment, stderr=subprocess.PIPE, text=True
    )


def test_the_script_records_host_and_exit_status(script, clients):
    clients.program("harness", f'echo "$*" >{clients.folder}/words; exit 1')
    assert started(script).wait(PATIENCE_S) == 1
    assert (script.with_name("0.ended")).read_text() == "1\n"
    assert script.with_name("0.host").read_text().splitlines()[:2] == ["a", os.uname().nodename]
    words = (clients.folder / "words").read_text().split()
    assert words[:2] == ["experiment", "run"] and words[3:5] == ["--size", "2"]


@pytest.mark.parametrize(("imports", "status"), [("exit 0", 0), ("exit 2", 1)])
def test_results_of_a_host_are_imported_at_the_end(
    tmp_path, plan, clients, monkeypatch, imports, status
):
    monkeypatch.setattr(slurm, "harness_program", lambda: str(clients.folder / "harness"))
    local, shared = tmp_path / "local", tmp_path / "results"
    makes_a_run = f"mkdir -p {local}/runs/a; touch {local}/runs/a/run.json"
    clients.program(
        "harness",
        f'echo "$*" >>{clients.folder}/words; case $1 in runs) {imports} ;; esac; {makes_a_run}',
    )
    profile = tmp_path / "mine.yml"
    job = slurm.new_job(shared, plan, SlurmOptions(), [], profile, local)
    slurm.submit(job)
    assert started(job.folder / "job.sh").wait(PATIENCE_S) == status
    ran, imported = (clients.folder / "words").read_text().splitlines()
    assert ran.endswith(f"--results {local}")
    assert imported == f"runs import {local} --results {shared} --from a"


#: Ends as the command does when it gets SIGTERM.
_INTERRUPTED = "trap 'exit 143' TERM; touch {began}; while :; do sleep 0.01; done"


@pytest.mark.parametrize("completes_a_run", [True, False])
def test_a_time_limit_requeues_unless_nothing_was_completed(
    script, clients, tmp_path, completes_a_run
):
    began, run = clients.folder / "began", tmp_path / "results/runs/a"
    run.mkdir(parents=True)
    complete = f'echo \'"status": "complete"\' >{run}/run.json; ' if completes_a_run else ""
    clients.program("harness", complete + _INTERRUPTED.format(began=began))
    process = started(script)
    assert eventually(began.exists)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(PATIENCE_S) == 143
    assert ("scontrol requeue 42" in clients.calls) == completes_a_run
    assert script.with_name("0.ended").exists() != completes_a_run


def test_a_cancelled_job_is_not_requeued(script, clients):
    began = clients.folder / "began"
    clients.program("harness", _INTERRUPTED.format(began=began))
    process = started(script)
    assert eventually(began.exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 143
    assert script.with_name("0.ended").read_text() == "143\n"
    assert "scontrol requeue 42" not in clients.calls


def test_hosts_with_one_machine_id_are_refused(script, clients):
    clients.program("harness", "exit 0")
    assert started(script, 0).wait(PATIENCE_S) == 0
    assert started(script, 1).wait(PATIENCE_S) == 2


def test_the_script_is_clean(script):
    if (shellcheck := shutil.which("shellcheck")) is None:
        pytest.fail("shellcheck is missing: run `make setup-dev`")
    assert subprocess.run([shellcheck, script], check=False).returncode == 0
