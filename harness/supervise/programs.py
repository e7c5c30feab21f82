"""Programs that the harness runs itself, next to what the supervisor starts.

All go through :func:`run`, :func:`lines` and :func:`start`: a program dies with the harness
(kill -9 included), is away from its terminal, and sees a small environment with a fixed locale, so
that its numbers have decimal points. What belongs to a run is the supervisor's.
"""

from __future__ import annotations

import errno
import os
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

from harness.supervise import linux
from harness.supervise.process import descendants, kill_all
from harness.supervise.user_files import Credentials

#: A killed program dies so soon, or waits for a dead device.
_DEATH_S = 10.0
_BLOCK = 1 << 16
_LONGEST_LINE = 1 << 20
_STDERR = 2
_BY_SIGNAL = 128

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
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        **_common(env, cwd, user, foreign, descriptors),
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
        words, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, **_common({}, cwd, None, True, ())
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
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        **_common(env, cwd, user, False, descriptors, priority),
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


def _popen(words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a program, without a signal in between that would be lost.

    ``preexec_fn`` makes Python fork and run the hooks of modules (those of logging), and what a
    signal's handler raises in a hook is printed and ignored. So handlers run after the start.
    """
    process: subprocess.Popen[Any] | None = None
    try:
        with _handlers_later():
            process = subprocess.Popen(words, **options)
    except BaseException:
        if process is not None:
            end(process, foreign=True)
        raise
    return process


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


def _common(
    env: Mapping[str, str] | None,
    cwd: Path,
    user: Credentials | None,
    foreign: bool,
    descriptors: Sequence[int],
    priority: int = 0,
) -> dict[str, Any]:
    return {
        "env": minimal_environment(cwd) | dict(env or {}),
        "cwd": cwd,
        "pass_fds": descriptors,
        "start_new_session": True,  # away from our terminal
        "preexec_fn": partial(_prepare, os.getpid(), user, foreign or user is not None, priority),
    }


def _prepare(parent: int, user: Credentials | None, foreign: bool, priority: int) -> None:
    """Prepare a forked child before exec."""
    if foreign:
        linux.die_with_parent(parent, signal.SIGTERM)
        linux.become_subreaper()
        if program := os.fork():
            _end_what_is_left(program)
        parent = os.getppid()
    if priority:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, priority)
    if user is not None:
        os.setgroups([])
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
    linux.die_with_parent(parent, signal.SIGKILL)  # setuid would clear it
    if foreign:
        linux.forbid_new_privileges()


def _end_what_is_left(program: int) -> NoReturn:
    """Be the process between us and a foreign program: wait for its end, or for SIGTERM, then kill
    all that is left of it, and end as it did.

    It has our rights, so that the program cannot end it.
    """
    code = 127
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGTERM, signal.SIGCHLD})
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
            if int(name) > _STDERR:
                with suppress(OSError):
                    os.close(int(name))
        statuses: dict[int, int] = {}

        def reap() -> None:
            with suppress(ChildProcessError):
                while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    statuses[ended[0]] = os.waitstatus_to_exitcode(ended[1])

        reap()
        while program not in statuses:
            if signal.sigwait({signal.SIGTERM, signal.SIGCHLD}) == signal.SIGTERM:
                break
            reap()
        if descendants(os.getpid()):
            kill_all(lambda: descendants(os.getpid()), _DEATH_S / 2, reap)
        code = statuses.get(program, -signal.SIGKILL)
        if code < 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.pthread_sigmask(signal.SIG_SETMASK, set())
            with suppress(OSError):  # SIGKILL
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
    finally:
        os._exit(code if code >= 0 else _BY_SIGNAL - code)
