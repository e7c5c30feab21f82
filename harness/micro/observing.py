"""A second, untimed execution of a suite, each of its configurations under an observer.

The observer begins while the program waits, after all memory was touched: what it observes is one
configuration, with its set-up, its warm-up and its check.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from harness import registry
from harness.errors import as_failure, interruption
from harness.execution.observing import Observing
from harness.execution.run import Run
from harness.micro.native import Microbench, loaded, run_program
from harness.micro.protocol import MicroContext
from harness.micro.spec import measurement_name, spec_json
from harness.store.result import Metric
from harness.supervise import workdirs
from harness.warnings import RunWarning


def observe_suite(program: Microbench, work: MicroContext, record: Run, name: str) -> None:
    """Execute the suite once more under one observer. A failure is a warning: the result stands."""
    env, observer = work.env, registry.named("observer", name, registry.observers())
    folder = record.folder.directory / "observers" / name.replace(":", "-")
    shutil.rmtree(folder, ignore_errors=True)  # of an interrupted attempt

    def observing(index: int) -> Observing:
        return Observing(
            observer,
            env.supervisor,
            folder / str(index),
            env.supervisor.journal,
            env.credentials,
            lambda: workdirs.temporary(credentials=env.credentials),
        )

    env.progress.note(f"second execution under {name}")
    execution = _Execution(program, observing)
    try:
        execution.run(work)
        record.metrics += execution.metrics()
    except Exception as error:
        if interruption(error) is not None:
            raise
        failure = as_failure(error, f"observer {name}")
        record.warnings.append(
            RunWarning("observer-failed", failure.problem, failure.context, failure.hint)
        )
    record.warnings += execution.warnings


@dataclass
class _Execution:
    """``observed``: those that have ended, one a configuration; ``warnings``: theirs."""

    program: Microbench
    observing: Callable[[int], Observing]
    observed: list[Observing] = field(default_factory=list)
    warnings: list[RunWarning] = field(default_factory=list)

    def run(self, work: MicroContext) -> None:
        """The first configuration is measured twice: before it is observed memory is touched."""
        program, measurements = self.program, self.program.scaled.measurements
        spec = spec_json(
            measurements, work.tier, work.directory, program.capacity, seed=work.seed, repeats=1
        )
        first = {**spec["measurements"][0], "name": measurement_name(0, 1)}
        spec["measurements"].insert(0, first)
        with ExitStack() as under_way, loaded(spec, work, program.scaled) as executable:

            def receive(event: str, counts: dict[str, Any]) -> None:
                if event != "measured":
                    return
                under_way.close()
                if len(self.observed) < len(measurements):
                    one = self.observing(len(self.observed))
                    under_way.enter_context(one.running())
                    one.begin()
                    self.observed.append(one)

            run_program(executable, spec, work, receive)

    def metrics(self) -> list[Metric]:
        """Return what each configuration's observer found, and collect the warnings."""
        found = []
        for one, measurement in zip(self.observed, self.program.scaled.measurements, strict=True):
            labels = {"measurement": measurement.name, "configuration": measurement.configuration}
            found += [replace(m, labels={**m.labels, **labels}) for m in one.result()]
            self.warnings += [w for w in one.warnings if w not in self.warnings]
        return found
