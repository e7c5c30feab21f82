"""A worker whose output has a line that is no answer: the error quotes it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import cast

import pytest

from engines._json_worker import Worker
from harness.engine import Process
from harness.errors import RunFailed


class ChattyProcess:
    """Stands in for a process that runs on after it has printed a warning where it answers."""

    def __init__(self) -> None:
        self.stdin = io.BytesIO()
        self.stdout = io.BytesIO(b"warning: the code cache is full\n")

    def wait(self, timeout_s: float) -> int:
        raise TimeoutError

    def kill(self) -> None:
        pass


def test_a_line_that_is_no_answer_is_quoted(tmp_path: Path) -> None:
    worker = Worker("worker", cast(Process, ChattyProcess()), tmp_path / "log")

    with pytest.raises(RunFailed) as caught:
        worker.request("ping", timeout_s=60)

    assert "the code cache is full" in caught.value.context
