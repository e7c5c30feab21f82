"""Building a native program from its sources, with its C tests and what only they have."""

import fcntl
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Builds stay there: later sessions compile what has changed, and all workers use the same one.
BUILDS = ROOT / "build" / "tests"
#: `make test-sanitizers`.
SANITIZED = bool(os.environ.get("NATIVE_SANITIZE"))


#: What set-up has compiled, as it is installed.
INSTALLED = ROOT / "build" / "native"


def build(source: str | Path, *more_options: str, sanitized: bool = False) -> Path:
    """The build directory of a folder of sources (a name: in the repository).

    As it is installed, or ``sanitized``: for debugging, with the address and undefined-behaviour
    sanitizers.
    """
    folder = BUILDS / f"{Path(source).name}{'-sanitized' if sanitized else ''}"
    kind = "Debug" if sanitized else "Release"
    options = [f"-DCMAKE_BUILD_TYPE={kind}", f"-DNATIVE_SANITIZE={'ON' if sanitized else 'OFF'}"]
    options += more_options
    BUILDS.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (
            ["cmake", "-S", str(ROOT / source), "-B", str(folder), "-DNATIVE_TESTS=ON", *options],
            ["cmake", "--build", str(folder), "--parallel", "2"],
        ):
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stdout + made.stderr
    return folder
