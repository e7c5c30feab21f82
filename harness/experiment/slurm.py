"""Experiments as jobs of Slurm: an array with a task for each host.

To Slurm, the tasks of an array are interchangeable: two may get the same host, and a requeued one
another host than before. An experiment depends on its host: blocks are never divided over hosts,
and an interrupted run list can only be resumed where it was interrupted. Therefore, each task is
bound to its host before it starts, and runs the whole experiment there. Without named hosts there
is a single task, which starts from scratch if Slurm requeues it to another host.

A submission has a folder in the results directory::

    results/slurm/<time>-<experiment>/job.sh           the batch script
                                      profile.yml      the profile as it was submitted
                                      submission.json  written last, before a task may start
                                      <host>.log       what the task printed
                                      <task>.host      its host, when it starts
                                      <task>.ended     its exit status

The job runs ``harness experiment run``, as anyone does by hand.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from harness import jsonfile, structs
from harness.errors import RunFailed, UsageError
from harness.experiment.profile import PUBLISHED, Plan
from harness.store.documents import write_atomically, write_json_atomically
from harness.structs import Struct
from harness.supervise import programs
from harness.supervise.own_files import make_own
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.mounts import mount_of
from harness.warnings import RunWarning, warn

FOLDER = "slurm"
_RECORD = "submission.json"
_SCRIPT = "job.sh"
_PROFILE = "profile.yml"
#: Between two answers of a Slurm daemon (its MessageTimeout is 10 s by default).
_TIMEOUT_S = 60.0
#: Time before the job's limit at which it ends in order: servers stop, the host is restored.
_ENDS_BEFORE_S = 120
#: File systems that other hosts do not see, unless this one exports them by NFS.
_LOCAL = {
    *("bcachefs", "btrfs", "devtmpfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs"),
    *("rootfs", "squashfs", "tmpfs", "vfat", "xfs", "zfs"),
}
_EXPORTS = Path("/var/lib/nfs/etab")

_BODY = """
# Made by `harness experiment submit`. Each task runs the whole experiment on its host. Running it
# again resumes: complete runs are not repeated.
folder={folder}
runs={runs}
task=${{SLURM_ARRAY_TASK_ID:?}}

ended() {{
  echo "$1" >"$folder/$task.ended"
  exit "$1"
}}
finished() {{ # complete runs, and finished steps of others
  grep -ls '"status": "complete"' "$runs"/*/run.json | wc -l
  cat "$runs"/*/steps.jsonl 2>/dev/null | grep -c '{{"step"'
}}

machine=$(sha256sum /etc/machine-id 2>/dev/null)
rm -f "$folder/$task.ended"
printf '%s\\n' "$SLURMD_NODENAME" "$(uname -n)" "$machine" >"$folder/$task.host"
for other in "$folder"/*.host; do
  if [ -s /etc/machine-id ] && [ "$other" != "$folder/$task.host" ] &&
    [ "$(sed -n 3p "$other")" = "$machine" ]; then
    echo "$(sed -n 1p "$other") and $SLURMD_NODENAME have the same /etc/machine-id: their runs" \\
      "could not be distinguished. Give each host an id of its own (systemd-machine-id-setup)" >&2
    ended 2
  fi
done

before=$(finished)
{command} &
harness=$!
limit=''
status=127
trap 'signalled=yes limit=yes; kill -TERM "$harness"' USR1 # {seconds} s before the time limit
trap 'signalled=yes; kill -TERM "$harness"' TERM INT
while :; do # a signal interrupts the wait
  signalled=''
  wait "$harness"
  waited=$?
  [ "$waited" -eq 127 ] || status=$waited
  [ "$signalled" ] || break
done
{gather}if [ "$limit" ] && [ "$status" -gt 128 ]; then
  if [ "$(finished)" != "$before" ]; then
    echo "time limit: requeued to resume"
    scontrol requeue "$SLURM_JOB_ID" && exit "$status"
  else
    echo "time limit: no run or step was completed within it; submit with a longer --time" >&2
  fi
fi
ended "$status"
"""


#: Where hosts have results of their own.
_GATHER = """if ls "$runs"/*/run.json >/dev/null 2>&1; then
  {command} --from "$SLURMD_NODENAME" || [ "$status" -ne 0 ] || status=1
