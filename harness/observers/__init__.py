"""Programs that observe a second, untimed execution of a run: they would distort a timed one.

Each file of this folder has ``OBSERVERS``, the observers that one program offers. The program is
the user's; docs/observers.md says where each is looked for.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.store.result import Metric
from harness.supervise.credentials import refuse_exchangeable


@dataclass(frozen=True)
class ObservedNumber:
    """One number of a summary. ``path``: its names from the outermost, since names repeat."""

    path: tuple[str, ...]
    value: float


class Observer(ABC):
    """One kind of observation. Command lines are complete; ``tree`` does not exist before."""

    #: Text in the program's output as soon as it collects.
    started: str
    #: Whether its collection may open the programs and libraries of observed processes.
    reads_programs: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Return its name in ``--observe``."""

    @property
    def reports(self) -> Sequence[str]:
        """Return names of the files that ``finalise`` writes to its tree and ``figures`` reads."""
        return ()

    @abstractmethod
    def program(self) -> Path:
        """Return the program; UsageError where it is not installed."""

    @abstractmethod
    def collect(self, tree: Path) -> Sequence[str]:
        """Observe the whole host until it is stopped, and write to ``tree``."""

    def stop(self, tree: Path) -> Sequence[str]:
        """Stop it; empty: SIGINT does."""
        return ()

    def pause(self, tree: Path) -> Sequence[str]:
        """Stop collecting until it is resumed: between queries, and before and after a window.

        Empty: it cannot be paused.
        """
        return ()

    def resume(self, tree: Path) -> Sequence[str]:
        return ()

    def finalise(self, tree: Path) -> Sequence[Sequence[str]]:
        """Return what turns ``tree`` into reports, once the engine has stopped.

        It opens programs of the observed processes, so it runs as the servers' user.
        """
        return ()

    @abstractmethod
    def figures(self, tree: Path, output: str) -> list[ObservedNumber]:
        """Return the summary's figures; ``output``: what the program printed. ValueError if it is
        malformed.
        """


def find_program(title: str, variable: str, below: Sequence[str], names: Sequence[str]) -> Path:
    """``$variable/below`` for an installation that the user names, else a name on the PATH.

    As root, UsageError where another user could exchange it, or its settings in the home directory.
    """
    program = _installed(title, variable, below, names)
    if os.geteuid() == 0:
        refuse_exchangeable(program.resolve().parent, title, variable)
        if (settings := home()) is not None:
            refuse_exchangeable(settings.resolve(), f"settings of {title}", "HOME")
    return program


def home() -> Path | None:
    """The user's, where programs keep settings and pmu-tools its event tables; None without it."""
    folder = os.environ.get("HOME", "")
    return Path(folder) if folder and Path(folder).is_dir() else None


def _installed(title: str, variable: str, below: Sequence[str], names: Sequence[str]) -> Path:
    if chosen := os.environ.get(variable):
        candidates = [Path(chosen) / folder for folder in below]
        program = next((path for path in candidates if os.access(path, os.X_OK)), None)
        if program is None:
            raise UsageError(
                f"{title} in {variable}={chosen}",
                f"there is no {' or '.join(below)} in it",
                f"set {variable} to the folder of the installation",
            )
        return program
    for name in names:
        if on_path := shutil.which(name):
            return Path(on_path)
    raise UsageError(
        f"{title} is not installed",
        f"{variable} is not set, and the PATH has no {' or '.join(names)}",
        f"install it and set {variable} to its folder",
    )


def metrics(observer: Observer, figures: Sequence[ObservedNumber]) -> list[Metric]:
    """``observed_value`` by path; a path that repeats is numbered.

    Names of files are the servers' user's to choose: what cannot be printed is replaced.
    """
    seen: dict[str, int] = {}
    result = []
    for figure in figures:
        path = "".join(c if c.isprintable() else "?" for c in " / ".join(figure.path))
        seen[path] = seen.get(path, 0) + 1
        unique = path if seen[path] == 1 else f"{path} #{seen[path]}"
        labels = {"observer": observer.name, "path": unique}
        result.append(Metric("observed_value", "1", "none", labels, value=figure.value))
    return result
