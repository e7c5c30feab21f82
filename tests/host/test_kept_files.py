"""Files of /proc that stay open: what is read is of now, and of the process that was meant."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.host.threads import KeptFiles


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_kept_file_is_read_as_it_is_now(tmp_path: Path) -> None:
    path, files = tmp_path / "file", KeptFiles()
    for text in ("one", "two"):
        path.write_text(text)
        assert files.read(str(path)) == text
    files.close()


def test_an_ended_process_is_an_error_and_leaves_nothing_open() -> None:
    before, files = descriptors(), KeptFiles()
    with subprocess.Popen(["sleep", "1000"]) as process:
        path = f"/proc/{process.pid}/schedstat"
        assert files.read(path)
        process.kill()
    for error in (ProcessLookupError, FileNotFoundError):  # kept, then opened again
        with pytest.raises(error):
            files.read(path)
    assert descriptors() == before