fi
"""


class Submission(Struct, frozen=True, tag_field="schema", tag=1):
    """submission.json: an experiment in Slurm's queue."""

    documented = "docs/slurm.md"

    experiment: str
    plan: Annotated[str, Meta(description="hash of the plan")]
    spec_hashes: Annotated[tuple[str, ...], Meta(description="of all runs of the plan")]
    job_id: Annotated[int, Meta(ge=1, description="of the job array")]
    hosts: Annotated[
        tuple[str, ...], Meta(description="Slurm's node of each task; empty: Slurm chooses one")
    ]
    command: Annotated[tuple[str, ...], Meta(description="what each task runs")]
    submitted_unix_ns: Annotated[int, Meta(ge=0)]

    @property
    def tasks(self) -> range:
        """The indexes of the array."""
        return range(max(1, len(self.hosts)))


@dataclass(frozen=True)
class SlurmOptions:
    """Options of sbatch that experiments need; sbatch reads the others from SBATCH_* variables."""

    hosts: tuple[str, ...] = ()
    partition: str | None = None
    constraint: str | None = None
    account: str | None = None
    time: str | None = None

    @property
    def words(self) -> list[str]:
        """Return them as sbatch takes them, without the hosts."""
        named = ("partition", "constraint", "account", "time")
        return [f"--{name}={value}" for name in named if (value := getattr(self, name))]


@dataclass(frozen=True)
class ArrayJob:
    """A batch script and where its submission is recorded.

    ``profile``: a file to copy there. ``local_results``: each host's own results directory, whose
    runs the job imports into the shared one at its end; None where hosts write into that.
    """

    folder: Path
    plan: Plan
    options: SlurmOptions
    arguments: Sequence[str]
    profile: Path | None
    local_results: Path | None = None

    @property
    def results(self) -> Path:
        """The results directory that hosts write into."""
        return self.local_results or self.folder.parents[1]

    @property
    def command(self) -> list[str]:
        """The command of each task."""
        profile = [str(self.folder / _PROFILE)] if self.profile else []
        results = ("--results", str(self.results))
        return ["harness", "experiment", "run", *profile, *self.arguments, *results]

    @property
    def options_of_sbatch(self) -> list[str]:
        """Return what no SBATCH_* variable may change: options of its command line come first."""
        last = max(1, len(self.options.hosts)) - 1
        return [
            f"--job-name={self.plan.name}",
            f"--array=0-{last}",
            "--nodes=1",
            "--exclusive",
            "--mem=0",  # all of it
            "--requeue",
            f"--signal=B:USR1@{_ENDS_BEFORE_S}",
            f"--chdir={Path.cwd()}",
            "--open-mode=append",
            f"--output={self.folder}/%N.log",
            *self.options.words,
        ]

    @property
    def script(self) -> str:
        """The batch script."""
        directives = "".join(f"#SBATCH {shlex.quote(word)}\n" for word in self.options_of_sbatch)
        program, shared = harness_program(), str(self.folder.parents[1])
        importing = [program, "runs", "import", str(self.local_results), "--results", shared]
        body = _BODY.format(
            folder=shlex.quote(str(self.folder)),
            runs=shlex.quote(str(self.results / "runs")),
            command=shlex.join([program, *self.command[1:]]),
            seconds=_ENDS_BEFORE_S,
            gather=_GATHER.format(command=shlex.join(importing)) if self.local_results else "",
        )
        return f"#!/bin/sh\n{directives}{body}"


def harness_program() -> str:
    """Path of the command in this environment; hosts have it at the same path."""
    installed = Path(sys.executable).with_name("harness")
    return str(installed) if installed.exists() else shutil.which("harness") or "harness"


