"""Programs that the harness runs itself, next to what the supervisor starts.

All go through :func:`run`, :func:`lines` and :func:`start`: a program dies with the harness
(kill -9 included), is away from its terminal, and sees a small environment with a fixed locale, so
that its numbers have decimal points. What belongs to a run is the supervisor's.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

import harness
from harness.errors import RunFailed
from harness.supervise.user_files import Credentials

#: A killed program dies so soon, or waits for a dead device.
_DEATH_S = 10.0
_BLOCK = 1 << 16
_LONGEST_LINE = 1 << 20
_REMAINING = str(Path(__file__).with_name("remaining.py"))

#: Variables by which users reach package registries, in capitals or not, and beginnings of names.
_NETWORK = frozenset(
    {"http_proxy", "https_proxy", "no_proxy", "all_proxy", "ssl_cert_file", "ssl_cert_dir"}
    | {"curl_ca_bundle", "requests_ca_bundle", "java_home", "home"}
)
_NETWORK_PREFIXES = ("PIP_", "UV_", "MAVEN_", "APT_", "NIX_SSL_")


def minimal_environment(home: Path) -> dict[str, str]:
    """PATH and fixed locale and time zone: nothing secret, and the same on every host."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(home),
    }


def inherited(names: Iterable[str]) -> dict[str, str]:
    """These variables of the harness, those that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


def network_environment() -> dict[str, str]:
    """Variables that a client of a package registry needs of the user's environment."""
    return inherited(
        name
        for name in os.environ
        if name.lower() in _NETWORK or name.startswith(_NETWORK_PREFIXES)
    )


