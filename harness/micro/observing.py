"""A second, untimed execution of a suite, each of its configurations under an observer.

In our own program the observer begins while that waits, after all memory was touched: what it
observes is one configuration, with its set-up, its warm-up and its check. fio and ioping are
processes of their own for each configuration: it begins after the file was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from harness.execution.observing import Observing, second_execution
from harness.execution.run import Run
from harness.micro.native import Microbench, loaded, run_program
from harness.micro.protocol import MeasuringProgram, MicroContext
from harness.micro.spec import measurement_name, spec_json
from harness.store.result import Metric
from harness.supervise import workdirs
from harness.warnings import RunWarning


def observe_suite(program: MeasuringProgram, work: MicroContext, record: Run, name: str) -> None:
    """Execute the suite again under one observer."""
    workplace = partial(workdirs.temporary, credentials=work.env.credentials)
    with second_execution(record, name, workplace) as (observing, folder):
        execution = _Execution(lambda index: observing(folder / str(index)))
        if isinstance(program, Microbench):
            execution.run(program, work)
        else:
            program.measure(replace(work, repeats=1, checkpoint=None, around=execution.around))
        record.metrics += execution.metrics()
        record.warnings += execution.warnings


@dataclass
class _Execution:
    """``observed``: of each configuration, by labels; ``warnings``: theirs."""

    observing: Callable[[int], Observing]
    observed: list[tuple[Mapping[str, str], Observing]] = field(default_factory=list)
    warnings: list[RunWarning] = field(default_factory=list)

    @contextmanager
    def around(self, measurement: str, configuration: str) -> Iterator[None]:
        """Observe a configuration."""
        one = self.observing(len(self.observed))
        with one.running():
            one.begin()
            yield
        labels = {"measurement": measurement, "configuration": configuration}
        self.observed.append((labels, one))

    def run(self, program: Microbench, work: MicroContext) -> None:
        """The first configuration is measured twice: before it is observed memory is touched."""
        measurements = program.scaled.measurements
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
                    one = measurements[len(self.observed)]
                    under_way.enter_context(self.around(one.name, one.configuration))

            run_program(executable, spec, work, receive)

    def metrics(self) -> list[Metric]:
        """Return what each configuration's observer found, and collect the warnings."""
        found = []
        for labels, one in self.observed:
            found += [replace(m, labels={**m.labels, **labels}) for m in one.result()]
            self.warnings += [w for w in one.warnings if w not in self.warnings]
        return found
