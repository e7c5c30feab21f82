"""What a client host does for a key that is held to ``python -m harness.remote_agent forced``."""

import json
import os
import subprocess
import sys

import pytest


def forced(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness.remote_agent", "forced"],
        env={**os.environ, "SSH_ORIGINAL_COMMAND": command},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_it_answers_the_harness() -> None:
    done = forced("exec /opt/any/python -m harness.remote_agent hello postgres")
    assert done.returncode == 0
    assert json.loads(done.stdout).keys() == {"interface", "error"}


@pytest.mark.parametrize(
    "command",
    ["", "id", "sh -c id", "exec python -m harness.remote_agent hello postgres; id; id",
     "exec 'python",
     "exec python -m harness.remote_agent forced", "exec python -m http.server run x"],
)  # fmt: skip
def test_it_does_nothing_else(command: str) -> None:
    done = forced(command)
    assert (done.returncode, done.stdout) == (2, "")
