"""From fork to exec: what a child of the supervisor does to itself, in this order.

Own session → standard streams → journal entry → memory cgroup, processors, memory policy and
network (these may need root) → the unprivileged user → death with the supervisor
(setuid would clear it) → no new privileges → working directory (as the user that
must live in it) → exec. Each step is reported as it begins: one that waits for a dead directory
server or file system ends the start at a limit, by name. A step that fails is reported by name,
errno and path.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pwd
import signal
from dataclasses import asdict
from typing import Any, NoReturn

from harness import jsonfile
from harness.supervise import linux
from harness.supervise.process import MARK, own_identity
from harness.supervise.undo import append_entry
from harness.supervise.user_files import opened

_MAX_LINKS = 40
#: Standard streams, the one for progress, the page of a trace: 0 … 4.
_STREAMS = 5


def run_child(
    request: dict[str, Any],
    streams: tuple[int, ...],
    journal_fd: int,
    error_fd: int,
    supervisor_pid: int,
) -> NoReturn:
    """Turn the forked process into the requested one; never returns."""
    step = "set up"

    def begin(name: str) -> None:
        nonlocal step
        step = name
        os.write(error_fd, f"{name}\n".encode())

    try:
        os.setsid()
        journal_fd, error_fd = _out_of_the_way(journal_fd), _out_of_the_way(error_fd)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.set_inheritable(number, True)  # also where it had this number before
        _restore_signals()
        begin("journal")
        # Not synced to disk: a process does not outlive the boot, the page cache does it.
        append_entry(journal_fd, {"kind": "process", **asdict(own_identity())}, sync=False)
        begin("cgroup")
        for procs in request["cgroup_procs"]:
            _write(procs, "0")
        begin("processors")
        if request["cpus"]:
            os.sched_setaffinity(0, request["cpus"])
        begin("memory policy")
        if request["memory"]:
            linux.set_memory_policy(*request["memory"])
        begin("network")
        _change_network(request["network"])
        begin("user")
        if request["credentials"]:
            _become(*request["credentials"])
        os.umask(0o077)
        linux.die_with_parent(supervisor_pid, signal.SIGKILL)
        linux.forbid_new_privileges()
        begin("directory")
        os.chdir(request["cwd"])
        begin("exec")
        _execute(request["argv"], request["env"] | {MARK: request["mark"]})
    except BaseException as error:
        _report(error_fd, step, error, request)
    os._exit(127)


def reported_failure(report: bytes) -> dict[str, Any] | None:
    """The failure in what a child has reported until exec; None where it has begun its program."""
    last = report.rpartition(b"\n")[2]
    failure: dict[str, Any] | None = jsonfile.parse(last) if last else None
    return failure


def unfinished(report: bytes, limit_s: float, request: dict[str, Any]) -> dict[str, Any]:
    """The failure of a child that has not come as far as exec by the limit."""
    step = report.decode().split("\n")[-2] if report else "set up"
    return {
        "step": step,
        "errno": errno.ETIMEDOUT,
        "error": f"it has waited for {limit_s:g} s, the limit; it was killed",
        "path": request["cwd"] if step == "directory" else request["argv"][0],
        "closed": None,
        "interpreter": None,
    }


def _out_of_the_way(descriptor: int) -> int:
    # Descriptor 3 may be one of ours, and a stream of the child's is to have that number.
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STREAMS)


def _restore_signals() -> None:
    # Python ignores SIGPIPE and SIGXFSZ; an ignored signal would survive exec.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _write(path: str, text: str) -> None:
    with opened(path, os.O_WRONLY) as descriptor:
        try:
            os.write(descriptor, text.encode())
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None


def _change_network(network: str) -> None:
    """See ``harness.engine.OWN_NETWORK``; without the rights, the process stays in ours."""
    if network == "own":
        with contextlib.suppress(PermissionError):
            linux.leave_network()
    elif network:
        linux.enter_network(network)


def _become(uid: int, gid: int, name: str) -> None:
    try:
        pwd.getpwnam(name)
        os.initgroups(name, gid)
    except KeyError:  # a number without a name in the user database
        os.setgroups([gid])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _execute(argv: list[str], env: dict[str, str]) -> None:
    """Execve with a PATH search of its own, so that the failing path is known."""
    if "/" in argv[0]:
        candidates = [argv[0]]
    else:
        folders = env.get("PATH", os.defpath).split(":")
        candidates = [os.path.join(folder, argv[0]) for folder in folders if folder]
    failure: OSError = FileNotFoundError(errno.ENOENT, "not found on PATH", argv[0])
    for path in candidates:
        try:
            os.execve(path, argv, env)
        except (FileNotFoundError, NotADirectoryError) as error:
            if "/" in argv[0]:
                failure = OSError(error.errno, error.strerror, path)
        except OSError as error:
            if "/" not in argv[0] and not os.path.exists(path):
                continue  # a folder of PATH that this user may not enter
            failure = OSError(error.errno, error.strerror, path)
            if error.errno != errno.EACCES:
                break
    raise failure


def closed_directory(path: str) -> str | None:
    """The first directory on the way to ``path`` that this process may not enter.

    Symbolic links are followed one by one: they often lead to the closed directory.
    """
    here, pending = "/", path.split("/")
    links = 0
    while pending and links < _MAX_LINKS:
        name = pending.pop(0)
        if name == "":
            continue
        if not os.access(here, os.X_OK):
            return here if os.path.isdir(here) else None
        if name in (".", ".."):
            here = here if name == "." else os.path.dirname(here)
            continue
        step = os.path.join(here, name)
        try:
            target = os.readlink(step)
        except OSError:
            here = step
            continue
        links += 1
        pending = target.split("/") + pending
        here = "/" if target.startswith("/") else here
    return None


def _report(error_fd: int, step: str, error: BaseException, request: dict[str, Any]) -> None:
    path = getattr(error, "filename", None)
    if path is None:
        path = request["cwd"] if step == "directory" else request["argv"][0]
    message = {
        "step": step,
        "errno": getattr(error, "errno", None),
        "error": getattr(error, "strerror", None) or f"{type(error).__name__}: {error}",
        "path": path,
        "closed": closed_directory(f"{path}/." if step == "directory" else path),
        "interpreter": _interpreter(path) if step == "exec" else None,
    }
    os.write(error_fd, json.dumps(message).encode())


def _interpreter(path: str) -> str | None:
    """The interpreter after a script's ``#!``: the missing file when a script "is not found"."""
    try:
        with open(path, "rb") as script:
            first = script.readline(256)
    except OSError:
        return None
    return first[2:].decode(errors="replace").strip() if first.startswith(b"#!") else None
