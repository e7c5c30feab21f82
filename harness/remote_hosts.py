"""Access to other hosts by the user's own ssh: its configuration, keys and agent; no prompts.

What runs there is harness.remote_agent.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
from collections.abc import Iterable, Sequence
from functools import lru_cache

from harness.errors import UsageError
from harness.supervise import programs
from harness.supervise.silence import limit_s

#: Where the playbooks install the harness (role harness), unless this variable names a place.
_PYTHON = "/opt/tierbench/current/venv/bin/python"
_PYTHON_VARIABLE = "HARNESS_CLIENT_PYTHON"
#: Further arguments of ssh, such as ``-F FILE``, separated by spaces.
_SSH_VARIABLE = "HARNESS_SSH_OPTIONS"
_OPTIONS = (
    *("BatchMode=yes", "ExitOnForwardFailure=yes", "ServerAliveInterval=15"),
    # Whatever the user's configuration has: a client host is not to use the user's keys.
    *("ForwardAgent=no", "ForwardX11=no"),
)


def agent_argv(host: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """Return the command that runs the agent on ``host``; ``options``: further options of ssh."""
    fixed = [word for option in _OPTIONS for word in ("-o", option)]
    given = os.environ.get(_SSH_VARIABLE, "").split()
    return ["ssh", "-T", *fixed, *given, *options, host, f"exec {_agent()} {' '.join(arguments)}"]


def environment() -> dict[str, str]:
    """Return the user's variables that ssh needs: its agent, and the home directory."""
    names = ("HOME", "SSH_AUTH_SOCK", "USER", "LOGNAME")
    return {name: os.environ[name] for name in names if name in os.environ}


def remedy(host: str, *arguments: str) -> str:
    """Return the hint for an agent that does not answer."""
    return (
        f"see that `ssh -o BatchMode=yes {host} {_agent()} {' '.join(arguments)}` answers "
        f"(run-experiment.yml installs it; ${_PYTHON_VARIABLE}, ${_SSH_VARIABLE})"
    )


def addresses(hosts: Iterable[str], towards: str) -> tuple[str, ...]:
    """Return the addresses by which the hosts reach ``towards`` of this host, each once.

    UsageError where a host cannot be reached, or does not reach that address.
    """
    return tuple(dict.fromkeys(_address(host, towards) for host in hosts))


def _agent() -> str:
    return f"{os.environ.get(_PYTHON_VARIABLE, _PYTHON)} -m harness.remote_agent"


@lru_cache
def _address(host: str, towards: str) -> str:
    problem = f"let {host} connect to {towards}"
    arguments = ("address", towards)
    try:
        done = programs.run(
            agent_argv(host, *arguments), timeout_s=limit_s("hello"), env=environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(problem, str(error), "install openssh-client") from error
    try:
        return str(ipaddress.ip_address(done.stdout.strip()))
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it prints no address"])[-1]
        raise UsageError(problem, last, remedy(host, *arguments)) from None
