"""Makes the recording that tests/tiers uses: ``python tests/vm/record.py FILE``.

From a machine whose NVDIMMs are inside the processor's power-fail domain (eADR), so
that the recording has what the machine of the tests (ADR) has not.
"""

import json
import sys
from pathlib import Path

from vm_guest import copy_sources
from vm_image import image
from vm_machine import running_machine

_DIRECTORIES = (
    "/ /dev/shm /mnt/ext4-dax /mnt/xfs-dax /mnt/xfs-on-sector /mnt/ext4-on-sector"
    " /mnt/ext4-nodax /mnt/ext4-on-raw /mnt/read-only /mnt/dax-inode/plain"
    " /mnt/dax-inode/flagged '/mnt/with blank' /mnt/unmounted"
)


def main() -> None:
    """Boot, lay out, record, write."""
    with running_machine(image(), persistence="cpu") as vm:
        copy_sources(vm)
        vm.run("bash /opt/harness/tests/vm/guest_setup.sh")
        recorded = json.loads(
            vm.run(f"python3 /opt/harness/tests/vm/guest_record.py {_DIRECTORIES}")
        )
        source = vm.run("uname -r; ndctl --version; cat /etc/debian_version").split()
    recorded["source"] = (
        f"QEMU guest with two NVDIMMs, kernel {source[0]}, ndctl {source[1]}, Debian {source[2]};"
        " laid out by tests/vm/guest_setup.sh, recorded by tests/vm/record.py"
    )
    Path(sys.argv[1]).write_text(json.dumps(recorded, indent=0, sort_keys=True), encoding="utf-8")


main()
