"""What processes have open, by the kernel's word."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

#: As Linux writes 127.0.0.1, and the same in IPv6.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def opened(*pids: int) -> set[Path]:
    """Files, sockets and pipes; of a process that ends meanwhile, what was still seen."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):  # closed meanwhile
                    found.add(descriptor.readlink())
    return found


def listening(*pids: int) -> set[tuple[str, int]]:
    """Addresses, as Linux writes them, and ports on which processes of one network listen."""
    own, found = {str(path) for path in opened(*pids)}, set()
    assert own, "none of them is there"
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pids[0]}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in own:
                address, port = words[1].split(":")
                found.add((address, int(port, 16)))
    return found