def new_job(
    results: Path,
    plan: Plan,
    options: SlurmOptions,
    arguments: Sequence[str],
    profile: Path | None,
    local_results: Path | None = None,
) -> ArrayJob:
    """Return the job, checked by Slurm; UsageError where it would not run."""
    if any(set(str(path)) & set("\\%\n") for path in (results, Path.cwd())):
        raise UsageError(f"results in {results}", "Slurm would read \\ and % in it", "rename it")
    _refuse_unwritable(results)
    _refuse_unshared(results, options.hosts)
    stem = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    folder = results / FOLDER / f"{stem}-{plan.name}"
    job = ArrayJob(folder, plan, options, arguments, profile, local_results)
    for host in options.hosts or ("",):
        _check(job, host)
    return job


def expanded_hosts(expressions: Sequence[str]) -> tuple[str, ...]:
    """Return the hosts of ``a,b`` and ``node[1-3]``, each once; UsageError without Slurm."""
    if shutil.which("sbatch") is None:
        raise UsageError(
            "submit to Slurm",
            "sbatch is not on PATH",
            "give the command on a login node of the cluster (often after `module load slurm`)",
        )
    if not expressions:
        return ()
    text = ",".join(expressions)
    done = _slurm("scontrol", "show", "hostnames", text)
    hosts = tuple(dict.fromkeys(done.stdout.split()))
    if done.returncode or not hosts:
        raise UsageError(f"--hosts {text}", _said(done), "name nodes of Slurm: --hosts a,b")
    return hosts


def _refuse_unwritable(results: Path) -> None:
    existing = next(path for path in (results / FOLDER, *results.parents) if path.exists())
    if existing != results / FOLDER and results.exists():
        existing = results
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(
            f"results in {results}",
            f"{existing} is not writable",
            "name a shared directory that you can write to: --results DIR",
        )


def _refuse_unshared(results: Path, hosts: Sequence[str], kernel: Kernel = LIVE) -> None:
    """UsageError where other hosts would not find the results directory."""
    existing = next(path for path in (results, *results.parents) if path.exists())
    mount = mount_of(existing, kernel)
    if mount is None or mount.filesystem not in _LOCAL or _is_exported(existing):
        return
    done = _slurm("scontrol", "--oneliner", "show", "node", *hosts[:1] and [",".join(hosts)])
    if done.returncode:
        raise UsageError(f"hosts {','.join(hosts)}".strip(), _said(done), _HOSTS_HINT)
    others = [name for name, address in _addresses(done.stdout) if not _is_here(address)]
    if others:
        raise UsageError(
            f"results in {results}",
            f"{mount.filesystem} at {mount.point} is not shared with {', '.join(others[:3])}",
            "name a directory on a network file system: --results DIR",
        )


def _is_exported(path: Path) -> bool:
    """Return whether this host is the NFS server of ``path``."""
    lines: list[str] = []
    with suppress(OSError):
        lines = _EXPORTS.read_text().splitlines()
    exported = [Path(words[0]) for line in lines if (words := line.split())]
    return any(path.resolve().is_relative_to(folder) for folder in exported)