def run(
    command: Sequence[str | Path],
    *,
    timeout_s: float,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path = Path("/"),
    user: Credentials | None = None,
    foreign: bool = False,
    descriptors: Sequence[int] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; OSError and subprocess.TimeoutExpired as of ``subprocess.run``.

    At the timeout, its whole process group is killed. ``env`` is added to the minimal environment.
    ``user``: it runs as that one (root only). ``foreign``, as everything of another user is: it
    gets no new privileges, and processes that it leaves are killed, daemons included.
    """
    words = [str(word) for word in command]
    process = _popen(
        words,
        _Start(env, cwd, user, foreign, descriptors),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        output, errors = process.communicate(stdin, timeout_s)
    finally:
        end(process, foreign or user is not None)
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def lines(
    command: Sequence[str | Path], *, stdin: str, limit_s: float, cwd: Path = Path("/")
) -> Iterator[str]:
    """Yield the lines that a foreign program prints, until its end.

    subprocess.TimeoutExpired where it prints none for ``limit_s``; CalledProcessError, with the end
    of its stderr, where it fails. OSError for a line without an end.
    """
    words = [str(word) for word in command]
    pipe = subprocess.PIPE
    process = _popen(
        words, _Start({}, cwd, None, True), stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0
    )
    assert process.stdin and process.stdout and process.stderr
    unsent, rest, errors = stdin.encode(), b"", b""
    try:
        with selectors.DefaultSelector() as selector:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
            selector.register(process.stdout, selectors.EVENT_READ)
            selector.register(process.stderr, selectors.EVENT_READ)
            heard = time.monotonic()
            while process.stdout in selector.get_map() or process.stderr in selector.get_map():
                if (left_s := heard + limit_s - time.monotonic()) <= 0:
                    raise subprocess.TimeoutExpired(words, limit_s)
                for key, _ in selector.select(left_s):
                    if key.fileobj is process.stdin:
                        with suppress(BrokenPipeError):
                            unsent = unsent[os.write(key.fd, unsent[:_BLOCK]) :]
                            if unsent:
                                continue
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    elif not (piece := os.read(key.fd, _BLOCK)):
                        selector.unregister(key.fileobj)
                    elif key.fileobj is process.stderr:
                        errors = (errors + piece)[-_BLOCK:]
                    else:
                        *whole, rest = (rest + piece).split(b"\n")
                        if len(rest) > _LONGEST_LINE:
                            raise OSError(
                                errno.EMSGSIZE, f"{words[0]} prints a line without an end"
                            )
                        yield from (line.decode(errors="replace") for line in whole)
                        heard = time.monotonic()
        if process.wait(limit_s):
            text = errors.decode(errors="replace")
            raise subprocess.CalledProcessError(process.returncode, words, stderr=text)
    finally:
        end(process, foreign=True)


def start(
    command: Sequence[str | Path],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[Any] = subprocess.DEVNULL,
    stderr: int | IO[Any] = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    cwd: Path = Path("/"),
    user: Credentials | None = None,
    descriptors: Sequence[int] = (),
    priority: int = 0,
) -> subprocess.Popen[bytes]:
    """Start a program that the caller ends.

    It dies with the thread that calls, too, which must live as long as it. ``priority``: its nice
    value, where we may set that.
    """
    return _popen(
        [str(word) for word in command],
        _Start(env, cwd, user, False, descriptors, priority),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )


def end(process: subprocess.Popen[Any], foreign: bool = False) -> None:
    """Kill a program that still runs, with its process group, and close our ends of its pipes.

    One that does not die (its disk is dead) is left: no wait of ours depends on it.
    """
    for number in (signal.SIGTERM, signal.SIGKILL) if foreign else (signal.SIGKILL,):
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_DEATH_S)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):  # what was not sent
                stream.close()


@dataclass(frozen=True)
class _Start:
    """What the process of a program is like; as the arguments of :func:`run` and :func:`start`."""

    env: Mapping[str, str] | None
    cwd: Path
    user: Credentials | None
    foreign: bool
    descriptors: Sequence[int] = ()
    priority: int = 0


def _popen(words: Sequence[str], how: _Start, **streams: Any) -> subprocess.Popen[Any]:
    """Start a program, without a signal in between that would be lost.

    What a signal's handler raises while a program is started would leave that to itself. So
    handlers run after the start.
    """
    process: subprocess.Popen[Any] | None = None
    try:
        with _handlers_later():
            process = _launch(words, how, **streams)
    except BaseException:
        if process is not None:
            end(process, foreign=True)
        raise
    return process


def _launch(words: Sequence[str], how: _Start, **streams: Any) -> subprocess.Popen[Any]:
    """Start a program by way of ``launch``; OSError as of ``subprocess.Popen``."""
    user = how.user
    ids = (-1, -1) if user is None else (user.uid, user.gid)
    foreign = how.foreign or user is not None
    variables = minimal_environment(how.cwd) | dict(how.env or {})
    with ExitStack() as stack:
        environment = os.memfd_create("environment")
        stack.callback(os.close, environment)
        with open(environment, "wb", closefd=False) as file:
            file.write(_block(variables))
        report, reporting = os.pipe()
        stack.callback(os.close, report)
        numbers = (os.getpid(), *ids, int(foreign), how.priority, environment, reporting)
        try:
            process = subprocess.Popen(
                [_launcher(), *map(str, numbers), sys.executable, _REMAINING, *words],
                env={},
                cwd=how.cwd,
                pass_fds=(*how.descriptors, environment, reporting),
                start_new_session=True,  # away from our terminal
                **streams,
            )
        finally:
            os.close(reporting)
        process.args = words
        error = os.read(report, 4)  # nothing, once the program has started
    if error:
        end(process)
        number = int.from_bytes(error, sys.byteorder)
        raise OSError(number, os.strerror(number), words[0])
    return process


def _block(variables: Mapping[str, str]) -> bytes:
    """An environment as ``launch`` reads it."""
    entries = [os.fsencode(f"{name}={value}") for name, value in variables.items()]
    if any(b"\0" in entry for entry in entries):
        raise ValueError("embedded null byte")  # as of subprocess.Popen
    return b"".join(entry + b"\0" for entry in entries)


@cache
def _launcher() -> str:
    """Never one of ``HARNESS_NATIVE``: it has our rights."""
    for place in harness.__path__:
        if (path := Path(place) / "_native/launch").is_file():
            return str(path)
    raise RunFailed(
        "start a program",
        "launch was not built when the harness was installed",
        "install the harness again (make setup)",
    )


@contextmanager
def _handlers_later() -> Iterator[None]:
    """Run the handlers of signals that come within the block at its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    with ExitStack() as stack:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(number)
            if callable(handler):
                stack.callback(_hand_over, number, handler, arrived)
                signal.signal(number, lambda noted, _frame: arrived.append(noted))
        yield


def _hand_over(number: int, handler: Callable[..., Any], arrived: Collection[int]) -> None:
    signal.signal(number, handler)
    if number in arrived:
        handler(number, None)
