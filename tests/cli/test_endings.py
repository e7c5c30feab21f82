"""Ends of commands that cannot go on: in order, with a reason and the right exit code."""

import errno
import fcntl
import os
import pty
import random
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from patience import PATIENCE_S

from harness.errors import interruption
from harness.execution.host_lock import one_at_a_time
from harness.progress import SilentProgress
from harness.store.datasets import DatasetStore
from harness.supervise.supervisor import Supervisor
from harness.workloads.tpch import data, refresh_sets

#: The command, interrupted by itself while it still imports.
INTERRUPTED_IMPORT = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "harness.store.runs":
            os.kill(os.getpid(), signal.{name})
sys.meta_path.insert(0, Interrupts())
from harness.cli import main
main()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interruption_while_it_imports_ends_in_order(harness, name, code):
    program = INTERRUPTED_IMPORT.replace("{name}", name)
    done = subprocess.run(
        [sys.executable, "-c", program, "runs", "list", "--json"],
        env=harness.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code
    assert done.stderr.startswith("harness: interrupted: ") and done.stderr.count("\n") == 1
    assert '"type": "Interrupted"' in done.stdout


#: The signal is noted as its handler does it, and interrupts nothing.
NOTED_SIGNAL = """
import _thread, threading, time
from harness.cli import lose_no_signal
lose_no_signal()
threading.Timer(0.2, _thread.interrupt_main).start()
time.sleep(1000)
"""


def test_a_signal_that_is_noted_just_before_a_wait_ends_the_wait(harness):
    done = subprocess.run(
        [sys.executable, "-c", NOTED_SIGNAL], env=harness.environment, stderr=subprocess.DEVNULL,
        check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == -signal.SIGINT


@pytest.mark.parametrize("argv", [["data", "list"], ["doctor", "--json"], ["--version"]])
def test_output_that_cannot_be_written_is_told(harness, argv):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from harness.cli import main; main()", *argv],
            env=harness.environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == f"harness: standard output: {os.strerror(errno.ENOSPC)}\n"


def _interrupt_once_computed(seconds):
    """By when so much processor time is used up, the statement has long begun."""
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_within_a_statement_of_our_own_duckdb_is_an_interruption():
    """It raises RuntimeError instead, and the KeyboardInterrupt is lost."""
    # Of several threads it is by chance the one that looks for signals which works.
    endless = duckdb.connect(config={"threads": 1})
    interrupting = threading.Thread(target=_interrupt_once_computed, args=(0.5,))
    with pytest.raises(RuntimeError) as raised:
        interrupting.start()
        endless.sql("SELECT sum(hash(i) % 7) FROM range(1000000000000) t(i)").show()
    interrupting.join()
    assert isinstance(interruption(raised.value), KeyboardInterrupt)


#: The cheapest run with an engine's process.
COUNTING = ["run", "counting", "--engine", "duckdb", "--placement", "ssd-both", "--again"]
TOYS = {"HARNESS_WORKLOAD_PATH": str(Path(__file__).parents[1] / "toy_workloads")}
#: Before the command: SIGHUP is ignored, as nohup(1) sets it, and arrives during the measurement.
HUNG_UP = """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from harness.workload import Session
measured = Session.measured
def hung_up(session):
    os.kill(0, signal.SIGHUP)
    measured(session)
Session.measured = hung_up
"""


def test_a_run_under_nohup_survives_the_end_of_its_terminal(loaded):
    process = loaded.start(*COUNTING, "--json", first=HUNG_UP, **TOYS)
    assert loaded.ended(process).run["status"] == "complete"


def run_ids(harness):
    return {run["run_id"] for run in harness("runs", "list", "--json").json["runs"]}


@pytest.mark.parametrize("closed", [("stderr",), ("stdout",), ("stdout", "stderr")])
def test_a_run_whose_output_nothing_reads_is_stored(loaded, closed):
    before = run_ids(loaded)
    process = loaded.start(*COUNTING, **TOYS)
    for name in closed:
        getattr(process, name).close()
    assert process.wait(PATIENCE_S) == ("stdout" in closed)
    for stream in (process.stdout, process.stderr):
        stream.close()
    (made,) = run_ids(loaded) - before
    assert loaded("runs", "show", made, "--json").json["run"]["status"] == "complete"


def test_closed_descriptors_are_given_to_no_file(loaded):
    command = [sys.executable, "-c", "from harness.cli import main; main()", *COUNTING]
    done = subprocess.run(
        ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command],
        env=loaded.environment | TOYS, cwd=loaded.root, check=False,
    )  # fmt: skip
    assert done.returncode == 0


#: Before the command: what happens to the results while the first run is measured.
DAMAGED = """
import subprocess
from harness.workload import Session
measured = Session.measured
def damaged(session):
    Session.measured = measured
    subprocess.run({!r}, shell=True, check=False)
    measured(session)
Session.measured = damaged
"""


@pytest.fixture
def small_results(loaded):
    """A file system of 48 MiB for the results."""
    folder = loaded.root / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48M,mode=755", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
    folder.rmdir()
    shutil.rmtree(loaded.data / "state/rescued")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
@pytest.mark.parametrize(
    ("damage", "stored"),
    [
        ("cat /dev/zero > {}/filler", 1),  # into what the run has reserved
        ("rm -r {}/runs", 1),  # the next run makes it again
        ("mount -t tmpfs -o ro,mode=755 tmpfs {}/runs", 0),
    ],
    ids=["full", "removed", "read-only"],
)
def test_all_runs_of_a_plan_are_made_and_none_is_lost(loaded, small_results, damage, stored):
    results = ("--results", small_results)
    first = DAMAGED.format(damage.format(small_results))
    done = loaded.ended(loaded.start(*COUNTING, "--repeats", 2, *results, first=first, **TOYS))
    assert done.code == 1, done.err
    assert done.err.count("warning: result-rescued: ") == 2 - stored
    assert len(loaded("runs", "list", *results, "--json").document["runs"]) == stored
    subprocess.run(["umount", small_results / "runs"], check=False, capture_output=True)
    (small_results / "filler").unlink(missing_ok=True)
    rescued = loaded.data / "state/rescued" / small_results.relative_to("/")
    imported = loaded("runs", "import", rescued, *results, "--json").document["imported"]
    assert len(imported) == 2 - stored
    listed = loaded("runs", "list", *results, "--json").document
    assert [run["status"] for run in listed["runs"]] == ["complete"] * 2
    assert [run["spec"]["block"] for run in listed["runs"]] == [0, 1]
    assert not listed["unfinished"] and loaded.settled() == []


# What goes wrong under way --------------------------------------------------------


POSTGRES = ["run", "tpch", "--engine", "postgres", "--scale", "0.01"]
YCSB = ["run", "ycsb", "--engine", "postgres", "--workload", "d", "--records", "1000"]


def test_a_server_that_does_not_start_shows_its_log(harness):
    done = harness(*POSTGRES, "--placement", "ssd-both", "--set", "shared_buffers=64TB")
    assert done.code in (1, 2), done.err
    assert "shared_buffers" in done.err + done.out
    assert "Traceback" not in done.err
    assert harness.settled() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
@pytest.mark.parametrize("small_disk", ["2G"], indirect=True)
def test_a_disk_that_fills_up_half_way_fails_the_run_with_its_reason(harness, small_disk):
    """The space was there when it was checked; then another program took it."""
    argv = [*YCSB, "--placement", "small-both", "--host", small_disk.host, "--ramp-up", "0s"]
    assert harness(*argv, "--operations", "10").code == 0
    process = harness.start(*argv, "--operations", "1000000", "--retries", "0")
    while process.poll() is None and not small_disk.used():
        time.sleep(0.005)
    small_disk.fill()
    _, err = process.communicate(timeout=PATIENCE_S)
    small_disk.free()
    assert process.returncode == 1, err
    # Of a block of which a part had room, PostgreSQL has other words.
    assert re.search(r"No space left|wrote only \d+ of \d+ bytes", err), err
    listed = harness("runs", "list", "--json").json
    assert sorted(run["status"] for run in listed["runs"]) == ["complete", "failed"]
    assert harness.settled() == []


def test_sigterm_ends_in_order_and_leaves_nothing(loaded):
    """SIGTERM ends a command as Ctrl-C does (test_tpcc_command.py, test_resume.py)."""
    before = loaded("runs", "list", "--json").json
    process = loaded.start(*POSTGRES, "--placement", "ssd-both", "--repeats", "50")
    while not loaded.at_work() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.5)
    done = loaded.interrupt(process, signal.SIGTERM)
    assert done.code == 128 + signal.SIGTERM, done.err
    assert "Traceback" not in done.err
    assert loaded.settled() == []
    left = set(loaded("runs", "list", "--json").json["unfinished"]) - set(before["unfinished"])
    for name in left:  # finished steps are never lost, and it is said that they are kept
        assert re.search(rf"{name}: \d+ finished steps", done.err)
    assert loaded("runs", "rm", "--unfinished", "--yes").code == 0


