"""``harness host``: the playbooks through ansible-runner, on settings of a host made by hand."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from patience import eventually
from typer.testing import CliRunner

from harness.cli.host import app, consent_options
from harness.provision.playbook import HostOutcome
from harness.supervise import workdirs
from harness.supervise.locks import command_line
from harness.supervise.process import all_processes

PARANOID = "proc/sys/kernel/perf_event_paranoid"
THP = "sys/kernel/mm/transparent_hugepage/enabled"


class Tuned:
    """``harness host … tune`` on a tree of files."""

    def __init__(self, harness, root: Path) -> None:
        self._harness = harness
        self.root = root / "host"
        for name, text in {PARANOID: "2", "proc/sys/kernel/random/boot_id": "one"}.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(f"{text}\n")
        self.record = root / "host-settings.json"

    def __call__(self, action, *more, mode="tune"):
        where = {"root": self.root, "record": self.record}
        settings = [f"--set=tune_host_{name}={value}" for name, value in where.items()]
        return self._harness(
            "host", action, mode, "--set=tune_host_perf_event_paranoid=1", *settings, *more
        )

    @property
    def value(self) -> str:
        return (self.root / PARANOID).read_text().strip()


@pytest.fixture
def tuned(harness):
    return Tuned(harness, harness.root)


def test_plan_apply_verify_restore(tuned):
    planned = tuned("plan")
    assert "1 step, nothing" in planned.out and "2 → 1" in planned.out
    assert "missing: frequency governor" in planned.out and planned.code == 0
    assert tuned.value == "2" and not tuned.record.exists()

    deviates = tuned("verify")
    assert deviates.code == 1 and "perf_event_paranoid: 2 → 1" in deviates.err
    assert tuned.value == "2"

    assert tuned("apply").code == 0
    assert tuned.value == "1"
    assert json.loads(tuned.record.read_text())["settings"][0]["old"] == "2"

    again = tuned("apply", "--json").document
    (host,) = again["hosts"]
    assert (host["host"], host["provisioning"]["steps"]) == ("localhost", [])
    assert again["error"] is None
    assert tuned("verify").code == 0

    assert tuned("restore", "--dry-run").code == 0 and tuned.value == "1"
    assert tuned("restore").code == 0
    assert tuned.value == "2" and not tuned.record.exists()


def test_a_value_that_the_host_does_not_take_is_refused_with_its_name(tuned):
    (tuned.root / THP).parent.mkdir(parents=True)
    (tuned.root / THP).write_text("always [madvise] never\n")
    refused = tuned("apply", "--set=tune_host_transparent_huge_pages=sometimes", "--json")
    assert refused.code == 2
    assert refused.json["error"]["hint"].endswith(" always, madvise, never")
    assert f"/{THP}" in refused.json["error"]["context"]
    assert tuned.value == "2"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["apply", "apdirect"], "'appdirect'"),
        (["restore", "engines"], "are not removed"),
        (["apply", "appdirect", "--destroy", "namespace0.0"], "--confirm-destroy"),
        (["apply", "appdirect", "--set", "confirm_destroy=true"], "--confirm-destroy"),
        (["plan", "cxl", "--set", "cxl_memdev=mem0"], "'cxl_memdevs'"),
        (["restore", "appdirect", "--set", "pmem_regions=[region0]"], "teardown_regions"),
        (["plan", "tune", "--inventory", "/nonexistent.yml"], "/nonexistent.yml"),
        (["plan", "tune", "--limit", "elsewhere"], "run tune-host.yml"),
    ],
)
def test_what_is_known_beforehand(harness, argv, words):
    assert words in harness.refused("host", *argv)


@pytest.mark.parametrize(("done", "code"), [(False, 2), (True, 1)])
def test_a_refusal_names_the_packages_that_were_installed(monkeypatch, done, code):
    steps = [
        {"do": "install-packages", "object": "ndctl", "why": "", "done": True},
        {"do": "create-namespace", "object": "region0", "why": "", "done": done},
    ]
    refusal = {"object": "region0", "why": "not confirmed", "do": "confirm it"}
    fact = {"changed": True, "steps": steps, "refusals": [refusal], "installed_packages": ["ndctl"]}
    outcome = HostOutcome("localhost", fact, ["refused"])
    monkeypatch.setattr("harness.cli.host.run_playbook", lambda *_: [outcome])
    refused = CliRunner().invoke(app, ["apply", "appdirect", "--json"])
    assert refused.exit_code == code
    assert ("(ndctl)" in json.loads(refused.stdout)["error"]["context"]) is not done


def test_kill_nine_leaves_no_variables_of_a_playbook(tmp_path):
    """They may be passwords: the supervisor removes the directory at once."""
    secret = uuid.uuid4().hex
    program = Path(sys.executable).with_name("harness")
    command = [str(program), "host", "plan", "tune", f"--set=ansible_become_password={secret}"]
    env = {**os.environ, "HARNESS_STATE": str(tmp_path)}
    harness = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def left():
        files = workdirs.base().glob("tb-*/env/extravars")
        return [path for path in files if secret in path.read_text()]

    try:
        assert eventually(left)
    finally:
        harness.kill()
        harness.communicate()
    assert eventually(lambda: not left())


def test_kill_nine_ends_ansible_before_its_directory_goes(tmp_path):
    """Else it may make the directory again, as this inventory does, which sees no SIGTERM."""
    program = Path(sys.executable).with_name("harness")
    slow = tmp_path / "hosts"  # an inventory that is a program
    slow.write_text("#!/bin/sh\ntrap '' TERM\nwhile mkdir -p $ANSIBLE_LOCAL_TEMP; do :; done\n")
    slow.chmod(0o755)
    command = [str(program), "host", "plan", "tune", "--inventory", str(slow)]
    env = {**os.environ, "HARNESS_STATE": str(tmp_path)}
    harness = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def of_the_inventory():
        lines = [command_line(stat.id.pid) for stat in all_processes()]
        return [line for line in lines if line.startswith(f"/bin/sh {slow}")]

    try:
        assert eventually(of_the_inventory)
    finally:
        harness.kill()
        harness.communicate()
    assert eventually(lambda: not of_the_inventory())
    assert eventually(lambda: not list(workdirs.base().glob("tb-*")))


def test_nothing_that_ansible_has_left_outlives_the_command(harness, tmp_path):
    """As ssh's masters would, whose sockets go with Ansible's directory."""
    inventory, sleeper = tmp_path / "hosts", tmp_path / "sleeper"
    sleeper.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nsleep 1000\n")
    started = f"until [ -e {tmp_path}/started ]; do :; done"
    inventory.write_text(f"#!/bin/sh\nsetsid {sleeper} >&- 2>&- &\n{started}\necho {{}}\n")
    for program in (inventory, sleeper):
        program.chmod(0o755)
    assert harness("host", "plan", "tune", "--inventory", inventory).code == 2  # it has no host
    lines = [command_line(stat.id.pid) for stat in all_processes()]
    assert not [line for line in lines if line.startswith(f"/bin/sh {sleeper}")]


def test_of_several_hosts_consent_names_the_host():
    names = ["namespace0.0", "namespace1.0"]
    alone = "--confirm-destroy --destroy namespace0.0 --destroy namespace1.0"
    assert consent_options(names, None) == alone
    of_two = "--confirm-destroy --destroy db1:namespace0.0 --destroy db1:namespace1.0"
    assert consent_options(names, "db1") == of_two
