"""Tasks of roles on this host: what root runs, what a kill leaves behind, whom a key lets in."""

import configparser
import hashlib
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from patience import eventually

from harness.paths import data_folder
from harness.tiers.linux.ext4 import EAGER

PLAYBOOKS = data_folder("playbooks")
ROOT = PLAYBOOKS.parent

_PLAY = """
- hosts: server1
  gather_facts: false
  tasks: [{ansible.builtin.include_role: {name: @ROLE@, tasks_from: @TASKS@}}]
"""


def play(folder: Path, role: str, tasks: str, *arguments: str, **variables):
    """The tasks of a role, for a server and a client that both are this host."""
    (folder / "play.yml").write_text(_PLAY.replace("@ROLE@", role).replace("@TASKS@", tasks))
    here = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
    (folder / "hosts").write_text(f"server1 {here}\nclient1 {here}\n")
    given = ["-i", "hosts", "-e", json.dumps(variables, default=str), *arguments]
    return ansible_playbook(folder, *given, ANSIBLE_CONFIG=str(PLAYBOOKS / "ansible.cfg"))


def ansible_playbook(folder: Path, *arguments: str, playbook="play.yml", **environment: str):
    program = Path(sys.executable).with_name("ansible-playbook")
    return subprocess.run(
        [program, *arguments, playbook], cwd=folder, env={**os.environ, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


# From the root of the tree ----------------------------------------------------------


def ansible_settings(folder: Path) -> dict[str, Any]:
    """All settings of a folder's ansible.cfg; paths are absolute."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(folder / "ansible.cfg")
    settings: dict[str, Any] = {
        f"{section}.{key}": value for section in parser for key, value in parser.items(section)
    }
    for key in ("inventory", "roles_path", "library", "module_utils"):
        paths = [(folder / each).resolve() for each in settings[f"defaults.{key}"].split(":")]
        settings[f"defaults.{key}"] = paths
    return settings


def test_the_root_of_the_tree_has_the_settings_of_the_playbooks_folder():
    settings = ansible_settings(ROOT)
    assert settings == ansible_settings(PLAYBOOKS)
    # Ansible runs what it finds there: nothing is beyond the tree, where others may write.
    code = [path for key in ("library", "module_utils") for path in settings[f"defaults.{key}"]]
    assert all(path.is_relative_to(ROOT) for path in code)


def test_every_playbook_is_found_with_its_roles_from_the_root_of_the_tree():
    playbooks = [f"playbooks/{path.name}" for path in PLAYBOOKS.glob("*.yml")]
    listed = ansible_playbook(ROOT, "--list-tasks", *playbooks, playbook="setup-appdirect.yml")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.count("playbook: ") == len(playbooks) + 1


def test_the_first_set_up_is_planned_by_its_command_in_the_root_of_the_tree(tmp_path):
    """The module itself runs: a host with ndctl has a plan, one without is refused for that."""
    report = tmp_path / "report.json"
    values = ["-e", f"provisioning_report={report}", "-e", "ansible_become=false"]
    done = ansible_playbook(ROOT, "--check", *values, playbook="setup-appdirect.yml")
    provisioning = json.loads(report.read_text())
    assert (provisioning["mode"], provisioning["changed"]) == ("appdirect", False), done.stdout
    assert done.returncode == (2 if provisioning["refusals"] else 0)


# VTune -----------------------------------------------------------------------------

_INSTALLER = """#!/bin/sh
stat -c '%U %a %n' "$(dirname "$0")" >@ROOT@/ran
mkdir -p "$(dirname @PROGRAM@)" && touch @PROGRAM@
"""


def vtune(folder: Path, sha256: str | None = None) -> tuple[Path, dict[str, Any]]:
    """The program that the installer makes, and what the role is given."""
    program = folder / "vtune/bin64/vtune"
    installer = folder / "installer.sh"
    text = _INSTALLER.replace("@ROOT@", str(folder)).replace("@PROGRAM@", str(program))
    installer.write_text(text)
    digest = sha256 or hashlib.sha256(text.encode()).hexdigest()
    given = {"installer": installer, "sha256": digest, "program": program}
    return program, {f"engines_vtune_{name}": value for name, value in given.items()}


def test_vtunes_installer_runs_from_a_directory_that_nobody_else_can_write(tmp_path):
    program, given = vtune(tmp_path)
    done = play(tmp_path, "engines", "vtune", **given)
    assert done.returncode == 0, done.stdout
    assert program.exists()
    owner, mode, folder = (tmp_path / "ran").read_text().split()
    assert (owner, mode) == (pwd.getpwuid(os.geteuid()).pw_name, "700")
    assert not Path(folder).exists()
    again = play(tmp_path, "engines", "vtune", **given)
    assert "changed=0" in again.stdout


def test_another_installer_on_the_host_is_not_run(tmp_path):
    program, given = vtune(tmp_path, sha256="0" * 64)
    assert play(tmp_path, "engines", "vtune", **given).returncode != 0
    assert not program.exists()


# The harness -----------------------------------------------------------------------


def test_a_disk_in_memory_is_planned_and_a_mount_of_others_is_refused(tmp_path):
    report = tmp_path / "report.json"
    where = {"ramdisk_path": tmp_path / "disk", "provisioning_report": report}
    planned = play(tmp_path, "ramdisk", "main", "--check", **where)
    assert planned.returncode == 0, planned.stdout
    assert [step["do"] for step in json.loads(report.read_text())["steps"]] == ["make"]
    for restore in (False, True):
        given = {**where, "ramdisk_path": "/proc", "ramdisk_restore": restore}
        assert play(tmp_path, "ramdisk", "main", **given).returncode != 0
        assert [refusal["object"] for refusal in json.loads(report.read_text())["refusals"]] == [
            "/proc"
        ]
        report.unlink()
    assert not (tmp_path / "disk").exists()


@pytest.fixture
def ramdisk(tmp_path):
    """A disk in memory, as the role makes it, and its mount point."""
    made = subprocess.run(
        ["zramctl", "--find", "--size", "16M"], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no disk in memory: {made.stderr}")
    disk, folder = made.stdout.strip(), tmp_path / "disk"
    folder.mkdir()
    try:
        subprocess.run(["mkfs.ext4", "-q", "-E", EAGER, disk], check=True)
        subprocess.run(["mount", disk, folder], check=True)
        yield disk, folder
    finally:
        subprocess.run(["umount", folder], capture_output=True, check=False)
        subprocess.run(["zramctl", "--reset", disk], capture_output=True, check=False)


def test_a_disk_in_memory_that_is_held_stays_and_its_holder_is_named(ramdisk, tmp_path):
    disk, folder = ramdisk
    where = {"ramdisk_path": folder, "ramdisk_restore": True}
    # In a mount namespace of its own, which the unmounting does not reach.
    command = ["unshare", "--mount", "--propagation", "private", "sleep", "1000"]
    with subprocess.Popen(command) as holder:
        assert eventually(lambda: Path(f"/proc/{holder.pid}/comm").read_text() == "sleep\n")
        refused = play(tmp_path, "ramdisk", "main", **where, ramdisk_patience_s=1)
        holder.kill()
    assert refused.returncode != 0
    assert f"sleep (process {holder.pid})" in refused.stdout
    assert folder.is_mount()
    freed = play(tmp_path, "ramdisk", "main", **where)
    assert freed.returncode == 0, freed.stdout
    assert not folder.exists()
    size = Path("/sys/class/block", Path(disk).name, "disksize")  # zramctl may remove the device
    assert not size.exists() or size.read_text() == "0\n"


# The fleet's key -------------------------------------------------------------------


@pytest.mark.slow
def test_clients_take_the_key_from_the_server_for_one_command_and_not_for_ever(tmp_path):
    """In place of the server's earlier key. A whole experiment: test_experiment_role.py."""
    authorized = tmp_path / "authorized_keys"
    authorized.write_text("ssh-ed25519 AAAA somebody\nssh-ed25519 AAAAB tierbench server1\n")
    (tmp_path / "host_key.pub").write_text("ssh-ed25519 AAAAC3 of the client\n")
    given = {
        "experiment_clients": ["client1"],
        "experiment_key": tmp_path / "key",
        "experiment_client_authorized_keys": authorized,
        "experiment_client_host_keys": tmp_path / "host_key.pub",
        "experiment_server_addresses": ["192.0.2.11"],
        "experiment_key_lifetime_s": 3600,
    }
    done = play(tmp_path, "experiment", "clients", **given)
    assert done.returncode == 0, done.stdout
    mine, line = authorized.read_text().splitlines()
    assert mine == "ssh-ed25519 AAAA somebody"
    options = line.split(" ssh-ed25519 ")[0]
    assert options.startswith('from="192.0.2.11",expiry-time="20')
    nowhere = 'permitopen="127.0.0.1:1",permitlisten="127.0.0.1:1"'
    assert f',restrict,port-forwarding,{nowhere},command="/opt/tierbench/' in options
    assert options.endswith(' -m harness.remote_agent forced"')
    known_hosts = (tmp_path / "key.known_hosts").read_text()
    assert known_hosts == "client1 ssh-ed25519 AAAAC3 of the client\n"


# Restarts: only of what waits for one -----------------------------------------------

#: Answers in place of the real module.
_MODULE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule(
    argument_spec={name: {"type": "raw"} for name in (
        "desired_state", "confirm_destroy", "destroy", "several_hosts", "verify_only",
        "host_file", "record", "install_tools", "installed_packages",
    )}, supports_check_mode=True)
module.exit_json(changed=False, ansible_facts={"provisioning": @FACT@})
"""

_RESTARTING = """
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


def restarting(folder: Path, **fact):
    """Return the output of ansible-playbook, which refuses a restart through a local connection."""
    told = {
        "mode": "memory-mode", "reboot_needed": True, "refusals": [], "failures": [], "steps": [],
        "missing_tools": [], "missing_packages": [], **fact,
    }  # fmt: skip
    (folder / "library").mkdir()
    (folder / "library/pmem_provision.py").write_text(_MODULE.replace("@FACT@", repr(told)))
    (folder / "play.yml").write_text(_RESTARTING)
    settings = f"[defaults]\nlibrary = library\nroles_path = {PLAYBOOKS / 'roles'}\n"
    (folder / "ansible.cfg").write_text(settings)
    environment = {"ANSIBLE_CONFIG": "ansible.cfg", "ANSIBLE_HOME": "ansible"}
    done = ansible_playbook(folder, "-i", "localhost,", **environment)
    assert done.returncode, done.stdout  # refused, failed, or the restart that did not come
    return done.stdout


def test_the_role_restarts_what_waits_for_it(tmp_path):
    assert "would reboot" in restarting(tmp_path)


def test_the_role_installs_nothing_after_a_refusal(tmp_path):
    missing = {"missing_tools": ["ndctl"], "missing_packages": ["tierbench-no-such-package"]}
    assert "namespace0.0: it is theirs" in restarting(tmp_path, refusals=[_REFUSAL], **missing)


@pytest.mark.parametrize("told", ["refusals", "failures"])
def test_the_role_restarts_nothing_after_a_refusal_or_a_failure(tmp_path, told):
    out = restarting(tmp_path, **{told: [_REFUSAL]})
    assert "would reboot" not in out
    assert "namespace0.0: it is theirs" in out
