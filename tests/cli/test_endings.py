"""How commands end that cannot go on: in order, told, with the right exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import pytest

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


def test_the_command_line_is_importable_without_its_commands():
    program = "import sys, harness.cli; sys.exit('typer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("argv", [["data", "list"], ["doctor", "--json"], ["--version"]])
def test_output_that_cannot_be_written_is_told(harness, argv):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from harness.cli import main; main()", *argv],
            env=harness.environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "harness: standard output: No space left on device\n"


def test_a_reader_that_has_gone_is_no_error_worth_words(harness):
    process = harness.start("data", "list")
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    assert process.wait() == 1


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
