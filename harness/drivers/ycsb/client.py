"""A run of the official client: its measured window, and the work that it did in it.

The official client has no ramp-up: it counts from its first operation on. But it writes the
histograms of each second apart, at its status lines, so that the measured window is made of
the whole seconds between two of those lines, and nothing else is in it.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from harness.drivers.client_program import STDERR, ClientProgram, private_folder, stderr_as_progress
from harness.drivers.result import Second, WindowCallbacks
from harness.drivers.ycsb.build import NAME, Build, find_java
from harness.drivers.ycsb.output_parser import StatusInterval, Tick, YcsbOutput, read_logs
from harness.progress import Progress, Task
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
        self.words = YcsbOutput()

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
        if (output := self.next_line()) is None:
            # It prints each second once its threads are made; an engine may take a while to open.
            if self.silent_s > (silence_s := limit_s("warm-up")):
                raise self.failed(f"it has printed nothing for {silence_s:g} s")
            return None
        stream, line = output
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
    """Return the command of Java, with its stderr as ``progress``."""
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
    return stderr_as_progress([*program, phase])


_BEGIN, _END = "begin", "end"
#: Status lines come each second, give or take so much; late ones are made up for.
_EARLY_MS = 100
_TOO_SOON = (
    "it ended before its window did: its operations were done, its threads gave up, or the host "
    "was so busy that its status lines came many seconds late; raise the operations, or measure "
    "on an idle host"
)


@dataclass(frozen=True)
class Done:
    """The work of a client that has ended.

    ``ticks``: its status lines. ``begin``, ``end``: the measured window's, as indices of
    them; ``clocks``: at both, see YcsbOutput. ``logs``: its histograms by measurement, an interval
    a status line and one after the last. ``retried``: in the window, by the
    engine's code. ``engine``: the binding's report of the engine at both ends of the window.
    """

    words: YcsbOutput
    ticks: Sequence[Tick]
    begin: int
    end: int
    clocks: tuple[tuple[int, int], tuple[int, int]]
    cpu_ns: int | None
    logs: Mapping[str, Sequence[StatusInterval]]
    retried: Mapping[str, int]
    engine: tuple[Mapping[str, Any], Mapping[str, Any]]

    @property
    def late_ns(self) -> int:
        """The largest delay between an end of the window and the reading of counters."""
        ends = zip(self.clocks, (self.begin, self.end), strict=True)
        return max(wall_ms - self.ticks[number].at_ms for (wall_ms, _), number in ends) * 1_000_000

    def counted_ns(self) -> int:
        """Return the time between the two readings of the counters, by the client's clock."""
        (_, begin_ns), (_, end_ns) = self.clocks
        return end_ns - begin_ns


def run(
    build: Build,
    clients: Clients,
    request: Request,
    progress: Progress,
    drives: WindowCallbacks | None = None,
) -> Done:
    """Run the client on a request; RunFailed with its last lines where it fails.

    ``drives``: called as the measured window begins and ends, while it works.
    """
    what = f"{NAME}, {request.threads} threads"
    timed = request.seconds is not None
    total, unit = (request.ramp_up_s, "s") if timed else (request.total, request.noun)
    with (
        ClientProcess.open(build, clients, request, f"run {what}") as client,
        progress.task("warm-up" if timed else what, total, unit) as task,
    ):
        drives = drives or WindowCallbacks()
        window = _WindowListener(client, request, drives, task)
        window.listen()
        client.expect_success()
        if window.end is None or window.begin is None or window.is_cut_off:
            raise client.failed(_TOO_SOON)
        counters, clocks = client.words.counters, client.words.clocks
        if not {_BEGIN, _END} <= clocks.keys():
            raise client.failed("it did not report its clocks")
        return Done(
            words=client.words,
            ticks=window.ticks,
            begin=window.begin,
            end=window.end,
            clocks=(clocks[_BEGIN], clocks[_END]),
            cpu_ns=window.cpu_ns,
            logs=read_logs(client.logs(), client.user),
            retried=window.retried,
            engine=(counters.get(_BEGIN, {}), counters.get(_END, {})),
        )


@dataclass
class _WindowListener:
    """Listens to the client's end and takes the window's two moments."""

    client: ClientProcess
    request: Request
    drives: WindowCallbacks
    task: Task
    ticks: list[Tick] = field(default_factory=list)
    begin: int | None = None
    end: int | None = None
    cpu_ns: int | None = None
    retried: Counter[str] = field(default_factory=Counter)
    _first: int | None = None
    _told: float = 0.0
    _let_go: bool = False

    def listen(self) -> None:
        """Listen until the client has ended, or has reported a failure."""
        while not self.client.over and self.client.words.failure is None:
            tick = self.client.listen()
            if tick is not None:
                self._take(tick)
            if self.client.words.ended and not self._let_go:
                self._ended()

    def _take(self, tick: Tick) -> None:
        number = len(self.ticks)
        self.ticks.append(tick)
        self._advance(tick)
        if self._first is None and (tick.operations or self.request.duration_s is None):
            self._first = number
        if self.begin is None:
            if self._first is not None and self._past(self._first, self.request.ramp_up_s):
                self.begin = number
                self._enter(_BEGIN, self.drives.on_measuring)
                if self.request.duration_s is not None:
                    self.task.enter("measurement", self.request.duration_s)
        elif self.end is None and self._window_is_over(self.begin):
            self._leave(number)

    def _window_is_over(self, begin: int) -> bool:
        length_s = self.request.duration_s
        return length_s is not None and self._past(begin, length_s)

    @property
    def is_cut_off(self) -> bool:
        """Return whether the client ended with its window: later operations cannot be separated."""
        return self.request.duration_s is not None and self.end == len(self.ticks) - 1

    def _past(self, line: int, seconds: int) -> bool:
        """Return whether the last status line is at least that much later."""
        return self.ticks[-1].at_ms - self.ticks[line].at_ms >= 1000 * seconds - _EARLY_MS

    def _ended(self) -> None:
        """End the window of a client that has done all its operations, and let the client end."""
        if self.request.duration_s is None and self.begin is not None:
            self._leave(len(self.ticks) - 1)
        self._let_go = True
        self.client.let_go()

    def _leave(self, number: int) -> None:
        self.end = number
        self._enter(_END, self.drives.on_measured)

    def _enter(self, name: str, then: Callable[[], None]) -> None:
        """Read the client's processor time and the engine inside it, then the caller's counters."""
        cpu_ns = self.client.cpu_ns()
        self.client.query(name)
        retried = self.client.words.retried.copy()
        if name == _BEGIN:
            self.cpu_ns, self.retried = cpu_ns, retried
        else:
            begun = self.cpu_ns
            self.cpu_ns = None if cpu_ns is None or begun is None else cpu_ns - begun
            self.retried = retried - self.retried
        then()

    def _advance(self, tick: Tick) -> None:
        if self.request.duration_s is None:
            self.task.advance(tick.operations - self._told)
            self._told = tick.operations
            return
        self.task.advance(1, partial(self._last_second().text, self.request.noun))

    def _last_second(self) -> Second:
        """The rate between the last two status lines."""
        if len(self.ticks) < 2:
            return Second(0)
        before, now = self.ticks[-2:]
        done, took_ms = now.operations - before.operations, now.at_ms - before.at_ms
        return Second(done * 1000 / max(1, took_ms))
