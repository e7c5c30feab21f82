"""Run the native program: spec on stdin, progress on descriptor 3, result on stdout."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.engine import Credentials
from harness.errors import RunFailed
from harness.supervise.conversation import converse
from harness.supervise.failures import ending, log_tail
from harness.supervise.supervisor import Supervisor


def run_program(
    argv: Sequence[str],
    spec: Mapping[str, Any],
    supervisor: Supervisor,
    scratch: Path,
    credentials: Credentials | None,
    on_event: Callable[[str, dict[str, Any]], None],
    scratch_owner: Credentials | None = None,
) -> dict[str, Any]:
    """Its result (schema microbench-result); RunFailed in its own words otherwise.

    ``on_event``: receives ``measuring`` as a measurement begins and ``measured`` with the result
    of that alone; the next one begins when it returns.
    ``scratch_owner``: whose directory ``scratch`` is.
    """
    log = scratch / "microbench.log"
    process = supervisor.spawn(
        argv, log=log, log_owner=scratch_owner, credentials=credentials, pipes=True, progress=True
    )

    def progress(line: bytes) -> bool:
        event = json.loads(line)
        on_event(event["event"], event["counts"])
        return bool(event["event"] == "measured")

    code, printed = converse(process, json.dumps(spec), progress)
    try:
        document: dict[str, Any] = json.loads(printed)
    except ValueError:
        document = {}
    if code != 0 or document.get("status") != "complete":
        found = document.get("error") or f"it {ending(code)}: {log_tail(log, scratch_owner)}"
        raise RunFailed("measure with microbench", found)
    return document
