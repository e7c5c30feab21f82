"""The runs of a command: how many are kept, how long the others take, and what resumes them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import Literal

from harness.errors import interruption
from harness.execution.environment import Environment
from harness.execution.host_lock import working_ns
from harness.execution.run import ResolvedRun
from harness.experiment.preflight import EngineRun
from harness.experiment.profile import Plan
from harness.experiment.run_time import Estimator, load_ns
from harness.progress import Progress
from harness.store.runs import Store, StoredRun
from harness.supervise.user_files import make_own, replacing
from harness.units import NS_PER_S, counted


@dataclass(frozen=True)
class Item:
    """A load or a run that is to do; ``expected_ns``: its estimated duration, None if not known."""

    kind: Literal["load", "run"]
    key: str
    expected_ns: int | None


@dataclass
class TimeLeft:
    """How long items still take: estimates, corrected by how long those so far took here.

    Waiting for the measuring lock is in what they took, and does not shorten what is left.
    """

    to_do: list[Item]
    clock: Callable[[], int] = time.monotonic_ns
    working: Callable[[], int] = working_ns
    _done: list[tuple[Item, int]] = field(default_factory=list)
    _current: tuple[Item, int] | None = None

    @contextmanager
    def doing(self, kind: Literal["load", "run"], key: str) -> Iterator[Callable[[], None]]:
        """An item is under way. Yield what is called at its end: others take as long.

        Not of one that fails, nor of a further attempt.
        """
        found = next((one for one in self.to_do if (one.kind, one.key) == (kind, key)), None)
        item = found or Item(kind, key, None)
        if found is not None:
            self.to_do.remove(found)
        began_ns, self._current = self.clock(), (item, self.working())

        def done() -> None:
            if found is not None:
                self._done.append((item, self.clock() - began_ns))

        try:
            yield done
        finally:
            self._current = None

    def left_ns(self) -> int | None:
        """Of the items to do and the one under way; None where nothing is known of one."""
        each = [self._each_ns(item) for item in list(self.to_do)]
        if (current := self._current) is not None:
            whole = self._each_ns(current[0])
            spent = self.working() - current[1]
            each.append(None if whole is None else max(0, whole - spent))
        known = [one for one in each if one is not None]
        return round(sum(known)) if len(known) == len(each) else None

    def _each_ns(self, item: Item) -> float | None:
        took = [(one.expected_ns, ns) for one, ns in self._done if one.kind == item.kind]
        if item.expected_ns is None:
            return fmean(ns for _, ns in took) if took else None
        both = [(expected, ns) for expected, ns in took if expected]
        factor = sum(ns for _, ns in both) / sum(one for one, _ in both) if both else 1.0
        return item.expected_ns * factor


@dataclass
class Schedule:
    """The runs of a command, as its live view and its end show them.

    ``most_ns``: the time that is left of a budget, None without one. ``resumes``: whether the
    same command keeps the complete runs. ``ends_early``: where results show enough, not all are
    made. ``again``: complete runs of other commands are repeated.
    """

    plan: Plan
    steps: Sequence[ResolvedRun]
    env: Environment
    store: Store
    most_ns: Callable[[], int | None] = lambda: None
    resumes: bool = True
    ends_early: bool = False
    again: bool = False
    kept: list[str] = field(init=False)
    _left: TimeLeft = field(init=False)
    _advance: Callable[[float], None] = field(default=lambda _: None, init=False)

    def __post_init__(self) -> None:
        times = Estimator(self.store.runs())
        self.kept = [step.done.run_id for step in self.steps if step.done]
        self._left = TimeLeft([*self._loads(), *self._runs(times)])

    def _runs(self, times: Estimator) -> Iterator[Item]:
        for step in self.steps:
            if step.done is None and step.runnable:
                time_ = step.run_time(times)
                yield Item("run", step.spec.hash(), time_.duration_ns if time_ else None)

    def _loads(self) -> Iterator[Item]:
        needed = {
            step.dataset_name: step
            for step in self.steps
            if isinstance(step, EngineRun) and step.dataset_name and not step.done
        }
        for name, step in needed.items():
            datasets = self.env.datasets
            if datasets.find(name) is None:
                size = sum(step.needs_bytes.values())
                yield Item("load", name, load_ns(datasets.datasets(), step.spec, size))

    @property
    def progress(self) -> Progress:
        return self.env.progress

    @contextmanager
    def running(self) -> Iterator[None]:
        """Show how far the command is; where it is interrupted, say what resumes it."""
        marker = _marker(self.store, self.plan)
        with suppress(OSError):
            marker.unlink(missing_ok=True)
        try:
            name, total = f"experiment {self.plan.name}", len(self.steps)
            with self.progress.command(name, total, "runs", self.left) as task:
                self._advance = task.advance
                task.advance(len(self.kept))
                yield
        except BaseException as error:
            if (cause := interruption(error)) is not None:
                if self.again and self.resumes and self.kept:
                    with suppress(OSError):
                        make_own(marker.parent)
                        with replacing(marker) as file:
                            file.write("\n".join(self.kept).encode())
                cause.add_note(self._how_to_resume())
                if cause is not error:
                    raise cause from None
            raise

    @contextmanager
    def loading(self, step: EngineRun) -> Iterator[None]:
        """A dataset is loaded, if it is missing."""
        with self._left.doing("load", step.dataset_name) as done:
            yield
            done()

    def run(self, step: ResolvedRun, make: Callable[[], StoredRun]) -> StoredRun:
        """Make a run and report its end in a line."""
        spec = step.spec
        title = f"{spec.workload} {spec.engine} {spec.where}"
        with self.progress.run(title), self._left.doing("run", spec.hash()) as done:
            stored = make()
            status, error = stored.result.status, stored.result.error
            if status != "failed":
                self.kept.append(stored.run_id)
                done()
        self._advance(status != "failed")
        why = f": {error.problem}: {error.context}" if error else ""
        text = self.left()
        self.progress.say(f"{stored.run_id}: {status}{why}{f' ({text})' if text else ''}")
        return stored

    def left(self) -> str:
        """``0:06:40 left``, ``at most 0:06:40 left`` within a budget; empty if not known."""
        left_ns, most_ns = self._left.left_ns(), self.most_ns()
        if left_ns == 0:
            return ""
        known = [ns for ns in (left_ns, most_ns) if ns is not None]
        if not known:
            return ""
        ns = max(0, min(known))
        limited = self.ends_early or (most_ns is not None and min(known) == most_ns)
        return f"{'at most ' if limited else ''}{timedelta(seconds=ns // NS_PER_S)} left"

    def _how_to_resume(self) -> str:
        words = [Path(self.env.argv[0]).name, *self.env.argv[1:]]
        command = shlex.join(word for word in words if word != "--again")
        then = "resumes" if self.resumes else "starts from the beginning"
        verb = "is" if len(self.kept) == 1 else "are"
        return f"{counted(len(self.kept), 'complete run')} {verb} kept; this {then}:\n{command}"


def kept_of_interrupted(store: Store, plan: Plan) -> list[StoredRun]:
    """Return the runs that the interrupted command of the same plan has completed."""
    try:
        run_ids = _marker(store, plan).read_text().splitlines()
    except (OSError, ValueError):
        return []
    return [store.run(run_id) for run_id in run_ids if store.has(run_id)]


def _marker(store: Store, plan: Plan) -> Path:
    return store.root / "interrupted" / plan.hash
