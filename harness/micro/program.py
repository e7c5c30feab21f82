"""Run the native program: spec on stdin, progress on descriptor 3, result on stdout."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.engine import Credentials, Process
from harness.errors import RunFailed
from harness.store import schemas
from harness.supervise.failures import log_tail
from harness.supervise.supervisor import Supervisor

_ASKED = "measure with microbench"

#: Told of each measurement by its name, as it begins.
OnMeasurement = Callable[[str], None]


def run_program(
    argv: Sequence[str],
    spec: Mapping[str, Any],
    supervisor: Supervisor,
    scratch: Path,
    credentials: Credentials | None,
    on_measurement: OnMeasurement,
    scratch_owner: Credentials | None = None,
) -> dict[str, Any]:
    """Its result (schema microbench-result), checked; RunFailed with its own words otherwise.

    No process is left when this returns, however it returns. ``scratch_owner``: whose directory
    ``scratch`` is.
    """
    log = scratch / "microbench.log"
    process = supervisor.spawn(
        argv, log=log, log_owner=scratch_owner, credentials=credentials, pipes=True, progress=True
    )
    try:
        printed = _conversation(process, spec, on_measurement)
        return of_printed(*printed, log_tail(log, scratch_owner))
    finally:
        process.kill()
        for stream in (process.stdin, process.stdout, process.progress):
            with suppress(BrokenPipeError):
                stream.close()
        process.wait()


def _conversation(
    process: Process, spec: Mapping[str, Any], on_measurement: OnMeasurement
) -> tuple[int, bytes]:
    """Its exit status and what it printed.

    Both of its outputs are read at once: a full pipe would stop it.
    """
    printed: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader = threading.Thread(target=lambda: printed.put(process.stdout.read()), daemon=True)
    reader.start()
    with suppress(BrokenPipeError):  # it has ended already: its exit status says why
        process.stdin.write(json.dumps(spec).encode())
        process.stdin.flush()
        process.stdin.close()
    for line in process.progress:
        event = json.loads(line)
        if event["event"] == "measuring":
            on_measurement(event["counts"]["measurement"])
    code = process.wait()
    reader.join()
    return code, printed.get()


def of_printed(code: int, printed: bytes, last_words: str) -> dict[str, Any]:
    """The result that it printed, checked; RunFailed in its own words where it ended otherwise."""
    try:
        document: dict[str, Any] = json.loads(printed)
    except ValueError:
        document = {}
    if code != 0 or document.get("status") != "complete":
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        raise RunFailed(_ASKED, document.get("error") or f"it {how}: {last_words}")
    schemas.validate(document, "microbench-result", "microbench's result")
    return document
