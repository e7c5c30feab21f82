"""The supervisor's interface to those that start processes, and a conversation with one."""

from __future__ import annotations

import os
import queue
import select
import shutil
import struct
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RunFailed
from harness.supervise import channel, silence
from harness.supervise.lifeline import Lifeline
from harness.supervise.process import ProcessId
from harness.tiers.linux.model import Policy


@dataclass(frozen=True)
class MemoryPolicy:
    """Nodes where a process's memory may come from (set_mempolicy(2)).

    ``weights``: of weighted interleaving, one for each node; empty: the kernel's. ``library``: one
    to preload, readable to the process, which applies the policy to large mappings.
    """

    mode: Policy
    nodes: tuple[int, ...]
    weights: tuple[int, ...] = ()
    library: Path | None = None

    @property
    def of_process(self) -> Policy:
        """The policy that Linux applies by itself; of what the library leaves out, too."""
        return "interleave" if self.mode == "weighted" and self.library else self.mode

    @property
    def environment(self) -> dict[str, str]:
        """What the library reads: ``weighted 0:3 2:1``, ``tiered 0:1 2:1``."""
        if self.library is None:
            return {}
        weights = self.weights or (1,) * len(self.nodes)
        nodes = [f"{node}:{weight}" for node, weight in zip(self.nodes, weights, strict=True)]
        return {
            "LD_PRELOAD": str(self.library),
            "TIERBENCH_MEMORY": f"{self.mode} {' '.join(nodes)}",
        }


#: PT_INTERP: the program header that names the dynamic linker.
_INTERPRETER = 3


def refuse_static(program: str, policy: MemoryPolicy) -> None:
    """RunFailed where no library can be preloaded into a program: it is linked statically."""
    path = shutil.which(program)
    if path is None or not _is_static(path):
        return
    raise RunFailed(
        f"start {program} with {policy.mode} memory",
        "it is linked statically: the library that applies the policy cannot be preloaded",
        "use a program that is linked dynamically, or Linux 6.9 and root for memory=weighted",
    )


def _is_static(path: str) -> bool:
    """Return whether a 64-bit ELF program names no interpreter (elf(5)); a script is none."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(64)
            if len(head) < 64 or head[:5] != b"\x7fELF\x02":
                return False
            order = "<" if head[5] == 1 else ">"
            (offset,) = struct.unpack_from(f"{order}Q", head, 32)
            size, count = struct.unpack_from(f"{order}HH", head, 54)
            file.seek(offset)
            headers = file.read(size * count)
    except OSError:
        return False
    kinds = [struct.unpack_from(f"{order}I", headers, size * i)[0] for i in range(count)]
    return _INTERPRETER not in kinds


#: Of ``spawn``: a network of the process's own, where only root's processes reach it.
OWN_NETWORK = "own"


class Process:
    """A process started under the supervisor, its direct child.

    ``stdin`` and ``stdout``: binary, buffered (flush!), None without ``pipes``;
    ``progress``: its output on descriptor 3, None if not requested. ``listens``: TCP ports that it
    may listen on.
    """

    def __init__(
        self,
        lifeline: Lifeline,
        identity: ProcessId,
        mark: str,
        streams: channel.Streams,
        listens: Collection[int] = (),
    ) -> None:
        self.id = identity
        self.listens = listens
        self.pid = identity.pid
        self._status, self.stdin, self.stdout, self.progress = streams.keep()
        self.returncode: int | None = None
        self._lifeline = lifeline
        self._mark = mark
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Exit status (negative: the signal that ended it), None while it runs."""
        return self._await_status(0)

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end; TimeoutError after ``timeout_s``; RunFailed without a supervisor."""
        code = self._await_status(timeout_s)
        if code is None:
            raise TimeoutError(f"process {self.pid} still runs after {timeout_s} s")
        return code

    def _await_status(self, timeout_s: float | None) -> int | None:
        with self._lock:
            if self.returncode is not None:
                return self.returncode
            poller = select.poll()
            poller.register(self._status, select.POLLIN)
            if not poller.poll(None if timeout_s is None else max(0, timeout_s * 1000)):
                return None
            text = os.read(self._status, 32)
            if not text:
                self._lifeline.explain_loss()
            os.close(self._status)
            self.returncode = int(text)
            return self.returncode

    def signal(self, number: int) -> None:
        """Send a signal to the process; nothing where it has ended."""
        self._lifeline.request({"op": "signal", "mark": self._mark, "number": int(number)})

    def kill(self) -> None:
        """SIGKILL it and everything it started, daemons included; returns when all are dead."""
        answer = self._lifeline.request({"op": "kill", "mark": self._mark})
        if answer["survivors"]:
            raise RunFailed(
                f"kill process {self.pid}",
                f"process {answer['survivors'][0]} does not die (stuck in the kernel?)",
            )


def converse(
    process: Process, sent: str, on_progress: Callable[[bytes], bool] | None = None
) -> tuple[int, bytes]:
    """Its exit status and what it printed; it is dead when this returns, however it returns.

    ``on_progress``: receives each line of its progress descriptor; where it returns True, the
    program waits for an empty line as the answer. All of its outputs are read at once: a full pipe
    would stop it.
    """
    printed: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader = threading.Thread(target=lambda: printed.put(process.stdout.read()), daemon=True)
    reader.start()
    try:
        with silence.phase("measure"):
            _send(process, sent.encode())
            if on_progress is None:
                with suppress(BrokenPipeError):
                    process.stdin.close()
            else:
                for line in process.progress:
                    if on_progress(line):
                        _send(process, b"\n")
            code = process.wait()
            reader.join()
            return code, printed.get()
    finally:
        process.kill()
        process.wait()
        reader.join()
        for stream in (process.stdin, process.stdout, process.progress):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def _send(process: Process, data: bytes) -> None:
    with suppress(BrokenPipeError):  # it has ended already: its exit status says why
        process.stdin.write(data)
        process.stdin.flush()
