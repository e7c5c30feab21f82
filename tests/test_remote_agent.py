"""Operations of a client host for a key restricted to ``python -m harness.remote_agent forced``."""

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

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


@pytest.fixture
def listening() -> Iterator[Callable[[Path], Path]]:
    """Make a socket at a path, as any program of this account does."""
    servers = []

    def start(path: Path) -> Path:
        servers.append(socket.socket(socket.AF_UNIX))
        servers[-1].bind(str(path))
        return path

    yield start
    for server in servers:
        Path(server.getsockname()).unlink(missing_ok=True)
        server.close()


def test_it_removes_no_socket_but_its_tunnel_s(
    listening: Callable[[Path], Path], tmp_path: Path
) -> None:
    other = listening(tmp_path / "agent.sock")
    tunnel = Path(f"/tmp/tierbench-{10_000 + secrets.randbelow(9_999)}.sock")
    run = "exec python -m harness.remote_agent run absent"
    for path in (other, f"/tmp/..{other}", f"{tunnel}/../{other.name}"):
        assert forced(f"{run} {path}").returncode == 2
        assert other.is_socket()
    assert forced(f"{run} {listening(tunnel)}").returncode == 2  # there is no such back end
    assert not tunnel.exists()
    tunnel.symlink_to(other)
    forced(f"{run} {tunnel}")
    assert other.is_socket() and not tunnel.is_symlink()
