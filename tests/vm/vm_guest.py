"""The test machine's guest: our sources and probes, the installed harness, our playbooks."""

import contextlib
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from native_build import build
from vm_cache import REPOSITORY
from vm_image import DEBIAN_12, GUEST_VENV, Recipe, image
from vm_machine import Vm, running_machine
from vm_wheels import own_wheel

# Our sources, and the probes run there ----------------------------------------------

_CHUNK = 1 << 20
_MEMORY_TIERS = """schema: 1
tiers:
  ssd: {kind: block, path: /var/lib/bench}
  near: {kind: numa, node: 0}
  far: {kind: numa, node: 2}
  slow: {kind: numa, node: 3}
"""
#: What of the harness runs inside the machine: standard library only.
_SOURCES = (
    *("__init__.py", "errors.py", "jsonfile.py", "paths.py", "sequences.py", "units.py"),
    *("experiment/__init__.py", "experiment/placement.py", "supervise", "tiers", "host"),
)


@contextlib.contextmanager
def fresh_machine(
    memory_mib: Sequence[int] = Vm.memory_mib, recipe: Recipe = DEBIAN_12
) -> Iterator[Vm]:
    """A machine with blank disks and our sources."""
    with running_machine(image(recipe), memory_mib=memory_mib) as machine:
        copy_sources(machine)
        yield machine


def copy_sources(machine: Vm) -> None:
    """Bring harness and guest scripts to /opt/harness, and let Python keep what it compiles.

    What it has compiled here is brought too.
    """
    sources = [REPOSITORY / "harness" / name for name in _SOURCES]
    scripts = Path(__file__).parent.glob("guest_*")
    machine.copy([*sources, *scripts], "/opt/harness", compiled=True)
    launch = build("launch") / "launch"
    machine.copy([launch], "/opt/harness/harness/_native", launch.parent)
    machine.run(
        "ln -s /opt/harness/tests/vm/guest_compiled.py /usr/lib/python3/dist-packages/"
        " && echo import guest_compiled >/usr/lib/python3/dist-packages/guest_compiled.pth"
    )


def probe(machine: Vm, **asked) -> dict[str, Any]:
    """Run the probe in the machine (see guest_probe.py)."""
    text = machine.run(f"python3 /opt/harness/tests/vm/guest_probe.py '{json.dumps(asked)}'")
    answer: dict[str, Any] = json.loads(text)
    return answer


def state(machine: Vm) -> dict[str, Any]:
    """Return the state that playbooks change, from the machine's own tools (guest_state.py)."""
    document: dict[str, Any] = json.loads(
        machine.run("python3 /opt/harness/tests/vm/guest_state.py")
    )
    return document


def modes(document: Mapping[str, Any]) -> dict[str, str]:
    """Each namespace's mode, of a state."""
    return {namespace["dev"]: namespace["mode"] for namespace in document["namespaces"]}


def checksum(machine: Vm, path: str) -> str:
    """Return the checksum of a file in the machine."""
    return machine.run(f"sha256sum {path}").split()[0]


def media(machine: Vm) -> list[str]:
    """A checksum of all that is on each NVDIMM, its labels included.

    Read on the machine's host, whose processor is not emulated. What is zero is skipped, its
    place is not: where the holes of a file begin and end is its file system's affair.
    """
    machine.run("sync")
    return [_checksum_of_contents(machine.nvdimm(number)) for number in (0, 1)]


def _checksum_of_contents(sparse: Path) -> str:
    digest = hashlib.sha256()
    with sparse.open("rb") as file:
        end = 0
        with contextlib.suppress(OSError):  # ENXIO: nothing behind it but a hole
            while True:
                begin = os.lseek(file.fileno(), end, os.SEEK_DATA) // _CHUNK * _CHUNK
                end = begin + _CHUNK
                chunk = os.pread(file.fileno(), _CHUNK, begin)
                if chunk.count(0) < len(chunk):
                    digest.update(f"{begin}\0".encode() + chunk)
    return digest.hexdigest()


# The harness as it is installed on a machine without network, and run there ---------


@dataclass(frozen=True)
class Done:
    """Result of a finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


_COMMAND = f"""#!{GUEST_VENV}/bin/python
import sys
from harness.cli import main
sys.exit(main())
"""


def install_harness(vm: Vm) -> None:
    """The harness's own wheel; what it depends on is in the image.

    Unpacked and compiled here, where the processor is not emulated.
    """
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps",
           "--disable-pip-version-check")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*pip, "--target", folder, own_wheel()], check=True)
        packages = f"{GUEST_VENV}/lib/python{vm.image.python}/site-packages"
        vm.copy(list(Path(folder).iterdir()), packages, Path(folder), compiled=True)
    vm.run("cat > /usr/local/bin/harness && chmod +x /usr/local/bin/harness", given=_COMMAND)


def install_with_memory_tiers(machine: Vm, more_tiers: str = "") -> None:
    """Install the harness with /root/host.yml: memory near and far, and slow memory on node 3."""
    install_harness(machine)
    host = f"{_MEMORY_TIERS}{more_tiers}"
    machine.run("mkdir -p /var/lib/bench; cat > /root/host.yml", given=host)


def harness(vm: Vm, *argv: object) -> Done:
    """``harness …`` in the machine, as root from root's home directory."""
    command = shlex.join(["harness", *map(str, argv)])
    done = vm.execute(command)
    return Done(done.returncode, done.stdout, done.stderr)


# Our playbooks, as a user plays them ------------------------------------------------

_INVENTORY = REPOSITORY / "inventory" / "vm.yml"
_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Played:
    """Result of a playbook: exit status, report (docs/provisioning.md), output."""

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


def play(vm: Vm, playbook: str, variables=None, *, check=False, inventory=_INVENTORY) -> Played:
    """``ansible-playbook PLAYBOOK.yml -e VARIABLES [--check]`` from the root of the tree."""
    report = vm.scratch / "provisioning.json"
    report.unlink(missing_ok=True)
    told = {**(variables or {}), "provisioning_report": str(report)}
    program = Path(sys.executable).with_name("ansible-playbook")
    at_root = (REPOSITORY / f"{playbook}.yml").exists()
    path = f"{playbook}.yml" if at_root else f"playbooks/{playbook}.yml"
    argv = [str(program), "-i", str(inventory), path, "-e", json.dumps(told)]
    here = {
        "HARNESS_VM_PORT": str(vm.ssh_port),
        "HARNESS_VM_KEY": str(vm.image.key),
        "ANSIBLE_SSH_ARGS": shlex.join(vm.ssh_options()),
        "ANSIBLE_HOME": str(vm.scratch / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
    }
    done = subprocess.run(
        [*argv, "--check"] if check else argv, cwd=REPOSITORY, env={**os.environ, **here},
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
    """Act as a careful user: read the plan, then confirm exactly what it destroys."""
    planned = play(vm, playbook, variables, check=True)
    assert planned.code == 0, planned.out
    consent = {"confirm_destroy": True, "destroy": destroyed(planned)}
    done = play(vm, playbook, {**(variables or {}), **consent})
    assert done.code == 0, done.out
    return done


def destroyed(planned: Played) -> list[str]:
    """The objects whose contents the plan's steps would destroy."""
    return list(planned.report["destroy"])
