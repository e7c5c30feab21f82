"""Other people's programs on a tier: found, started under the supervisor, heard to the end."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from harness.errors import RunFailed, UsageError
from harness.micro.measured import Workplace
from harness.supervise.failures import log_tail

_VERSION = re.compile(r"\d+(?:\.\d+)+")


def require(name: str, arguments: Sequence[str], at_least: tuple[int, ...] = ()) -> str:
    """Its version, as ``name arguments`` tells it; UsageError where it is missing or older.

    The packages are Debian's: each is called as its program.
    """
    asked = f"measure with {name}"
    path = shutil.which(name)
    if path is None:
        raise UsageError(
            asked, f"{name} is not installed", f"install it (Debian: sudo apt install {name})"
        )
    done = subprocess.run(
        [path, *arguments], capture_output=True, text=True, check=False, timeout=30
    )
    told = _VERSION.search(done.stdout + done.stderr)
    version = told.group() if told else ""
    if tuple(map(int, version.split(".") if version else ())) < at_least:
        wanted = ".".join(map(str, at_least))
        raise UsageError(
            asked, f"{path} is version {version or 'unknown'}", f"install {wanted} or later"
        )
    return version


def run(work: Workplace, argv: Sequence[str], stdin: str = "") -> str:
    """What it prints, started in the run's directory as the unprivileged user.

    RunFailed with its last words where it fails; it is dead when this returns, whatever
    happens.
    """
    log = work.scratch / f"{argv[0]}-{uuid.uuid4().hex}.log"
    process = work.env.supervisor.spawn(
        argv, cwd=work.directory, log=log, credentials=work.env.credentials, pipes=True
    )
    try:
        with suppress(BrokenPipeError):  # it has ended already: its status tells why
            process.stdin.write(stdin.encode())
            process.stdin.flush()
            process.stdin.close()
        printed: bytes = process.stdout.read()
        code = process.wait()
    finally:
        process.kill()
        process.stdout.close()
    if code != 0:
        raise RunFailed(shlex.join(argv), _last_words(code, printed.decode(errors="replace"), log))
    log.unlink(missing_ok=True)
    return printed.decode()


def _last_words(code: int, printed: str, log: Path) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
    said = [line for line in printed.splitlines() if line.startswith(("fio:", "ioping:"))]
    return f"it {how}: {'; '.join(said[-3:]) or log_tail(log)}"