def test_kill_9_at_random_moments_leaves_nothing_and_loses_nothing(loaded):
    """The bar of the design is 50 moments: HARNESS_TEST_KILLS=50 (a few here, for time)."""
    argv = [*POSTGRES, "--engine", "duckdb", "--placement", "ssd-data-pmem-wal",
            "--emulate", "pmem", "--queries", "6", "--memory-limit", "1GiB"]  # fmt: skip
    assert loaded(*argv).code == 0
    draw = random.Random(20231)
    for kill in range(int(os.environ.get("HARNESS_TEST_KILLS", "2"))):
        finished = run_ids(loaded)
        if kill % 2 == 1:  # from time to time while the data are loaded, too
            loaded("data", "rm", "--all", "--yes")
        process = loaded.start(*argv)
        time.sleep(draw.uniform(0.2, 6))
        process.kill()
        process.communicate()
        assert loaded.settled() == [], f"kill {kill}"
        assert finished <= run_ids(loaded)
        for name in loaded("runs", "list", "--json").json["unfinished"]:
            assert not (loaded.results / "runs" / name / "run.json").exists()
    assert loaded(*argv).code == 0


# Two commands on the same data ----------------------------------------------------


RUN = ["run", "tpch", "--engine", "duckdb", "--scale", "0.01", "--queries", "6"]


