"""The agent on a host that drives the load of another host's server; ssh runs it there.

::

    python -m harness.remote_agent hello postgres        # facts in one line, then the time
    python -m harness.remote_agent address 10.0.0.5      # the address by which it reaches that one
    python -m harness.remote_agent run postgres [SOCKET] # loadgen; spec on stdin
    python -m harness.remote_agent forced                # sshd's: one of these, nothing else

``run`` prints loadgen's progress and, last, its result on stdout, a line each: ssh has no third
descriptor. ``SOCKET`` is this end of the tunnel to the server, removed at the end; there is none
where the server listens for this host. ``forced`` is the ``command=`` of a key in authorized_keys:
its holder's command is in ``$SSH_ORIGINAL_COMMAND``, and no shell reads it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import sys
import time
from pathlib import Path

from harness.errors import HarnessError
from harness.native_programs import LOADGEN_INTERFACE, loadgen_program
from harness.supervise import programs

_ANY_PORT = 9
#: What engines call a tunnel's end (``Engine.tunnel``); this account may have other sockets.
_TUNNEL = re.compile(r"/tmp/(\.s\.PGSQL\.\d{5}|tierbench-\d{5}\.sock)")


def main(argv: list[str]) -> int:
    """Run the command; return its exit status."""
    if argv == ["forced"]:
        argv = _requested(os.environ.get("SSH_ORIGINAL_COMMAND", ""))
    if (
        len(argv) not in (2, 3)
        or argv[0] not in ("hello", "address", "run")
        or (len(argv) == 3 and not _TUNNEL.fullmatch(argv[2]))
    ):
        print(
            "harness.remote_agent: only `hello BACKEND`, `address ADDRESS`, `run BACKEND [SOCKET]`",
            file=sys.stderr,
        )
        return 2
    task, backend, *rest = argv
    if task == "hello":
        return _hello(backend)
    if task == "address":
        print(_address_towards(backend))
        return 0
    return _run(backend, Path(rest[0]) if rest else None)


def _requested(command: str) -> list[str]:
    """Return the arguments in ``exec PYTHON -m harness.remote_agent …``; none in other commands."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    return (
        words[4:] if words[:1] == ["exec"] and words[2:4] == ["-m", "harness.remote_agent"] else []
    )


def _hello(backend: str) -> int:
    """Print whether loadgen is here, and this host's clock for each line on stdin."""
    answer: dict[str, object] = {"interface": LOADGEN_INTERFACE, "error": None}
    try:
        loadgen_program(backend)
    except HarnessError as error:
        answer["error"] = error.to_json()
    print(json.dumps(answer), flush=True)
    for _ in sys.stdin:
        print(time.time_ns(), flush=True)
    return 0


def _address_towards(host: str) -> str:
    """Return the address by the routes of this host; nothing is sent."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect((host, _ANY_PORT))
        return str(way.getsockname()[0])


def _run(backend: str, tunnel: Path | None) -> int:
    try:
        program = loadgen_program(backend)
        # Descriptor 3 is stdout's: both write whole lines.
        command = ["/bin/sh", "-c", 'exec "$0" - 3>&1', str(program)]
        return programs.start(command, stdin=0, stdout=1, stderr=2).wait()
    except HarnessError as error:
        print(f"{error}; {error.hint}", file=sys.stderr)
        return 2
    finally:
        if tunnel is not None and tunnel.is_socket() and tunnel.lstat().st_uid == os.geteuid():
            tunnel.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
