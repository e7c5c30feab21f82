"""The client's process: started under the supervisor, listened to, ended when it has failed.

It reads its properties (with the password in them) from a file that only its user may read,
in a private folder that also takes its histograms, and is removed at the end whatever
happens. With an engine inside it is what the engine's memory cap and processors hold.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.drivers.private_folder import private_folder
from harness.drivers.ycsb.build import Build
from harness.drivers.ycsb.java import Java
from harness.drivers.ycsb.output_parser import Tick, Words
from harness.drivers.ycsb.properties import properties_text
from harness.engine import Credentials, Process
from harness.errors import RunFailed
from harness.supervise.failures import log_tail
from harness.supervise.user_files import make_directory, write_text
from harness.units import MIB
from harness.workload import Clients

#: It says something each second once its threads are made; an engine may take a while to open.
SILENCE_S = 1800.0
#: How many seconds it is given beyond the window, so that this ends before the client does:
#: on a busy host its status lines come late.
_BEYOND_S = 8
#: For the rest of what it says of a failure.
_LAST_WORDS_S = 2.0
_LINES_TOLD = 15
_TICK_S = 0.5
_MAIN = "tierbench.ycsb.Main"
_HISTOGRAMS = "histograms"
_STDERR = "stderr.log"
#: What it says for each of its threads, whatever happens.
_BOILERPLATE = ("tierbench: c", "DBWrapper: report latency for each error")
_Stream = Literal["said", "results"]


@dataclass(frozen=True)
class Request:
    """What the client is to do.

    ``properties``: the workload's and the binding's. ``duration_s``: of the measured window;
    None: until its operations are done, all of which are measured. ``heap_bytes``: of Java.
    ``noun``, ``total``: what it does and how many of that, for a person.
    """

    properties: Mapping[str, object]
    threads: int
    load: bool = False
    ramp_up_s: int = 0
    duration_s: int | None = None
    heap_bytes: int = 256 * MIB
    noun: str = "operations"
    total: int | None = None

    @property
    def seconds(self) -> int | None:
        """Ramp-up and window; None of what its operations bound."""
        return None if self.duration_s is None else self.ramp_up_s + self.duration_s


class ClientProcess:
    """A running client, what it says, and when it said it."""

    def __init__(
        self,
        process: Process,
        folder: Path,
        user: Credentials | None,
        what: str,
        silence_s: float,
    ) -> None:
        self.process = process
        self.user = user
        self.folder = folder
        self.words = Words()
        self.over = False
        self._what = what
        self._silence_s = silence_s
        self._heard = time.monotonic()
        self._last: deque[str] = deque(maxlen=_LINES_TOLD)
        self._lines: queue.SimpleQueue[tuple[_Stream, str | None]] = queue.SimpleQueue()
        self._open: set[_Stream] = {"said", "results"}
        for stream, pipe in (("said", process.progress), ("results", process.stdout)):
            threading.Thread(target=self._read, args=(stream, pipe), daemon=True).start()

    @classmethod
    @contextmanager
    def open(
        cls,
        build: Build,
        java: Java,
        clients: Clients,
        request: Request,
        what: str,
        silence_s: float,
    ) -> Iterator[ClientProcess]:
        """Start the client; at the end it and its folder are gone."""
        with private_folder(clients, "ycsb-") as folder:
            histograms = folder / _HISTOGRAMS
            path = folder / "client.properties"
            user = clients.credentials
            write_text(path, properties_text(_properties(request, histograms)), user)
            make_directory(histograms, user)
            process = clients.start_driver(
                [*_command(build, java, request, folder), "-P", str(path)],
                cwd=folder,
                log=folder / _STDERR,
                pipes=True,
                progress=True,
            )
            try:
                yield cls(process, folder, user, what, silence_s)
            finally:
                process.kill()
                process.wait()

    def listen(self) -> Tick | None:
        """Read its next line, if there is one soon; the status in it, if any."""
        try:
            stream, line = self._lines.get(timeout=_TICK_S)
        except queue.Empty:
            if time.monotonic() - self._heard > self._silence_s:
                raise self.failed(f"it has said nothing for {self._silence_s:g} s") from None
            return None
        self._heard = time.monotonic()
        if line is None:
            self._open.discard(stream)
            self.over = not self._open
            return None
        if stream == "results":
            self.words.hear_result(line)
            return None
        tick = self.words.read_line(line)
        if tick is None and not line.startswith(_BOILERPLATE):  # clocks and counters are ours
            self._last.append(line)
        return tick

    def query(self, name: str) -> None:
        """Have it print its clocks, and the binding the engine's counters."""
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{name}\n".encode())
            self.process.stdin.flush()

    def logs(self) -> Path:
        """The folder of its histograms."""
        return self.folder / _HISTOGRAMS

    def let_go(self) -> None:
        """Let it end: it stays until its stdin does."""
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def hear_out(self) -> None:
        """The lines after the first of a failure often say more."""
        until = time.monotonic() + _LAST_WORDS_S
        while not self.over and not self.words.ended and time.monotonic() < until:
            self.listen()

    def expect_success(self) -> None:
        """RunFailed where it reported a failure, or ended without its results."""
        if self.words.failure is not None:
            self.hear_out()
            raise self.failed(self.words.failure)
        code = self.process.wait()
        if code != 0:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
            raise self.failed(f"it {how}")
        if ("OVERALL", "RunTime(ms)") not in self.words.results:
            raise self.failed("it ended without a result")
        if self.words.fewer_threads:
            raise self.failed("it has fewer operations to do than threads, and used fewer threads")

    def failed(self, found: str) -> RunFailed:
        """With its last lines, and what its launcher had to say."""
        said = "\n".join(line for line in self._last if line.strip()) or "(it said nothing)"
        launcher = log_tail(self.folder / _STDERR, self.user)
        more = "" if launcher.endswith("is empty)") else f"\n{launcher}"
        return RunFailed(self._what, f"{found}\nIts last lines:\n{said}{more}")

    def _read(self, stream: _Stream, pipe: Any) -> None:
        for line in pipe:
            self._lines.put((stream, line.decode(errors="replace").rstrip("\r\n")))
        self._lines.put((stream, None))


def _properties(request: Request, histograms: Path) -> dict[str, object]:
    """The properties of the request, and how the client measures and reports."""
    beyond = None if request.seconds is None else request.seconds + _BEYOND_S
    return {
        **request.properties,
        "threadcount": request.threads,
        "maxexecutiontime": beyond,
        "status": True,
        "status.interval": 1,
        "measurementtype": "hdrhistogram",
        "measurement.interval": "both",
        "hdrhistogram.fileoutput": True,
        "hdrhistogram.output.path": f"{histograms}/",
        "reportlatencyforeacherror": True,
    }


def _command(build: Build, java: Java, request: Request, folder: Path) -> list[str]:
    """Java with what it says on stderr at our descriptor 3, as it is said."""
    heap = max(1, request.heap_bytes // MIB)
    options = [
        f"-Xms{heap}m",
        f"-Xmx{heap}m",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        f"-Djava.io.tmpdir={folder}",
        f"-XX:ErrorFile={folder}/crash.log",
    ]
    if build.binding.libraries:
        libraries = ":".join(map(str, build.binding.libraries))
        options.append(f"-Djava.library.path={libraries}")
    program = [str(java.program), *options, "-cp", build.classpath, _MAIN]
    phase = "-load" if request.load else "-t"
    return ["/bin/sh", "-c", 'exec "$@" 2>&3 3>&-', "sh", *program, phase]
