"""The harness as it is installed on a machine without network, and run there."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vm_image import GUEST_VENV
from vm_machine import Vm
from vm_wheels import GUEST_PYTHON, own_wheel


@dataclass(frozen=True)
class Done:
    """What a finished command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
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
        packages = f"{GUEST_VENV}/lib/python{GUEST_PYTHON}/site-packages"
        vm.copy(list(Path(folder).iterdir()), packages, Path(folder), compiled=True)
    vm.run("cat > /usr/local/bin/harness && chmod +x /usr/local/bin/harness", given=_COMMAND)


def harness(vm: Vm, *argv: object) -> Done:
    """``harness …`` in the machine, as root from root's home directory."""
    command = shlex.join(["harness", *map(str, argv)])
    done = vm.execute(command)
    return Done(done.returncode, done.stdout, done.stderr)
