"""The harness as it is installed on a machine without network, and run there."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from vm_image import GUEST_VENV
from vm_machine import Vm
from vm_wheels import own_wheel


@dataclass(frozen=True)
class Done:
    """What a finished command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def install_harness(vm: Vm) -> None:
    """The harness's own wheel; what it depends on is in the image."""
    wheel = own_wheel()
    vm.copy([wheel], "/var/tmp/wheels", base=wheel.parent)
    pip = f"{GUEST_VENV}/bin/pip install -q --no-index --no-deps --disable-pip-version-check"
    vm.run(f"{pip} /var/tmp/wheels/{wheel.name} && ln -s {GUEST_VENV}/bin/harness /usr/local/bin")


def harness(vm: Vm, *argv: object) -> Done:
    """``harness …`` in the machine, as root from root's home directory."""
    command = shlex.join(["harness", *map(str, argv)])
    done = vm.execute(command)
    return Done(done.returncode, done.stdout, done.stderr)
