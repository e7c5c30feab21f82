"""Our playbooks played from the host against the test machine, as a user plays them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from vm_cache import REPOSITORY
from vm_machine import Vm

PLAYBOOKS = REPOSITORY / "playbooks"
_INVENTORY = REPOSITORY / "inventory" / "vm.yml"
_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Played:
    """What a playbook has left: exit status, report (docs/provisioning.md), words."""

    code: int
    report: Mapping[str, Any]
    out: str

    @property
    def steps(self) -> list[dict[str, Any]]:
        return list(self.report["steps"])

    @property
    def refusals(self) -> str:
        """All of them, as one text."""
        return json.dumps(self.report["refusals"])


def play(
    vm: Vm,
    playbook: str,
    variables: Mapping[str, Any] | None = None,
    *,
    check: bool = False,
    inventory: Path = _INVENTORY,
) -> Played:
    """``ansible-playbook PLAYBOOK.yml -e VARIABLES [--check]`` from the folder of the playbooks."""
    report = vm.scratch / "provisioning.json"
    report.unlink(missing_ok=True)
    told = {**(variables or {}), "provisioning_report": str(report)}
    program = Path(sys.executable).with_name("ansible-playbook")
    argv = [str(program), "-i", str(inventory), f"{playbook}.yml", "-e", json.dumps(told)]
    here = {
        "HARNESS_VM_PORT": str(vm.ssh_port),
        "HARNESS_VM_KEY": str(vm.image.key),
        "ANSIBLE_SSH_ARGS": shlex.join(vm.ssh_options()),
        "ANSIBLE_HOME": str(vm.scratch / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
    }
    done = subprocess.run(
        [*argv, "--check"] if check else argv, cwd=PLAYBOOKS, env={**os.environ, **here},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S,
    )  # fmt: skip
    written = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    return Played(done.returncode, written, done.stdout + done.stderr)


def inventory_with(vm: Vm, **host_variables: str) -> Path:
    """The test machine's inventory with other variables of the host, as a file beside its disks."""
    text = yaml.safe_load(_INVENTORY.read_text(encoding="utf-8"))
    text["servers"]["hosts"]["vm"] |= host_variables
    made = vm.scratch / "inventory.yml"
    made.write_text(yaml.safe_dump(text), encoding="utf-8")
    return made


def applied(vm: Vm, playbook: str, variables: Mapping[str, Any] | None = None) -> Played:
    """As a careful user: look at the plan, then confirm exactly what it says it destroys."""
    planned = play(vm, playbook, variables, check=True)
    assert planned.code == 0, planned.out
    consent = {"confirm_destroy": True, "destroy": destroyed(planned)}
    done = play(vm, playbook, {**(variables or {}), **consent})
    assert done.code == 0, done.out
    return done


def destroyed(planned: Played) -> list[str]:
    """The objects whose contents the plan's steps would destroy."""
    return list(planned.report["destroy"])
