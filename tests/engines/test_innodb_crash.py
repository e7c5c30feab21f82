"""A MySQL or MariaDB server that gives up: its reason is told, and not its stack trace."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from patience import eventually

from engines._innodb.engine import before_trace
from harness.errors import RunFailed


def test_the_errors_before_the_stack_trace_are_shown(lab: Any, empty_engines: Any) -> None:
    """The server's own handler writes the trace; the error before it is one that we put there."""
    engine = lab.started("mysql", empty_engines.data("mysql"))
    with engine.log.open("a") as log:
        log.write("2026-01-01T00:00:00.0Z 0 [ERROR] [InnoDB] No space left on device\n")
    os.kill(engine.processes()[0].pid, signal.SIGABRT)
    assert eventually(lambda: not engine.running)
    with pytest.raises(RunFailed) as failed:
        engine.stop()
    assert "No space left on device" in str(failed.value)
    assert "got signal 6" in str(failed.value)
    for advice in ("stack", "0x", "http"):
        assert advice in engine.log.read_text()
        assert advice not in str(failed.value).replace("before the stack trace", "")


def test_a_log_without_a_trace_is_shown_by_its_end(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("[ERROR] unknown variable\n[ERROR] Aborting\n")
    assert before_trace(log, None) is None
