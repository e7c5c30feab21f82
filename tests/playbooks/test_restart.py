"""A host restarts only when everything before the restart is done: not refused, not failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from simulated import GIB, Space_, carried_out
from simulated_optane import Goal_, OptaneHost
from tierbench.commands import Done
from tierbench.run import Consent, Outcome

from harness.paths import data_folder

PLAYBOOKS = data_folder("playbooks")

CONFIRMED = Consent(True, ("namespace0.0",))


@pytest.fixture
def host(tmp_path: Path) -> OptaneHost:
    made = OptaneHost(tmp_path, goal=Goal_("AppDirect"))
    made.reshape()
    made.spaces = {"namespace0.0": Space_("namespace0.0", "region0", "fsdax", GIB, "theirs")}
    made.write_tree()
    return made


def goal(host: OptaneHost, consent: Consent) -> Outcome:
    return host.provision(consent, mode="memory-mode")


def test_all_done_but_the_restart(host: OptaneHost) -> None:
    for consent in (CONFIRMED, Consent()):  # the second: nothing is left to confirm
        outcome = carried_out(goal(host, consent))
        assert outcome.steps[-1]["do"] == "reboot"
        assert all(step["done"] for step in outcome.steps[:-1])
        assert outcome.reboot_needed
    assert host.spaces == {}


@pytest.mark.parametrize("consent", [Consent(), Consent(True), Consent(True, ("namespace0.1",))])
def test_what_is_not_confirmed_restarts_nothing(host: OptaneHost, consent: Consent) -> None:
    outcome = goal(host, consent)
    assert outcome.refusals
    assert "namespace0.0" in host.spaces
    assert not outcome.reboot_needed


def test_what_is_refused_restarts_nothing(host: OptaneHost) -> None:
    host.mounts = {"/srv": ("pmem0", "ext4", "rw")}
    host.write_tree()
    outcome = goal(host, CONFIRMED)
    assert any("mounted at /srv" in each.why for each in outcome.refusals)
    assert not outcome.reboot_needed


def test_a_mount_that_comes_between_restarts_nothing(host: OptaneHost) -> None:
    host.after_the_plan(lambda: host.mounts.update({"/srv": ("pmem0", "ext4", "rw")}))
    outcome = goal(host, CONFIRMED)
    assert outcome.failures
    assert "namespace0.0" in host.spaces
    assert not outcome.reboot_needed


def test_a_goal_that_ipmctl_does_not_take_restarts_nothing(host: OptaneHost) -> None:
    error = Done(1, "", "Create goal configuration Error")
    host.replies["ipmctl"] = lambda words: error if "create" in words else host._ipmctl(words)
    outcome = goal(host, CONFIRMED)
    assert error.err in outcome.failures[0].why
    assert not outcome.reboot_needed


# The role --------------------------------------------------------------------------

#: Answers in place of the real module.
_MODULE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule(
    argument_spec={name: {"type": "raw"} for name in (
        "desired_state", "confirm_destroy", "destroy", "several_hosts", "verify_only",
        "host_file", "record",
    )}, supports_check_mode=True)
module.exit_json(changed=False, ansible_facts={"provisioning": @FACT@})
"""

_PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    pmem_allow_reboot: true
    destroy: []
  roles: [{role: provisioning}]
"""

_REFUSAL = {"object": "namespace0.0", "why": "it is theirs", "do": "leave it"}


def play(folder: Path, **fact: Any) -> str:
    """What ansible-playbook prints; a restart through a local connection is one that it refuses."""
    told = {
        "mode": "memory-mode", "reboot_needed": True, "refusals": [], "failures": [], "steps": [],
        "missing_tools": [], "missing_packages": [], **fact,
    }  # fmt: skip
    (folder / "library").mkdir()
    (folder / "library/pmem_provision.py").write_text(_MODULE.replace("@FACT@", repr(told)))
    (folder / "play.yml").write_text(_PLAY)
    settings = f"[defaults]\nlibrary = library\nroles_path = {PLAYBOOKS / 'roles'}\n"
    (folder / "ansible.cfg").write_text(settings)
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", "play.yml"],
        cwd=folder,
        env={**os.environ, "ANSIBLE_CONFIG": "ansible.cfg", "ANSIBLE_HOME": "ansible"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode, done.stdout  # refused, failed, or the restart that did not come
    return done.stdout


def test_the_role_restarts_what_waits_for_it(tmp_path: Path) -> None:
    assert "would reboot the control node" in play(tmp_path)


@pytest.mark.parametrize("told", ["refusals", "failures"])
def test_the_role_restarts_nothing_after_a_refusal_or_a_failure(tmp_path: Path, told: str) -> None:
    out = play(tmp_path, **{told: [_REFUSAL]})
    assert "would reboot" not in out
    assert "namespace0.0: it is theirs" in out
