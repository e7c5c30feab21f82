"""The state of experiments in Slurm: jobs, hosts, and complete runs of those planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.experiment.slurm import Submission, output_of, submissions
from harness.store.run_store import Store
from harness.store.runs import StoredRun

#: Of a task that Slurm does not know (any more).
ENDED, LOST = "ended", "lost"
#: Slurm's state, while it has the job; the reason may have any character but a line break.
_FORMAT = "%i|%T|%N|%r"
_FIELDS = _FORMAT.count("|") + 1


@dataclass(frozen=True)
class QueuedTask:
    """A task in Slurm's queue, as squeue prints it."""

    state: str
    host: str
    reason: str


@dataclass(frozen=True)
class TaskState:
    """A task of a submission.

    ``state``: Slurm's in lower case while Slurm knows the job (``pending``, ``running`` …); then
    ``ended``, or ``lost`` if it recorded no end: it was cancelled, or its host failed. ``host``:
    Slurm's name of it; empty while it is not chosen. ``complete``, ``failed``: runs of the plan on
    that host. ``log``: None before it starts.
    """

    job: str
    host: str
    state: str
    reason: str
    exit_status: int | None
    complete: int
    failed: int
    log: Path | None


@dataclass(frozen=True)
class SubmissionState:
    """A submission with the states of its tasks. ``planned``: runs on each host."""

    submission: str
    experiment: str
    job_id: int
    submitted_unix_ns: int
    planned: int
    folder: Path
    results: Path
    tasks: tuple[TaskState, ...]


def states(results: Path, chosen: str | None = None) -> list[SubmissionState]:
    """Return the states of the submissions of a results directory, oldest first.

    ``chosen``: only those of this experiment, folder's name, or job id.
    """
    recorded = [
        (folder, submission)
        for folder, submission in submissions(results)
        if chosen in (None, submission.experiment, folder.name, str(submission.job_id))
    ]
    if not recorded:
        return []
    queue = _queue({submission.experiment for _, submission in recorded})
    runs = Store(results).runs()
    return [
        SubmissionState(
            folder.name,
            submission.experiment,
            submission.job_id,
            submission.submitted_unix_ns,
            len(submission.spec_hashes),
            folder,
            results,
            tuple(_state(folder, submission, task, queue, runs) for task in submission.tasks),
        )
        for folder, submission in recorded
    ]


def _queue(names: Iterable[str]) -> dict[str, QueuedTask]:
    """Return the tasks that Slurm knows by job and index, ended ones too for some minutes."""
    words = ["--noheader", "--array", "--states=all", f"--format={_FORMAT}"]
    printed = output_of("read Slurm's queue", "squeue", *words, f"--name={','.join(sorted(names))}")
    return dict(parse_queue(printed))


def parse_queue(text: str) -> Iterator[tuple[str, QueuedTask]]:
    """Yield the tasks of squeue's output, each with its name ``<job>_<index>``."""
    for line in text.splitlines():
        fields = line.split("|", _FIELDS - 1)
        if len(fields) == _FIELDS:
            job, state, host, reason = (field.strip() for field in fields)
            yield job, QueuedTask(state.lower(), host, "" if reason == "None" else reason)


def _state(
    folder: Path,
    submission: Submission,
    task: int,
    queue: Mapping[str, QueuedTask],
    runs: Sequence[StoredRun],
) -> TaskState:
    job = f"{submission.job_id}_{task}"
    node, hostname = _started_on(folder, task)
    exit_status = _exit_status(folder, task)
    queued = queue.get(job)
    bound = submission.hosts[task] if submission.hosts else ""
    host = (queued.host if queued else "") or node or bound
    state = queued.state if queued else ENDED if exit_status is not None else LOST
    statuses = _statuses(submission, hostname or host, runs)
    log = folder / f"{host}.log"
    return TaskState(
        job,
        host,
        state,
        queued.reason if queued else "",
        exit_status,
        sum("complete" in of_run for of_run in statuses),
        sum("complete" not in of_run and "failed" in of_run for of_run in statuses),
        log if host and log.exists() else None,
    )


def _started_on(folder: Path, task: int) -> tuple[str, str]:
    """Return Slurm's name of the task's host and the host's own; empty before it has started."""
    lines: list[str] = []
    with suppress(OSError, UnicodeDecodeError):
        lines = (folder / f"{task}.host").read_text().splitlines()
    node, hostname, *_ = (*lines, "", "")
    return node, hostname


def _exit_status(folder: Path, task: int) -> int | None:
    with suppress(OSError, ValueError):
        return int((folder / f"{task}.ended").read_text())
    return None


def _statuses(submission: Submission, hostname: str, runs: Sequence[StoredRun]) -> list[set[str]]:
    """Return the statuses of all attempts at each run of the plan on a host."""
    planned: dict[str, set[str]] = {spec_hash: set() for spec_hash in submission.spec_hashes}
    for run in runs:
        head = run.head
        if head.host is not None and head.host.hostname == hostname and head.spec_hash in planned:
            planned[head.spec_hash].add(head.status)
    return list(planned.values())
