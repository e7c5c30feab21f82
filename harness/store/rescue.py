"""Results that their folder does not take: they are stored in the state directory instead.

The disk is full, a quota is reached, the folder was removed or is read-only by now. A result is
then written again after a pause, and at last below ``<state>/rescued``, under the path that it
should have: ``<state>/rescued/home/me/results/runs/<run id>``. The command continues, and exits
with status 1.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path

from harness import paths
from harness.errors import HarnessError, RunFailed
from harness.supervise.own_files import make_own, replacing
from harness.warnings import RunWarning, warn

#: Pauses before a result is written again: others may free space.
PAUSES_S = (1.0, 4.0)

#: What this process has stored in the state directory.
_rescued: list[Path] = []


def any_rescued() -> bool:
    """Return whether a result of this process is not where it belongs."""
    return bool(_rescued)


def rescue_path(path: Path) -> Path:
    """Return where a file or directory is stored that cannot be at ``path``."""
    return _root() / path.absolute().relative_to("/")


def is_rescued(path: Path) -> bool:
    """Return whether it is such a place."""
    return path.absolute().is_relative_to(_root())


def write_result(path: Path, content: bytes, what: str) -> Path:
    """Write a file by :func:`store_result`, with the directories above it; return its path."""

    def write(place: Path) -> None:
        make_own(place.parent)
        with replacing(place) as file:
            file.write(content)

    return store_result(path, write, what)


def store_result(path: Path, write: Callable[[Path], None], what: str) -> Path:
    """Call ``write`` with the path of a result until it is stored; return where it is.

    After OSError or RunFailed it is called again, at last with :func:`rescue_path`; RunFailed
    where that fails, too. Other errors are raised at once. An interruption (Ctrl-C, SIGTERM) is
    raised when the result is stored. ``what``: describes the result in messages.
    """
    pauses = [0.0, *PAUSES_S]
    interrupted: BaseException | None = None
    while True:
        try:
            time.sleep(pauses.pop(0))
            write(path)
            place = path
            break
        except (OSError, RunFailed) as error:
            if not pauses:
                place = _rescue(path, write, what, error)
                break
        except Exception:
            raise
        except BaseException as ended:
            if interrupted is not None:
                raise
            interrupted, pauses = ended, [0.0]
    if is_rescued(place):
        _note(place, what)
    if interrupted is not None:
        raise interrupted
    return place


def _root() -> Path:
    return paths.state_dir() / "rescued"


def _rescue(
    path: Path, write: Callable[[Path], None], what: str, failure: OSError | RunFailed
) -> Path:
    """Write it into the state directory; RunFailed where that fails, or was tried already."""
    place = rescue_path(path)
    failures: list[OSError | HarnessError] = [failure]
    if not is_rescued(path):
        try:
            write(place)
        except (OSError, HarnessError) as error:
            failures.append(error)
        else:
            warn(RunWarning("result-not-stored", "a result cannot be stored", str(failure)))
            return place
    raise RunFailed(
        f"store the result at {path}",
        f"{'; '.join(map(str, failures))}; lost: {what}",
        "free space there, or name another place with --results",
    ) from failure


def _note(place: Path, what: str) -> None:
    _rescued.append(place)
    path = "/" / place.relative_to(_root())
    command = ["cp", place, path]
    if place.is_dir():  # a run: results/runs/<run id>
        command = ["harness", "runs", "import", place.parents[1], "--results", path.parents[1]]
    warn(
        RunWarning(
            "result-rescued",
            "a result is stored in the state directory",
            f"{what}: {place}",
            shlex.join(map(str, command)),
        )
    )
