"""The command in a process that is forked where all that commands import is imported already.

Many commands of these tests do less than their imports take. One that gets a signal, or
variables that imports may read, is started as a user's is (``conftest.Harness.start``).
"""

import gc
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # as a program, which pytest has not prepared
from generated import little_taken_back, shared_files
from scratch import session_directory

_HANGS_S = 600
#: Variables that decide what is imported, or how Python itself starts.
READ_BY_IMPORTS = {"HARNESS_MONITOR_PATH", "HARNESS_WORKLOAD_PATH", "LC_ALL", "PYTHONUTF8"}
_IMPORTED = (
    *(f"harness.cli.{name}" for name in ("app", "run", "runs", "data", "results")),
    *(f"engines.{name}.engine" for name in ("duckdb", "postgres", "mysql", "rocksdb")),
    *(f"harness.workloads.{name}.workload" for name in ("tpch", "tpcc", "ycsb")),
    *(f"harness.{name}" for name in ("execution.runner", "observers.vtune")),
    *(f"harness.monitors.{name}" for name in ("block", "cxl", "memory_traffic", "pressure")),
    "msgspec",
    "numpy.random",
    "reports.charts",
    "reports.report",
    "rich.progress",
)


def run(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    """Its exit status, output and errors."""
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
    from harness import paths, registry

    for name in ("duckdb", "postgres"):  # commands inherit what their programs print
        registry.engine(name).available({}, paths.engines_prefix())
    with shared_files(Path(sys.argv[1])), little_taken_back():
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
    sys.argv = ["harness", *argv]
    from harness.cli import main

    code: object = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code
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
