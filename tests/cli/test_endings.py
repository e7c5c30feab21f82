"""How commands end that cannot go on: in order, told, with the right exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import pytest
from patience import PATIENCE_S

from harness.errors import interruption

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
    assert done.stderr == "harness: interrupted: everything that was started is stopped\n"
    assert '"type": "Interrupted"' in done.stdout


@pytest.mark.parametrize("argv", [["data", "list"], ["doctor", "--json"], ["--version"]])
def test_output_that_cannot_be_written_is_told(harness, argv):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from harness.cli import main; main()", *argv],
            env=harness.environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "harness: standard output: No space left on device\n"


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
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert json.loads(out)["runs"][0]["status"] == "complete"


@pytest.mark.parametrize("closed", [("stderr",), ("stdout",), ("stdout", "stderr")])
def test_a_run_whose_output_nothing_reads_is_stored(loaded, closed):
    before = {run["run_id"] for run in loaded("runs", "list", "--json").json["runs"]}
    process = loaded.start(*COUNTING, **TOYS)
    for name in closed:
        getattr(process, name).close()
    assert process.wait(PATIENCE_S) == ("stdout" in closed)
    for stream in (process.stdout, process.stderr):
        stream.close()
    runs = [r for r in loaded("runs", "list", "--json").json["runs"] if r["run_id"] not in before]
    assert [run["status"] for run in runs] == ["complete"]


def test_closed_descriptors_are_given_to_no_file(loaded):
    command = [sys.executable, "-c", "from harness.cli import main; main()", *COUNTING]
    done = subprocess.run(
        ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command],
        env=loaded.environment | TOYS, cwd=loaded.root, check=False,
    )  # fmt: skip
    assert done.returncode == 0
