"""Files that processes have open, as the kernel lists them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: As Linux writes 127.0.0.1, and the same in IPv6.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def opened(*pids: int) -> set[Path]:
    """Files, sockets and pipes; of a process that ends meanwhile, what was still seen."""
    links = set()
    for pid in pids:
        with suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):  # closed meanwhile
                    links.add(descriptor.readlink())
    return links


@contextmanager
def seen_below(*folders: Path) -> Iterator[set[Path]]:
    """Files that are there at some time meanwhile; known at the end."""
    seen: set[Path] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            for folder in folders:
                with suppress(FileNotFoundError):  # a folder that goes while it is looked through
                    seen.update(path for path in folder.rglob("*") if path.is_file())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


def listening(*pids: int) -> set[tuple[str, int]]:
    """Addresses, as Linux writes them, and ports on which processes of one network listen."""
    sockets, addresses = {str(path) for path in opened(*pids)}, set()
    assert sockets, "none of them is there"
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pids[0]}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                address, port = words[1].split(":")
                addresses.add((address, int(port, 16)))
    return addresses
