"""Places where the harness keeps things outside the results: the one list of such places.

=====================  ======================================  =============================
what                   as root                                 otherwise
=====================  ======================================  =============================
data, ``HARNESS_DATA`` /var/lib/tierbench                      ~/.local/share/tierbench
engines                <data>/engines                          <data>/engines
state                  <data>/state                            ~/.local/state/tierbench
=====================  ======================================  =============================

Root's short-lived work directories lie in <data>/run, those of others elsewhere
(harness.supervise.workdirs).

``HARNESS_ENGINES`` and ``HARNESS_STATE`` override the latter two. As root nothing
is kept under /root: the unprivileged user that servers run as cannot enter it.
"""

from __future__ import annotations

import os
from pathlib import Path

import harness
from harness.errors import UsageError


def data_folder(name: str) -> Path:
    """The folder ``profiles``, ``playbooks`` or ``inventory`` of this installation.

    The build copies them to ``harness/_data``; in a source tree they lie next to the package.
    """
    folders = [Path(place) for place in harness.__path__]
    candidates = [folder / "_data" / name for folder in folders if (folder / "_data").is_dir()]
    candidates += [folder.parent / name for folder in folders if (folder / "paths.py").is_file()]
    return next((path for path in candidates if path.is_dir()), candidates[-1])


def extension_folders(variable: str) -> list[Path]:
    """Folders of the user's own engines, workloads or monitors, which the variable names."""
    names = list(filter(None, os.environ.get(variable, "").split(":")))
    for name in names:
        if not Path(name).is_dir():
            problem = f"{variable}={':'.join(names)}"
            raise UsageError(problem, f"{name} is not a folder", "correct the path")
    return [Path(name).resolve() for name in names]


def data_root() -> Path:
    """Source data, datasets and the default ``ssd`` tier lie below it."""
    if given := os.environ.get("HARNESS_DATA"):
        return Path(given).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/tierbench")
    base = os.environ.get("XDG_DATA_HOME") or _home() / ".local" / "share"
    return Path(base) / "tierbench"


def config_dir() -> Path | None:
    """Directory of the user's host file; None for a user without a home."""
    if given := os.environ.get("XDG_CONFIG_HOME"):
        return Path(given) / "harness"
    try:
        return Path.home() / ".config" / "harness"
    except RuntimeError:
        return None


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise UsageError(
            "a place for data and state",
            f"user {os.geteuid()} has no home directory: no entry in passwd, and HOME is not set",
            "export HARNESS_DATA=DIRECTORY",
        ) from error


def engines_prefix() -> Path:
    """The private prefix of engine installations."""
    if given := os.environ.get("HARNESS_ENGINES"):
        return Path(given).absolute()
    return data_root() / "engines"


def state_dir() -> Path:
    """Journals of what to undo (see harness.supervise)."""
    if given := os.environ.get("HARNESS_STATE"):
        return Path(given).absolute()
    if os.geteuid() == 0 or "HARNESS_DATA" in os.environ:
        return data_root() / "state"
    base = os.environ.get("XDG_STATE_HOME") or _home() / ".local" / "state"
    return Path(base) / "tierbench"


def default_tier() -> Path:
    """The ``ssd`` tier where no host file names one."""
    return data_root() / "tiers" / "ssd"


def golden_root(data_dir: Path | None) -> Path:
    """Loaded databases, which are copied into placements."""
    return (data_dir or data_root()) / "golden"


def source_root(data_dir: Path | None) -> Path:
    """Generated source files of the workloads."""
    return (data_dir or data_root()) / "source"


def answers_root() -> Path:
    """Reference answers computed for workloads' checks, kept by scale and generator."""
    return data_root() / "answers"


def results_root(given: Path | None) -> Path:
    """``--results``, else ``$HARNESS_RESULTS``, else ./results."""
    return Path(given or os.environ.get("HARNESS_RESULTS") or "results").absolute()
