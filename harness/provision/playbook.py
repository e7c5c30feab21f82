"""Modes of a host and their playbooks, run by ansible-runner; the result of each host.

Every provisioning playbook ends with the fact ``provisioning``::

    {mode, steps: [{do, object, why}], refusals: [{object, why, do}], changed, state, …}

It is read from the events of the run; Ansible's output is not parsed.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from harness import paths, tiers
from harness.errors import UsageError, nearest
from harness.progress import Progress, Task
from harness.store.spec import JsonObject
from harness.supervise import workdirs
from harness.supervise.process import MARK
from harness.supervise.supervisor import Supervisor

Action = Literal["plan", "apply", "verify", "restore"]


@dataclass(frozen=True)
class Mode:
    """``restored_by``, ``restored_with``: playbook and variables of restore; None: no restore."""

    name: str
    help: str
    playbook: str
    restored_by: str | None = "teardown.yml"
    restored_with: JsonObject = field(default_factory=dict)


_MODES = (
    Mode("appdirect", "persistent memory as file systems with DAX (fsdax)", "setup-appdirect.yml"),
    Mode("sector", "persistent memory as a disk with atomic sectors", "setup-sector.yml"),
    Mode("devdax", "persistent memory as character devices", "setup-devdax.yml"),
    Mode("memory-mode", "Optane as main memory with DRAM as cache", "setup-memory-mode.yml"),
    Mode("system-ram", "persistent or CXL memory as a NUMA node", "setup-system-ram.yml"),
    Mode("cxl", "CXL regions as a NUMA node or DAX devices", "setup-cxl.yml"),
    Mode("emulated", "DRAM that emulates persistent memory", "setup-emulated.yml"),
    Mode(
        "ramdisk",
        "a disk in memory, for models of disks",
        "setup-ramdisk.yml",
        "setup-ramdisk.yml",
        {"ramdisk_restore": True},
    ),
    Mode(
        "tune",
        "fixed clocks, huge pages and NUMA balancing",
        "tune-host.yml",
        "tune-host.yml",
        {"tune_host_restore": True},
    ),
    Mode("engines", "pinned engines and tools", "install-engines.yml", None),
)
#: By name, in the order they are listed.
MODES: Mapping[str, Mode] = {mode.name: mode for mode in _MODES}


def find_mode(name: str) -> Mode:
    """Return a mode; UsageError with the nearest name where there is none."""
    if name in MODES:
        return MODES[name]
    raise UsageError(
        f"mode {name!r}",
        f"no such mode{nearest(name, list(MODES))}",
        f"modes: {', '.join(MODES)}",
    )


def playbook_for(mode: Mode, action: Action) -> tuple[str, dict[str, Any]]:
    """Return the playbook and variables of an action; UsageError where there is none."""
    if action != "restore":
        verify = {"provisioning_verify_only": True} if action == "verify" else {}
        return mode.playbook, verify
    if mode.restored_by is None:
        raise UsageError(
            f"restore {mode.name}",
            "installed engines are not removed",
            "remove the engines prefix (see harness doctor)",
        )
    return mode.restored_by, dict(mode.restored_with)


#: The command of ansible-runner ends with the harness, in order, also after kill -9 of that; what
#: has not ended then, the supervisor kills before it removes the directory that it works in.
_DYING_WITH_US = ("setpriv", "--pdeathsig", "TERM", "--")
#: Variables that Ansible and ssh need of the user's, and beginnings of names.
_KEPT = frozenset({"HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK"})
_KEPT_PREFIXES = ("ANSIBLE_", "HARNESS_")
_INSTALL = "pip install 'tierbench[hosts]'"


@dataclass
class HostOutcome:
    """The fact ``provisioning`` of one host, and its failures."""

    host: str
    provisioning: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def refusals(self) -> list[dict[str, str]]:
        return list(self.provisioning.get("refusals", []))

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Steps that are planned or done."""
        return list(self.provisioning.get("steps", []))

    @property
    def changed(self) -> bool:
        """Return whether the host was changed; with check, whether it would be."""
        return bool(self.provisioning.get("changed"))

    @property
    def installed_packages(self) -> list[str]:
        """Packages of missing tools that were installed before anything else."""
        return list(self.provisioning.get("installed_packages", []))

    @property
    def changed_further(self) -> bool:
        """Return whether more was changed than packages were installed."""
        if not self.installed_packages:
            return self.changed
        return any(step["done"] and step["do"] != "install-packages" for step in self.steps)


def playbooks_folder() -> Path:
    """Return the folder of the playbooks; UsageError where this installation has none."""
    folder = paths.data_folder("playbooks")
    if (folder / "ansible.cfg").is_file():
        return folder
    raise UsageError("provision a host", "no playbooks in this installation", "reinstall tierbench")


#: In a playbook, or in tasks of a role: the name of a role that it includes.
_ROLE = re.compile(r"(?:\brole:|_role:\s+name:)\s*(\w+)")
#: In defaults, or a playbook: a variable, with its default.
_VARIABLE = re.compile(r"^(\w+):|\b([a-z_]+) \| default\(", re.MULTILINE)


