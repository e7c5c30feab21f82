"""The runs of a command: how many are kept, how long the others take, and what resumes them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from harness.errors import interruption
from harness.execution.data import was_not_loaded
from harness.execution.engine_run import EngineRun
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_time import Estimator, Item, TimeLeft
from harness.experiment.profile import Plan
from harness.progress import Progress
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.supervise.own_files import make_own, replacing
from harness.units import NS_PER_S, counted


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
    complete: list[str] = field(init=False)
    _left: TimeLeft = field(init=False)
    _advance: Callable[[float], None] = field(default=lambda _: None, init=False)

    def __post_init__(self) -> None:
        datasets = self.env.datasets
        times = Estimator(self.store.runs(), datasets.datasets())
        self.complete = [step.done.run_id for step in self.steps if step.done]
        needed = {
            step.dataset_name: step
            for step in self.steps
            if isinstance(step, EngineRun) and step.dataset_name and not step.done
        }
        loads = [
            Item("load", name, times.load_ns(step))
            for name, step in needed.items()
            if datasets.find(name) is None
        ]
        runs = [
            Item("run", step.spec.hash(), times.total_ns([step]))
            for step in self.steps
            if step.done is None and step.runnable
        ]
        self._left = TimeLeft([*loads, *runs])

    @property
    def progress(self) -> Progress:
        return self.env.progress

    @contextmanager
    def running(self) -> Iterator[None]:
        """Show how far the command is; where it is interrupted, say what resumes it."""
        marker = _marker(self.store, self.plan, self.env)
        with suppress(OSError):
            marker.unlink(missing_ok=True)
        try:
            name, total = f"experiment {self.plan.name}", len(self.steps)
            with self.progress.command(name, total, "runs", self.left) as task:
                self._advance = task.advance
                task.advance(len(self.complete))
                yield
        except BaseException as error:
            if (cause := interruption(error)) is not None:
                if self.again and self.resumes and self.complete:
                    with suppress(OSError):
                        make_own(marker.parent)
                        with replacing(marker) as file:
                            file.write("\n".join(self.complete).encode())
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
                self.complete.append(stored.run_id)
                done()
        self._advance(status != "failed" and len(self.complete) <= len(self.steps))
        why = f": {error.problem}: {error.context}" if error else ""
        if was_not_loaded(step, self.env):
            why = ": its data were not loaded, see above"
        text = self.left()
        self.progress.say(f"{stored.run_id}: {status}{why}{f' ({text})' if text else ''}")
        return stored

    def left(self) -> str:
        """``0:06:40 left``, ``at most 0:06:40 left`` within a budget; empty if not known."""
        left_ns, most_ns = self._left.left_ns(), self.most_ns()
        if left_ns == 0:
            return ""
        bounds = [ns for ns in (left_ns, most_ns) if ns is not None]
        if not bounds:
            return ""
        ns = max(0, min(bounds))
        limited = self.ends_early or (most_ns is not None and min(bounds) == most_ns)
        return f"{'at most ' if limited else ''}{timedelta(seconds=ns // NS_PER_S)} left"

    def _how_to_resume(self) -> str:
        words = [Path(self.env.argv[0]).name, *self.env.argv[1:]]
        command = shlex.join(word for word in words if word != "--again")
        then = "resumes" if self.resumes else "starts from the beginning"
        verb = "is" if len(self.complete) == 1 else "are"
        return f"{counted(len(self.complete), 'complete run')} {verb} kept; this {then}:\n{command}"


def kept_of_interrupted(store: Store, plan: Plan, env: Environment) -> list[StoredRun]:
    """Return the runs that the interrupted command of the same plan has completed on this host."""
    try:
        run_ids = _marker(store, plan, env).read_text().splitlines()
    except (OSError, ValueError):
        return []
    return [store.run(run_id) for run_id in run_ids if store.has(run_id)]


def _marker(store: Store, plan: Plan, env: Environment) -> Path:
    return store.root / "interrupted" / f"{plan.hash}-{env.host.host_id}"
