"""run-experiment.yml's role on hosts that a stand-in for ssh reaches: the harness and its runs are
real, and the line can be cut. (Over a real sshd with sudo: docs/provisioning.md.)"""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from patience import PATIENCE_S, eventually, kill
from scratch import open_directory

from harness.paths import data_folder
from harness.store.run_store import Store

PLAYBOOKS = data_folder("playbooks")

#: Ansible's: ssh [-o A=B …] HOST COMMAND; the harness's also with -R REMOTE:LOCAL.
_SSH = (Path(__file__).parent / "ssh_stand_in.sh").read_text("utf-8")

#: The real one, once the test lets it.
_HARNESS = """#!/bin/sh
case $* in *--dry-run*|runs*) ;; *)
  while [ -e @ROOT@/held ]; do : >@ROOT@/waits; sleep 0.1; done ;;
esac
exec @HARNESS@ "$@"
"""

_PLAY = """
- hosts: servers
  gather_facts: false
  roles: [{role: experiment}]
"""

_PROFILE = """
schema: 1
name: fleet
description: as small as can be
workload: tpch
axes: {engine: [duckdb]}
fixed: {placement: ssd-both, params: {scale: 0.01, queries: [6], cache: warm}}
repeats: 2
"""


class Fleet:
    """A server `server1`, and a controller with a store."""

    def __init__(self, root: Path, data: Path) -> None:
        self.root, self.data = root, data
        self.remote, self.store = root / "fleet", Store(root / "store")
        self.standin = root / "bin/ssh"
        self.standin.parent.mkdir()
        self.profile = root / "fleet.yml"
        self.profile.write_text(_PROFILE)
        (root / "play.yml").write_text(_PLAY)
        real = Path(sys.executable).with_name("harness")
        text = _HARNESS.replace("@ROOT@", str(root)).replace("@HARNESS@", str(real))
        for path, program in ((self.standin, _SSH), (root / "harness", text)):
            path.write_text(program)
            path.chmod(0o755)
        self.inventory()

    def inventory(self, *clients: str) -> None:
        """``clients``: as lines of the inventory."""
        python = f"ansible_python_interpreter={sys.executable}"
        lines = ["[servers]", f"server1 ansible_ssh_executable={self.standin} {python}"]
        lines += ["[clients]", *(f"{line} ansible_connection=local {python}" for line in clients)]
        (self.root / "hosts").write_text("\n".join(lines) + "\n")

    def start(self, **variables: object) -> subprocess.Popen[str]:
        given = {
            "experiment_profile": self.profile,
            "experiment_results": self.store.root,
            "experiment_harness": self.root / "harness",
            "experiment_folder": self.remote,
            "experiment_poll_s": PATIENCE_S,  # it hears of the end at once
            "experiment_reconnect_s": 3,
            **variables,
        }
        extra = [word for name, value in given.items() for word in ("-e", f"{name}={value}")]
        play = [Path(sys.executable).with_name("ansible-playbook"), "-i", self.root / "hosts"]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"),
            "HARNESS_DATA": str(self.data),
            "HARNESS_CLIENT_PYTHON": sys.executable,
            "PATH": f"{self.standin.parent}:{os.environ['PATH']}",
            "TMPDIR": str(self.root / "tmp"),
        }
        return subprocess.Popen(
            [*map(str, play), *extra, str(self.root / "play.yml")],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def __call__(self, **variables: object) -> tuple[int, str]:
        """Exit status and output."""
        play = self.start(**variables)
        out, _ = play.communicate(timeout=PATIENCE_S)
        return play.returncode, out

    def imported(self) -> list[str]:
        return sorted(run.run_id for run in self.store.runs())


@pytest.fixture(scope="module")
def data():
    """Source data and databases, made once."""
    with open_directory() as folder:
        yield folder


@pytest.fixture
def fleet(data):
    with open_directory() as root:
        (root / "tmp").mkdir()
        (root / "tmp").chmod(0o1777)
        yield Fleet(root, data)
        (root / "held").unlink(missing_ok=True)


def changes(out: str) -> int:
    """Return the counts of server1, in the recap."""
    (line,) = [line for line in out.splitlines() if line.startswith("server1 ") and "ok=" in line]
    return int(line.split("changed=")[1].split()[0])


@pytest.mark.slow
def test_it_is_resumed_outlives_its_connection_and_a_second_time_changes_nothing(fleet):
    marker, waits, cut = (fleet.root / "held", fleet.root / "waits", fleet.standin.parent / "cut")
    marker.touch()
    play = fleet.start()
    assert eventually(waits.exists)
    # The other files are still there.
    assert eventually(lambda: "underway.sh start" not in _commands(fleet))
    assert _commands(fleet)
    assert eventually(lambda: not _killed(fleet))
    out, _ = play.communicate(timeout=PATIENCE_S)
    assert play.returncode != 0
    assert "experiment was cut" in out
    waits.unlink()
    soon = {"experiment_poll_s": 3}  # to notice that the line is cut
    play = fleet.start(**soon)
    assert eventually(waits.exists)
    cut.touch()
    out, _ = play.communicate(timeout=PATIENCE_S)
    assert play.returncode != 0
    assert "2 runs, 2 to do" in out
    assert "continues there; the" in " ".join(out.split())
    assert fleet.imported() == []
    cut.unlink()
    again = fleet.start(experiment_reconnect_s=120, **soon)
    _read_until(again, "is under way on server1")
    cut.touch()
    _read_until(again, "continues there; trying again")
    cut.unlink()
    marker.unlink()
    out, _ = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, out
    assert "to do" not in out  # nothing was started a second time
    first = fleet.imported()
    assert len(first) == 2
    code, out = fleet()
    assert code == 0, out
    assert "2 runs, 0 to do" in out and changes(out) == 0
    assert fleet.imported() == first


def _read_until(play: subprocess.Popen[str], words: str) -> None:
    assert play.stdout is not None
    seen = ""
    while words not in " ".join(seen.split()):
        line = play.stdout.readline()
        assert line, seen
        seen += line


def _killed(fleet: Fleet) -> int:
    """Ends what runs the experiment: how many there were."""
    processes = _running(fleet)
    for process in processes:
        with suppress(ProcessLookupError):
            kill(process)
    return len(processes)


def _commands(fleet: Fleet) -> str:
    return "\n".join(_running(fleet).values())


def _running(fleet: Fleet) -> dict[int, str]:
    """By process: the commands that run the experiment, or start that."""
    told = {int(folder.name): _command_of(folder) for folder in Path("/proc").glob("[0-9]*")}
    words = (" experiment run ", f"{fleet.remote}/results")
    return {process: text for process, text in told.items() if all(w in text for w in words)}


def _command_of(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return "" if b"ansible" in b" ".join(words) else b" ".join(words).decode(errors="replace")


@pytest.mark.slow
def test_the_inventorys_clients_drive_the_server(fleet):
    """By names that ssh takes, let in for as long as it lasts."""
    (fleet.root / "key.pub").write_text("ssh-ed25519 AAAAC3 of the clients\n")
    authorized = fleet.root / "authorized_keys"
    authorized.write_text("ssh-ed25519 AAAA somebody\n")
    fleet.inventory("client1 ansible_host=127.0.0.1", "client2 ansible_port=2222")
    fleet.profile.write_text(
        _PROFILE.replace("tpch", "tpcc").replace("duckdb", "postgres").replace(
            "{scale: 0.01, queries: [6], cache: warm}",
            "{warehouses: 1, users: 4, rate: 40, ramp_up: 0s, duration: 10s}",
        ).replace("repeats: 2", "repeats: 1")
    )  # fmt: skip
    keys = {"host_keys": fleet.root / "key.pub", "authorized_keys": authorized}
    code, out = fleet(**{f"experiment_client_{name}": path for name, path in keys.items()})
    assert code == 0, out
    me = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    (run,) = fleet.store.runs()
    names = [f"{me}@127.0.0.1", f"ssh://{me}@client2:2222"]
    assert run.spec.params["client_hosts"] == names
    asked = (fleet.standin.parent / "hosts").read_text().split()
    assert [asked.count(name) >= 2 for name in names] == [True, True]  # hello, and the run
    assert authorized.read_text() == "ssh-ed25519 AAAA somebody\n"
    during = (fleet.standin.parent / "authorized").read_text()
    options = dict(
        re.findall(r'([a-z-]+)(?:="([^"]*)")?(?:,|\s)', during.partition(" ssh-")[0] + " ")
    )
    # Nothing on the client is reached: neither another command nor a port or socket.
    assert {"restrict", "expiry-time"} <= set(options)
    assert options["from"].endswith("127.0.0.1,::1")
    assert options["command"].endswith(" -m harness.remote_agent forced")
    assert options["permitopen"] == options["permitlisten"] == "127.0.0.1:1"
    assert not list(fleet.remote.glob("clients_key*"))
