"""The client's process: started under the supervisor, listened to, ended when it has failed.

It reads its properties (with the password in them) from a file that only its user may read,
in a private folder that also takes its histograms, and is removed at the end whatever
happens. With an engine inside it is what the engine's memory cap and processors hold.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.drivers.client_program import STDERR, ClientProgram, private_folder
from harness.drivers.ycsb.build import Build, find_java
from harness.drivers.ycsb.output_parser import Tick, Words
from harness.supervise.failures import ending
from harness.supervise.silence import limit_s
from harness.supervise.user_files import make_directory, write_text
from harness.units import MIB
from harness.workload import Clients

#: How many seconds it is given beyond the window, so that this ends before the client does:
#: on a busy host its status lines come late.
_BEYOND_S = 8
#: For the rest of what it says of a failure.
_LAST_WORDS_S = 2.0
_MAIN = "tierbench.ycsb.Main"
_HISTOGRAMS = "histograms"
_RESULTS = "results"
#: What it says for each of its threads, whatever happens.
_BOILERPLATE = ("tierbench: c", "DBWrapper: report latency for each error")


@dataclass(frozen=True)
class Request:
    """A request to the client.

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
        """Ramp-up and window; None where the operations bound the window."""
        return None if self.duration_s is None else self.ramp_up_s + self.duration_s


class ClientProcess(ClientProgram):
    """A running client, and what was understood of it."""

    def __init__(self, *program: Any) -> None:
        super().__init__(*program)
        self.words = Words()

    @classmethod
    @contextmanager
    def open(
        cls, build: Build, clients: Clients, request: Request, what: str
    ) -> Iterator[ClientProcess]:
        """Start the client; at the end it and its folder are gone."""
        user = clients.credentials
        with private_folder(clients, "ycsb-") as folder:
            histograms = folder / _HISTOGRAMS
            path = folder / "client.properties"
            write_text(path, properties_text(_properties(request, histograms)), user)
            make_directory(histograms, user)
            process = clients.start_driver(
                [*_command(build, request, folder), "-P", str(path)],
                cwd=folder,
                log=folder / STDERR,
                pipes=True,
                progress=True,
            )
            pipes = {"stderr": process.progress, _RESULTS: process.stdout}
            with cls(process, folder, user, what, pipes).running() as client:
                yield client

    def listen(self) -> Tick | None:
        """Read the client's next line, if there is one soon; return the status in it, if any."""
        if (found := self.next_line()) is None:
            # It prints each second once its threads are made; an engine may take a while to open.
            if self.silent_s > (silence_s := limit_s("warm-up")):
                raise self.failed(f"it has printed nothing for {silence_s:g} s")
            return None
        stream, line = found
        if stream == _RESULTS:
            self.words.read_result(line)
            return None
        tick = self.words.read_line(line)
        if tick is None and not line.startswith(_BOILERPLATE):  # clocks and counters are ours
            self.last.append(line)
        return tick

    def query(self, name: str) -> None:
        """Have the client print its clocks, and the binding the engine's counters."""
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{name}\n".encode())
            self.process.stdin.flush()

    def logs(self) -> Path:
        """Return the folder of the client's histograms."""
        return self.folder / _HISTOGRAMS

    def let_go(self) -> None:
        """Let the client end: it stays until its stdin ends."""
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def read_rest(self) -> None:
        """Read the lines after a failure's first, which often say more."""
        until = time.monotonic() + _LAST_WORDS_S
        while not self.over and not self.words.ended and time.monotonic() < until:
            self.listen()

    def expect_success(self) -> None:
        """Raise RunFailed where the client reported a failure, or ended without its results."""
        if self.words.failure is not None:
            self.read_rest()
            raise self.failed(self.words.failure)
        code = self.process.wait()
        if code != 0:
            raise self.failed(f"it {ending(code)}")
        if ("OVERALL", "RunTime(ms)") not in self.words.results:
            raise self.failed("it ended without a result")
        if self.words.fewer_threads:
            raise self.failed("it has fewer operations to do than threads, and used fewer threads")


def properties_text(properties: Mapping[str, object]) -> str:
    """A property file as Java reads it (``java.util.Properties``).

    One line each, in order; booleans and numbers as Java has them, None left out.
    """
    given = {name: value for name, value in properties.items() if value is not None}
    return "".join(f"{_escaped(name)}={_escaped(_java(v))}\n" for name, v in given.items())


def _java(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    """Escape each character that has a meaning in the syntax or is not plain ASCII."""
    plain = re.sub(r"[\\=:#! ]", r"\\\g<0>", text)
    return re.sub(r"[^ -~]", _utf16, plain)


def _utf16(character: re.Match[str]) -> str:
    digits = character[0].encode("utf-16-be", "surrogatepass").hex()
    return re.sub("....", r"\\u\g<0>", digits)


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


def _command(build: Build, request: Request, folder: Path) -> list[str]:
    """Return the command of Java whose stderr is our descriptor 3."""
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
    program = [str(find_java().program), *options, "-cp", build.classpath, _MAIN]
    phase = "-load" if request.load else "-t"
    return ["/bin/sh", "-c", 'exec "$@" 2>&3 3>&-', "sh", *program, phase]