def test_under_a_run_no_data_are_removed_and_the_host_is_locked(loaded):
    """Restoring and starting would be in the numbers of another harness."""
    process = loaded.start(*RUN, "--placement", "ssd-both", "--repeats", "40")
    _stop_at_work(loaded, process)  # between two runs they are not in use
    done = loaded("data", "rm", "--all", "--yes")
    with pytest.raises(_Waits) as waits, one_at_a_time(_Asks()):
        pass
    process.send_signal(signal.SIGCONT)
    assert process.poll() is None, process.communicate()
    assert loaded.interrupt(process).code == 130
    assert f"process {process.pid}" in str(waits.value)
    assert done.code == 2
    assert "in use" in done.err
    kinds = {entry["kind"] for entry in loaded("data", "list", "--json").json["data"]}
    assert kinds == {"golden", "source"}


def test_nothing_is_loaded_while_another_harness_measures(harness):
    with one_at_a_time(SilentProgress()):
        process = harness.start(*RUN, "--placement", "ssd-both")
        messages = next(line for line in process.stderr if "waiting" in line)
        assert f"process {os.getpid()}" in messages
        assert not [path for path in harness.data.rglob("*") if ".partial-" in path.name]
    _, errors = process.communicate()
    assert process.returncode == 0, errors


class _Waits(Exception):
    pass


class _Asks(SilentProgress):
    """Does not wait for the lock."""

    def say(self, text):
        raise _Waits(text)


def _stop_at_work(loaded, process):
    """Stop a command while one of its runs has its data in place."""
    while process.poll() is None:
        if loaded.at_work():
            process.send_signal(signal.SIGSTOP)
            # What the process does now it does no longer behind this.
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if loaded.at_work():  # still
                return
            process.send_signal(signal.SIGCONT)
        time.sleep(0.02)
    raise AssertionError(process.communicate())


