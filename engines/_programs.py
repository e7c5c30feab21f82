"""Programs of an engine's installation, run once on its data."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from engines._timeouts import Timeouts
from harness.engine import (
    EngineContext,
    Process,
)
from harness.errors import RunFailed
from harness.supervise.failures import log_tail
from harness.supervise.user_files import (
    copy_file,
    make_directory,
)


def run_once(
    context: EngineContext, problem: str, argv: Sequence[str], log: Path, stdin: str = ""
) -> None:
    """Run a program as the server's user until it exits; RunFailed with its last lines.

    It is killed when it takes longer than a start of the server may take.
    """
    process = context.processes.spawn(
        argv,
        cwd=context.scratch,
        log=log,
        credentials=context.credentials,
        pipes=bool(stdin),
    )
    writer = threading.Thread(target=_write_stdin, args=(process, stdin), daemon=True)
    if stdin:
        writer.start()
    limit_s = Timeouts.of(context.options).start_s
    try:
        status = process.wait(limit_s)
    except TimeoutError:
        process.kill()
        raise RunFailed(
            problem,
            f"killed: still running after {limit_s:g} s",
            "if it needs more time, raise the engine option start_timeout_s",
        ) from None
    finally:
        if stdin:
            writer.join()
    if status != 0:
        last = log_tail(log, context.credentials)
        raise RunFailed(problem, f"exit status {status}; its last lines:\n{last}")


def compile_java(
    context: EngineContext, title: str, java: str, classpath: str, sources: Sequence[Path]
) -> Path:
    """Compile sources of ours as the engine's user; return the folder of the classes.

    ``java``: the program that will run them, of a JDK.
    """
    folder, classes = context.scratch / "sources", context.scratch / "classes"
    for made in (folder, classes):
        make_directory(made, context.credentials)
    copies = [folder / file.name for file in sources]
    for file, copy in zip(sources, copies, strict=True):
        # That user may not be able to enter the folder that our own sources are in.
        copy_file(file, copy, context.credentials, 0o600)
    compiler = "javac" if java == "java" else str(Path(java).parent / "javac")
    options = ("-J-XX:-UsePerfData", "-nowarn", "-cp", classpath, "-d", str(classes))
    argv = [compiler, *options, *map(str, copies)]
    run_once(context, f"compile {title}", argv, context.scratch / "javac.log")
    return classes


def _write_stdin(process: Process, stdin: str) -> None:
    """Runs in a thread, so that a program that reads nothing does not block the caller."""
    with suppress(BrokenPipeError):  # it exited early: its exit status and log say why
        process.stdin.write(stdin.encode())
        process.stdin.close()
    process.stdout.read()