def _addresses(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        if "NodeName" in fields:
            yield fields["NodeName"], fields.get("NodeAddr", fields["NodeName"])


def _is_here(address: str) -> bool:
    name = socket.gethostname()
    return address.startswith("127.") or address in ("localhost", name, name.partition(".")[0])


_HOSTS_HINT = "`sinfo -N -o '%N %P %T %f'` lists hosts, partitions, states and features"


def _check(job: ArrayJob, host: str) -> None:
    """UsageError where Slurm would not accept the job on ``host``; it is not submitted."""
    words = [word for word in job.options_of_sbatch if not word.startswith("--array=")]
    if host:
        words.append(f"--nodelist={host}")
    done = _slurm("sbatch", "--test-only", *words, stdin=job.script)
    if done.returncode:
        options = " ".join([*([f"--hosts {host}"] if host else []), *job.options.words])
        raise UsageError(f"submit {job.plan.name} {options}".strip(), _said(done), _HOSTS_HINT)


def submit(job: ArrayJob) -> Submission:
    """Submit the job: no task starts before all are bound to their hosts, and recorded.

    RunFailed where that is not possible; nothing is left in the queue then.
    """
    folder = _made(job.folder)
    try:
        if job.profile:
            _copy_profile(job.profile, folder)
        write_atomically(folder / _SCRIPT, job.script.encode())
        words = ["--parsable", "--hold", *job.options_of_sbatch]
        printed = output_of("submit the job", "sbatch", *words, stdin=job.script)
        job_id = int(printed.strip().partition(";")[0])
        with _cancelled_on_failure(job_id):
            submission = Submission(
                job.plan.name,
                job.plan.hash,
                tuple(dict.fromkeys(spec.hash() for spec in job.plan.runs)),
                job_id,
                job.options.hosts,
                tuple(job.command),
                time.time_ns(),
            )
            write_json_atomically(folder / _RECORD, submission.to_json())
            for task, host in enumerate(job.options.hosts):
                bound = f"JobId={job_id}_{task}", f"ReqNodeList={host}"
                output_of(f"bind task {task} to {host}", "scontrol", "update", *bound)
            output_of("release the job", "scontrol", "release", str(job_id))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return submission


def _made(folder: Path) -> Path:
    try:
        make_own(folder.parent)
        folder.mkdir()
    except OSError as error:
        raise UsageError(
            f"results in {folder.parents[1]}",
            f"{error.strerror or error}: {error.filename or folder}",
            "name a shared directory that you can write to: --results DIR",
        ) from error
    return folder


def _copy_profile(profile: Path, folder: Path) -> None:
    """Copy the profile, and published values next to it: either may change before a task starts."""
    for path, name in ((profile, _PROFILE), (profile.with_name(PUBLISHED), PUBLISHED)):
        if path.exists():
            write_atomically(folder / name, jsonfile.read_bytes(path))


@contextmanager
def _cancelled_on_failure(job_id: int) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        done = _slurm("scancel", str(job_id))
        if done.returncode:
            error.add_note(f"job {job_id} is still in Slurm's queue: {_said(done)}")
        raise


def submissions(results: Path) -> Iterator[tuple[Path, Submission]]:
    """Yield the folders and records of all submissions of a results directory, oldest first."""
    for path in sorted((results / FOLDER).glob(f"*/{_RECORD}")):
        try:
            yield path.parent, structs.convert(jsonfile.read(path), Submission, str(path))
        except (OSError, ValueError, UsageError) as error:
            warn(
                RunWarning(
                    "submission-unreadable",
                    "a submission to Slurm is left out",
                    f"{path}: {error}",
                    f"remove its folder: rm -r {shlex.quote(str(path.parent))}",
                )
            )


def output_of(problem: str, *command: str, stdin: str = "") -> str:
    """Return what a client of Slurm prints; RunFailed where it fails."""
    done = _slurm(*command, stdin=stdin)
    if done.returncode:
        raise RunFailed(problem, _said(done))
    return done.stdout


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"{done.args[0]} ended with {done.returncode}"


def _slurm(*command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a client of Slurm, with the whole environment: that of the job, and SBATCH_* variables.

    UsageError where it does not answer.
    """
    try:
        return programs.run(command, timeout_s=_TIMEOUT_S, stdin=stdin, env=os.environ)
    except OSError as error:
        context = f"{error.strerror}: {error.filename}"
        raise UsageError(f"run {command[0]}", context, "install Slurm's clients") from error
    except subprocess.TimeoutExpired as error:
        context = f"no answer within {_TIMEOUT_S:g} s"
        raise UsageError(
            f"run {command[0]}", context, "`scontrol ping` shows its daemon"
        ) from error
