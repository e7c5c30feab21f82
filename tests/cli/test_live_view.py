"""What a person sees while runs are made, and what Ctrl-C leaves: the real command."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

YCSB = ["run", "ycsb", "--engine", "rocksdb", "--placement", "ssd-both", "--records", "2000",
        "--ramp-up", "3s", "--duration", "3s", "--rate", "200", "--repeats", "2"]  # fmt: skip
#: The cheapest runs with an engine.
COUNTING = ["run", "counting", "--engine", "duckdb", "--placement", "ssd-both", "--repeats", "6"]
TOYS = {"HARNESS_WORKLOAD_PATH": str(Path(__file__).parents[1] / "toy_workloads")}
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
    code, lines = on_a_terminal(loaded, *YCSB)
    assert code == 0, lines
    shown = [line.lstrip("━╸╺ ").rstrip() for line in lines]
    seconds = r" \d\.\d of {} s: [\d,]+ operations/s, p99 [\d.,]+ (µs|ms|s)"
    for phase, length in (("warm-up", 3), ("measurement", 3)):
        assert any(re.fullmatch(phase + seconds.format(length), line) for line in shown), shown
    assert any(re.fullmatch(r"experiment \S+ 1 of 2 runs: 0:00:\d\d left", one) for one in shown)
    assert max(len(line) for line in lines if "━" in line) <= 80


def test_ctrl_c_says_what_is_kept_and_its_command_resumes(loaded):
    process = loaded.start(*COUNTING, "--again", "--json", **TOYS)
    kept = next(line for line in process.stderr if ": complete" in line).partition(":")[0]
    done = loaded.interrupt(process)
    assert done.code == 130, done.err
    command = shlex.split(done.json["error"]["hint"].splitlines()[1])
    printed = done.err.partition("complete run")[2].partition("\n")[2]
    assert shlex.split(printed.replace("\\\n", "")) == command  # as the shell reads it
    resumed = loaded(*command[command.index("run") :], **TOYS)
    assert resumed.code == 0, resumed.err
    runs = [run["run_id"] for run in resumed.json["runs"]]
    assert runs[0] == kept and len(set(runs)) == 6
    repeated = loaded(*command[command.index("run") :], **TOYS)  # nothing is left to resume
    assert not {run["run_id"] for run in repeated.json["runs"]} & set(runs)
