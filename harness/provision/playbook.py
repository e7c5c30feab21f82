"""Running a playbook by ansible-runner, and what it says of each host.

Every provisioning playbook ends with the fact ``provisioning``::

    {mode, steps: [{do, object, why}], refusals: [{object, why, do}], changed, state, …}

It is read from the events of the run, host by host; nothing of Ansible's output is parsed.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness import paths
from harness.errors import UsageError
from harness.progress import Progress, Task

_INSTALL = "pip install 'tierbench[hosts]'"


@dataclass
class HostOutcome:
    """What a playbook says of one host: its fact ``provisioning``, and how it failed there."""

    host: str
    provisioning: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def refusals(self) -> list[dict[str, str]]:
        """What the playbook will not do there; nothing was changed then."""
        found: list[dict[str, str]] = self.provisioning.get("refusals", [])
        return found

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What was planned or done."""
        found: list[dict[str, Any]] = self.provisioning.get("steps", [])
        return found

    @property
    def changed(self) -> bool:
        """Whether the host is another than before; in a plan, whether it would be."""
        return bool(self.provisioning.get("changed"))

    def to_json(self) -> dict[str, Any]:
        """As ``harness host --json`` prints it."""
        return {"host": self.host, "provisioning": self.provisioning, "failures": self.failures}


def playbooks_folder() -> Path:
    """Where the playbooks are; UsageError where this installation has none."""
    folder = paths.data_folder("playbooks")
    if (folder / "ansible.cfg").is_file():
        return folder
    raise UsageError("provision a host", "no playbooks in this installation", "install it again")


@dataclass(frozen=True)
class Asked:
    """One run of a playbook. ``inventory`` None: ansible.cfg's, or $ANSIBLE_INVENTORY."""

    playbook: str
    variables: Mapping[str, Any]
    check: bool = False
    inventory: Path | None = None
    limit: str | None = None
    arguments: Sequence[str] = ()


def run_playbook(asked: Asked, progress: Progress) -> list[HostOutcome]:
    """Run it to its end; one outcome a host, in the order they were met.

    UsageError where Ansible is missing or the playbook matched no host. A host's failure is
    in its outcome. Ctrl-C ends Ansible, then raises KeyboardInterrupt.
    """
    if find_spec("ansible_runner") is None or find_spec("ansible") is None:
        raise UsageError(
            f"run {asked.playbook}", "ansible-runner and ansible-core are not installed", _INSTALL
        )
    import ansible_runner

    folder = playbooks_folder()
    with (
        tempfile.TemporaryDirectory(prefix="tierbench-ansible-") as private,
        progress.task(asked.playbook) as task,
        _signals_kept(),
    ):
        listener = _Listener(task)
        done = ansible_runner.run(
            private_data_dir=private,
            project_dir=str(folder),
            playbook=asked.playbook,
            inventory=str(asked.inventory.absolute()) if asked.inventory else None,
            limit=asked.limit,
            extravars=dict(asked.variables),
            cmdline=_command_line(asked),
            envvars=_environment(folder, Path(private)),
            event_handler=listener.hear,
            quiet=True,
        )
        if done.status == "canceled":
            raise KeyboardInterrupt
        if not listener.outcomes:
            raise UsageError(
                f"run {asked.playbook}", _last_words(done), "name an inventory with --inventory"
            )
    return list(listener.outcomes.values())


def _command_line(asked: Asked) -> str | None:
    arguments = [*(["--check"] if asked.check else []), *asked.arguments]
    return " ".join(arguments) or None


def _environment(folder: Path, private: Path) -> dict[str, str]:
    """Ansible beside this Python; nothing of it is kept in the user's home."""
    own = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([own, os.environ.get("PATH", os.defpath)]),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_HOME": os.environ.get("ANSIBLE_HOME", str(private / "ansible")),
        "ANSIBLE_LOCAL_TEMP": str(private / "ansible" / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
    }


def _last_words(done: Any) -> str:
    lines: list[str] = [line.strip() for line in done.stdout if line.strip()]
    told = [line for line in lines if line.startswith(("ERROR", "[ERROR]", "fatal"))]
    return (told or lines or ["it ended without a word"])[-1]


@contextmanager
def _signals_kept() -> Iterator[None]:
    """ansible-runner takes these signals over, and does not give them back."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Listener:
    """Hears Ansible's events."""

    def __init__(self, task: Task) -> None:
        self.outcomes: dict[str, HostOutcome] = {}
        self._task = task

    def hear(self, event: Mapping[str, Any]) -> bool:
        """Called by ansible-runner for each; True keeps it."""
        data = event.get("event_data") or {}
        kind = event.get("event")
        if kind == "playbook_on_task_start":
            self._task.advance(note=str(data.get("task") or data.get("name") or ""))
        if not (host := data.get("host")) or kind == "runner_on_start":
            return True
        outcome = self.outcomes.setdefault(host, HostOutcome(host))
        result = data.get("res") or {}
        facts = result.get("ansible_facts") or {}
        if kind == "runner_on_ok" and isinstance(facts.get("provisioning"), dict):
            outcome.provisioning = facts["provisioning"]
        elif kind == "runner_on_unreachable":
            outcome.failures.append(f"cannot be reached: {result.get('msg', '')}")
        elif kind == "runner_on_failed" and not data.get("ignore_errors"):
            outcome.failures.append(_failure(data, result))
        return True


def _failure(data: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """The failed task and its own words."""
    words = result.get("msg") or result.get("stderr") or result.get("stdout") or "it failed"
    more = str(result.get("stderr") or "").strip().splitlines()
    tail = f" ({more[-1]})" if more and more[-1] not in str(words) else ""
    said_by_itself = str(data.get("task_action", "")).endswith("fail")
    return f"{words}{tail}" if said_by_itself else f"{data.get('task')}: {words}{tail}"
