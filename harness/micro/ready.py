"""What of the programs that measure suites is here: for ``harness doctor``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

from harness import native_programs
from harness.errors import RunFailed, UsageError
from harness.micro import fio, ioping
from harness.micro.program import of_printed

#: One load from one page: the program tells of its processor in every result.
_LEAST = {
    "schema": 2,
    "seed": 1,
    "targets": {"page": {"kind": "dram", "pages": "base", "size_bytes": 4096}},
    "measurements": [
        {
            "name": "load",
            "repeats": 1,
            "warm_up_ns": 0,
            "duration_ns": None,
            "jobs": [
                {
                    "name": "load",
                    "kind": "throughput",
                    "target": "page",
                    "threads": 1,
                    "operation": "load",
                    "access_bytes": 64,
                    "pattern": "sequential",
                    "range_bytes": 4096,
                    "operations": 1,
                }
            ],
        }
    ],
}
_TIMEOUT_S = 60
#: Of one family of processors, from the widest on; the other one has its own alone.
_X86 = ("avx512", "avx2", "sse2")


def programs() -> dict[str, Any]:
    """Each program that measures suites: its version, or what is missing.

    ``{microbench: {version, program, interface, wanted_interface, instructions: {name: bool},
    flushes: [name], missing}, fio: {version, missing}, ioping: {version, missing}}``
    """
    return {
        "microbench": _microbench(),
        "fio": _version(fio.version),
        "ioping": _version(ioping.version),
    }


def _version(find: Callable[[], str]) -> dict[str, Any]:
    try:
        return {"version": find(), "missing": None}
    except UsageError as error:
        return {"version": None, "missing": f"{error.context}; {error.hint}"}


def _microbench() -> dict[str, Any]:
    told: dict[str, Any] = {
        "version": None,
        "program": None,
        "interface": native_programs.microbench_interface(),
        "wanted_interface": native_programs.MICROBENCH_INTERFACE,
        "instructions": {},
        "flushes": [],
        "missing": None,
    }
    try:
        program = native_programs.microbench_program()
        told["program"] = str(program)
        done = subprocess.run(
            [program, "-"],
            input=json.dumps(_LEAST).encode(),
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        result = of_printed(done.returncode, done.stdout, done.stderr.decode(errors="replace"))
    except (UsageError, RunFailed) as error:
        return told | {"missing": f"{error.context}{'; ' * bool(error.hint)}{error.hint}"}
    except (OSError, subprocess.TimeoutExpired) as error:
        return told | {"missing": str(error)}
    has = result["cpu"]["isa"]
    names = _X86 if set(has) & set(_X86) else has
    return told | {
        "version": result["version"],
        "instructions": {name: name in has for name in names},
        "flushes": [name for name in result["cpu"]["flush"] if name != "none"],
    }