@pytest.fixture
def tmpfs_directory():
    path = Path(tempfile.mkdtemp(prefix="tierbench-test-", dir="/dev/shm"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_a_run_uses_the_tmpfs_it_was_told(loaded, tmpfs_directory):
    emulate = ("--placement", "pmem-both", "--emulate", f"pmem={tmpfs_directory}")
    run = loaded(*RUN, *emulate, "--json").run
    assert run["emulated"] == [{"tier": "pmem", "by": f"tmpfs at {tmpfs_directory}"}]
    assert run["spec"]["emulate"] == ["pmem"]
    assert list(tmpfs_directory.iterdir()) == []


# Data whose files are not as they were made ---------------------------------------


SMALL = ["run", "tpch", "--engine", "duckdb", "--scale", "0.01", "--placement", "ssd-both"]
Q6 = [*SMALL, "--queries", "6", "--again"]


def test_a_flipped_bit_is_refused_by_the_name_of_its_file(harness):
    folder = Path(harness.data)
    assert harness(*Q6).code == 0
    assert _flipped(folder, "golden/*/content/*/*") in _refused(harness, Q6)
    for entry in harness("data", "list", "--json").json["data"]:
        if entry["kind"] == "golden":
            assert harness("data", "rm", entry["name"], "--yes").code == 0
    assert _flipped(folder, "source/*/content/lineitem/*.parquet") in _refused(harness, Q6)
    assert not list(folder.glob("golden/*/golden.json"))
    _flipped(folder, "source/*/content/lineitem/*.parquet")
    with Supervisor(harness.root / "state") as supervisor:
        store = DatasetStore(folder / "source", supervisor.journal)
        with store.building(data.refresh_name(0.01, 1), SilentProgress()) as building:
            assert building is not None
            refresh_sets.prepare(0.01, range(1, 2), building.content, SilentProgress())
            building.publish({}, {}, SilentProgress())
    name = _flipped(folder, "source/*/content/set-1/lineitem.tbl.u1")
    assert name in _refused(harness, [*SMALL, "--test", "power"])


def _flipped(folder: Path, pattern: str) -> str:
    """Flip a bit of the file; its name."""
    file = next(path for path in folder.glob(pattern) if path.is_file())
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 4
    file.write_bytes(content)
    return file.name


def _refused(harness, argv: list[str]) -> str:
    done = harness(*argv)
    assert done.code == 1, done.err
    run = max(harness("runs", "list", "--json").json["runs"], key=lambda run: run["run_id"])
    return f"{done.out}{done.err}" if run["status"] != "complete" else "it was run"


# What a terminal shows, and what Ctrl-C leaves ------------------------------------


WATCHED = ["run", "ycsb", "--engine", "rocksdb", "--placement", "ssd-both", "--records", "2000",
        "--ramp-up", "3s", "--duration", "3s", "--rate", "200", "--repeats", "2"]  # fmt: skip
#: The cheapest runs with an engine.
REPEATED = ["run", "counting", "--engine", "duckdb", "--placement", "ssd-both", "--repeats", "3"]
#: Before the command: its second run waits for a signal.
SECOND_WAITS = """
import signal
from harness.workload import Session
measured = Session.measured
def first_measured(session):
    Session.measured = lambda session: signal.pause()
    measured(session)
Session.measured = first_measured
"""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(harness: Any, *argv: str) -> tuple[int, list[str]]:
    """The exit status of the command, and all lines that a terminal of 80 columns has shown."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", "from harness.cli import main; main()", *argv],
        cwd=harness.root, env=harness.environment | {"TERM": "xterm", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL, stdout=its, stderr=its,
    )  # fmt: skip
    os.close(its)
    text = _CONTROL.sub("", b"".join(_read(ours)).decode())
    os.close(ours)
    return process.wait(), re.split(r"[\r\n]+", text)


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(terminal, 1 << 16)
        except OSError:  # all that wrote to it have ended
            return


def test_a_terminal_shows_window_rate_p99_and_what_is_left(loaded):
    code, lines = on_a_terminal(loaded, *WATCHED)
    assert code == 0, lines
    shown = [line.lstrip("━╸╺ ").rstrip() for line in lines]
    seconds = r" \d\.\d of {} s: [\d,]+ operations/s, p99 [\d.,]+ (µs|ms|s)"
    for phase, length in (("warm-up", 3), ("measurement", 3)):
        assert any(re.fullmatch(phase + seconds.format(length), line) for line in shown), shown
    assert any(
        re.fullmatch(r"experiment \S+ 1 of 2 runs: \d+:\d\d:\d\d left", line) for line in shown
    )
    assert max(len(line) for line in lines if "━" in line) <= 80


def test_ctrl_c_says_what_is_kept_and_its_command_resumes(loaded):
    process = loaded.start(*REPEATED, "--again", "--json", first=SECOND_WAITS, **TOYS)
    run_id = next(line for line in process.stderr if ": complete" in line).partition(":")[0]
    done = loaded.interrupt(process)
    assert done.code == 130, done.err
    command = shlex.split(done.json["error"]["hint"].splitlines()[1])
    printed = done.err.partition("complete run")[2].partition("\n")[2]
    assert shlex.split(printed.replace("\\\n", "")) == command  # as the shell reads it
    resumed = loaded(*command[command.index("run") :], **TOYS)
    runs = [run["run_id"] for run in resumed.document["runs"]]
    assert runs[0] == run_id and len(set(runs)) == 3
    repeated = loaded(*command[command.index("run") :], **TOYS)  # nothing is left to resume
    assert not {run["run_id"] for run in repeated.json["runs"]} & set(runs)