def variables_of(playbook: str) -> list[str]:
    """Return the variables of a playbook and of the roles that it includes."""
    folder = playbooks_folder()
    text = (folder / playbook).read_text()
    names = {"provisioning_report", *_names(_VARIABLE, text.split("hosts:", 1)[1])}
    roles, waiting = set[str](), _names(_ROLE, text)
    while waiting:
        role = waiting.pop()
        if role not in roles:
            roles.add(role)
            tasks = (folder / "roles" / role / "tasks").glob("*.yml")
            waiting |= {name for file in tasks for name in _names(_ROLE, file.read_text())}
            names |= _names(_VARIABLE, (folder / f"roles/{role}/defaults/main.yml").read_text())
    return sorted(name for name in names if not name.startswith("verdict_"))  # roles set these


def _names(pattern: re.Pattern[str], text: str) -> set[str]:
    return {name for groups in pattern.finditer(text) for name in groups.groups() if name}


def check_variables(playbook: str, names: Iterable[str]) -> None:
    """UsageError for a variable that the playbook does not have; Ansible's own are accepted."""
    variables = variables_of(playbook)
    for name in names:
        if name not in variables and not name.startswith("ansible_"):
            shared = name.startswith("provisioning_")
            listed = [each for each in variables if each.startswith("provisioning_") is shared]
            raise UsageError(
                f"--set {name}",
                f"{playbook} has no such variable{nearest(name, variables)}",
                f"variables: {', '.join(listed)}",
            )


@dataclass(frozen=True)
class PlaybookRun:
    """One run of a playbook. ``inventory`` None: ansible.cfg's, or $ANSIBLE_INVENTORY."""

    playbook: str
    variables: JsonObject
    check: bool = False
    inventory: Path | None = None
    limit: str | None = None
    arguments: Sequence[str] = ()


def run_playbook(request: PlaybookRun, progress: Progress) -> list[HostOutcome]:
    """Run a playbook; return one outcome per host.

    UsageError where Ansible is missing or no host matches. Ctrl-C ends Ansible, then raises
    KeyboardInterrupt.
    """
    if find_spec("ansible_runner") is None or find_spec("ansible") is None:
        raise UsageError(
            f"run {request.playbook}", "ansible-runner and ansible-core are not installed", _INSTALL
        )
    import ansible_runner

    folder = playbooks_folder()
    with (
        Supervisor() as supervisor,
        progress.task(request.playbook) as task,
        _signals_restored(),
    ):
        # Passwords among the variables: not on a disk, and removed right after kill -9.
        private = supervisor.journal.register_directory(workdirs.fresh(workdirs.base()))
        listener = _EventReader(task)
        runner = ansible_runner.interface.init_runner(
            private_data_dir=str(private),
            project_dir=str(folder),
            playbook=request.playbook,
            inventory=str(request.inventory.absolute()) if request.inventory else None,
            limit=request.limit,
            extravars=dict(request.variables),
            cmdline=" ".join([*(["--check"] if request.check else []), *request.arguments]) or None,
            envvars=_environment(folder, private),
            event_handler=listener.handle,
            quiet=True,
        )
        runner.config.command = [*_DYING_WITH_US, *runner.config.command]
        runner.config.env = _reduced(runner.config.env) | {MARK: supervisor.journal.owner}
        runner.run()
        supervisor.journal.kill_processes()  # ssh's masters, which would stay (ControlPersist)
        if runner.status == "canceled":
            raise KeyboardInterrupt
        if not listener.outcomes:
            raise UsageError(
                f"run {request.playbook}", _last_line(runner), "name an inventory with --inventory"
            )
    return list(listener.outcomes.values())


def _environment(folder: Path, private: Path) -> dict[str, str]:
    """Ansible next to this Python; nothing is written to the user's home."""
    programs = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([programs, os.environ.get("PATH", os.defpath)]),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_MODULE_UTILS": os.pathsep.join(
            [str(folder / "module_utils"), str(Path(tiers.__file__).parent)]
        ),
        "ANSIBLE_HOME": os.environ.get("ANSIBLE_HOME", str(private / "ansible")),
        "ANSIBLE_LOCAL_TEMP": str(private / "ansible" / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
    }


def _reduced(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the variables of the harness that Ansible and ssh do not need."""
    variables = {
        name: value
        for name, value in environment.items()
        if os.environ.get(name) != value or name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }
    return variables | {"LC_ALL": "C.UTF-8"}


def _last_line(done: Any) -> str:
    lines: list[str] = [line.strip() for line in done.stdout if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "[ERROR]", "fatal"))]
    return (errors or lines or ["it printed nothing"])[-1]


@contextmanager
def _signals_restored() -> Iterator[None]:
    """ansible-runner replaces these handlers and does not restore them."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _EventReader:
    def __init__(self, task: Task) -> None:
        self.outcomes: dict[str, HostOutcome] = {}
        self._task = task

    def handle(self, event: Mapping[str, Any]) -> bool:
        """Read one event of ansible-runner; True lets it store the event."""
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
    message = result.get("msg") or result.get("stderr") or result.get("stdout") or "failed"
    more = str(result.get("stderr") or "").strip().splitlines()
    tail = f" ({more[-1]})" if more and more[-1] not in str(message) else ""
    is_fail_task = str(data.get("task_action", "")).endswith("fail")
    return f"{message}{tail}" if is_fail_task else f"{data.get('task')}: {message}{tail}"
