"""Slurm with two hosts on this machine: Debian's daemons, unpacked, on loopback.

Each host is a slurmd with a hostname and a machine id of its own, in namespaces that root makes.
"""

import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from patience import PATIENCE_S, eventually
from unpacked_debs import unpacked

HOSTS = ("node1", "node2")
_PACKAGES = (
    *("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins"),
    *("libhwloc15", "liblz4-1", "libnuma1"),
)
_CLIENTS = ("sbatch", "scancel", "scontrol", "sinfo", "squeue")

#: Between two questions to Slurm, each of which starts a program.
POLL_S = 0.5

#: A dead host is noticed after some seconds, and a requeued job starts some seconds later.
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
PluginDir={plugins}
MailProg=/bin/true
MpiDefault=none
SwitchType=switch/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdTimeout=10
MessageTimeout=10
TCPTimeout=10
KillWait=20
NodeName=DEFAULT CPUs=1 RealMemory=100
NodeName=node1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]}
NodeName=node2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} Feature=cxl
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass
class Cluster:
    """``path``: a folder of Slurm's clients, for PATH."""

    folder: Path
    path: Path
    _tree: Path
    _daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, host: str) -> None:
        """Start the slurmd of a host; with another one's jobs, if it was killed."""
        machine = self.folder / f"machine-id-{host}"
        machine.write_text(f"{host.encode().hex():0>32}\n")
        words = [*self._program("slurmd"), "-D", "-N", host, "-d", str(self.folder / "stepd")]
        script = (
            f"hostname {host}; mount --bind {machine} /etc/machine-id; exec {shlex.join(words)}"
        )
        self._start(host, "unshare", "--mount", "--uts", "sh", "-ec", script)

    def kill(self, host: str) -> None:
        """Kill the slurmd of a host as a failure would; its jobs go on."""
        self._daemons[host].kill()
        self._daemons.pop(host).wait(PATIENCE_S)

    def printed(self, *command: str) -> str:
        """What a client prints."""
        return subprocess.run(
            [self.path / command[0], *command[1:]], check=True, capture_output=True, text=True
        ).stdout

    def states(self, what: str = "%T") -> dict[str, str]:
        """By task, of all jobs that Slurm knows."""
        printed = self.printed("squeue", "-h", "-r", "-t", "all", "-o", f"%i {what}")
        return dict(line.split(" ", 1) for line in printed.splitlines())

    def idle_hosts(self) -> int:
        """The number of hosts that wait for jobs."""
        for name, daemon in self._daemons.items():
            assert daemon.poll() is None, (self.folder / f"{name}.out").read_text()
        command = [str(self.path / "sinfo"), "-h", "-N", "-o", "%t"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.split().count("idle")

    def _program(self, name: str) -> list[str]:
        """Its words: by the loader, for the environment of a client becomes that of its job."""
        (loader,) = Path("/").glob("lib64/ld-linux-*.so.*")
        folders = [*self._tree.glob("usr/lib/*-linux-gnu"), _plugins(self._tree)]
        programs = (self._tree / "usr" / place for place in (f"bin/{name}", f"sbin/{name}-wlm"))
        program = next(path for path in programs if path.exists())
        return [str(loader), "--library-path", ":".join(map(str, folders)), str(program)]

    def write(self) -> None:
        """Write the configuration, and the clients."""
        configuration = _CONFIGURATION.format(
            host=socket.gethostname(),
            ports=_free_ports(1 + len(HOSTS)),
            folder=self.folder,
            plugins=_plugins(self._tree),
        )
        (self.folder / "slurm.conf").write_text(configuration)
        self.path.mkdir()
        for name in _CLIENTS:
            _make_program(self.path / name, self._program(name), self.folder)
        _make_program(self.folder / "stepd", self._program("slurmstepd"), self.folder)

    def start_controller(self) -> None:
        (self.folder / "state").mkdir()
        self._start("slurmctld", *self._program("slurmctld"), "-D", "-i")

    def _start(self, name: str, *command: str) -> None:
        environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        with (self.folder / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                command, env=environment, stdout=out, stderr=out, start_new_session=True
            )

    def stop(self) -> None:
        """End all jobs and daemons."""
        if "slurmctld" in self._daemons:
            subprocess.run([self.path / "scancel", "--user", str(os.geteuid())], check=False)
            eventually(lambda: not self.printed("squeue", "-h"), POLL_S)
        for daemon in self._daemons.values():
            daemon.send_signal(signal.SIGTERM)
        for daemon in self._daemons.values():
            daemon.wait(PATIENCE_S)


def _make_program(path: Path, words: list[str], folder: Path) -> None:
    path.write_text(
        f'#!/bin/sh\nexport SLURM_CONF={folder}/slurm.conf\nexec {shlex.join(words)} "$@"\n'
    )
    path.chmod(0o755)


def _plugins(tree: Path) -> Path:
    (folder,) = tree.glob("usr/lib/*-linux-gnu/slurm-wlm")
    return folder


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster with its files in ``folder``; all that it has started ends with it."""
    made = Cluster(folder, folder / "bin", unpacked("slurm", lambda _: _PACKAGES, lambda _: None))
    made.write()
    try:
        made.start_controller()
        for host in HOSTS:
            made.start(host)
        assert eventually(lambda: made.idle_hosts() == len(HOSTS), POLL_S)
        yield made
    finally:
        made.stop()
