"""The command, or a script, in a process that is forked where its imports are done already.

Many commands of these tests do less than their imports take. One that gets a signal, or
variables that imports may read, is started as a user's is (``cli/conftest.Harness.start``).
"""

import gc
import json
import os
import runpy
import select
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

from generated import little_taken_back, shared_files
from pools import small_pools
from scratch import session_directory

_HANGS_S = 600
_HARNESS = str(Path(__file__).parents[1] / ".venv/bin/harness")
#: Variables that decide what is imported, or how Python itself starts.
READ_BY_IMPORTS = {"HARNESS_MONITOR_PATH", "HARNESS_WORKLOAD_PATH", "LC_ALL", "PYTHONUTF8"}
_IMPORTED = (
    *(
        f"harness.cli.{name}"
        for name in ("advise", "app", "curve", "data", "results", "run", "runs")
    ),
    *(f"engines.{name}.engine" for name in ("duckdb", "postgres", "mysql", "rocksdb")),
    *(f"harness.workloads.{name}.workload" for name in ("sql", "tpcc", "tpch", "ycsb")),
    *(f"harness.{name}" for name in ("execution.runner", "observers.vtune")),
    *(f"harness.monitors.{name}" for name in ("block", "cxl", "memory_traffic", "pressure")),
    "msgspec",
    "numpy.random",
    "reports.charts",
    "reports.report",
    "rich.progress",
)


def run(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    """Exit status, output and errors of ``harness`` with these arguments, or of a ``.py`` file."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        files = [f"/proc/{os.getpid()}/fd/{stream.fileno()}" for stream in (out, err)]
        server = _server()
        assert server.stdin and server.stdout
        request = {"argv": argv, "folder": str(folder), "environment": environment, "files": files}
        print(json.dumps(request), file=server.stdin, flush=True)
        ended, _, _ = select.select([server.stdout], [], [], _HANGS_S)
        assert ended, f"{argv} hangs: {err.read()}"
        return int(server.stdout.readline()), out.read(), err.read()


@cache
def _server() -> subprocess.Popen[str]:
    """Reads requests and answers each with the exit status, one at a time."""
    return subprocess.Popen(
        [sys.executable, __file__, str(session_directory())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _serve() -> None:
    for name in _IMPORTED:
        import_module(name)
    from engines.postgres.configuration import known_settings
    from engines.postgres.installation import choose
    from harness import paths, registry
    from harness.execution.resolved_run import harness_revision

    harness_revision()
    for name in ("duckdb", "postgres"):  # commands inherit what their programs print
        registry.engine(name).available({}, paths.engines_prefix())
    known_settings(choose({}, paths.engines_prefix()))
    with shared_files(Path(sys.argv[1])), little_taken_back(), small_pools():
        gc.collect()
        gc.freeze()  # else every command would look through, and so copy, all that is imported
        _serve_commands()


def _serve_commands() -> None:
    while request := sys.stdin.readline():
        if (pid := os.fork()) == 0:
            _command(**json.loads(request))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _command(
    argv: Sequence[str], folder: str, environment: Mapping[str, str], files: Sequence[str]
) -> None:
    """Run it to the end of this process."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # another TMPDIR
    modes = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)
    for number, (file, mode) in enumerate(zip(("/dev/null", *files), modes, strict=True)):
        descriptor = os.open(file, mode)
        os.dup2(descriptor, number)
        os.close(descriptor)
    _end(partial(_run_script, argv) if argv[0].endswith(".py") else partial(_run_harness, argv))


def _run_harness(argv: Sequence[str]) -> None:
    sys.argv = ["harness", *argv]
    from harness.cli import main

    main()


def _run_script(argv: Sequence[str]) -> None:
    """Run it as ``python FILE``; the commands that it starts are forked, too."""
    sys.argv, sys.path[0] = [*argv], str(Path(argv[0]).parent)
    with mock.patch.object(subprocess, "Popen", _ForkedPopen):
        runpy.run_path(argv[0], run_name="__main__")


class _ForkedPopen(subprocess.Popen[Any]):
    """A process; one of ``harness`` becomes it before it would execute the program."""

    def __init__(self, args: Any, **options: Any) -> None:
        environment = options.get("env") or os.environ
        if args[0] == _HARNESS and not READ_BY_IMPORTS & environment.keys():
            options["preexec_fn"] = partial(_become_harness, [*args[1:]], {**environment})
        super().__init__(args, **options)


def _become_harness(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # one of them tells the parent of the execution
    os.environ.clear()
    os.environ.update(environment)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    _end(partial(_run_harness, argv))


def _end(program: Callable[[], None]) -> None:
    """Run it to the end of this process."""
    code: object = 1
    try:
        program()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
        if isinstance(code, str):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    for thread in {*threading.enumerate()} - {threading.current_thread()}:
        if not thread.daemon:
            thread.join()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)  # without freeing all that is imported


if __name__ == "__main__":
    _serve()
