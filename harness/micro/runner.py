"""One run of a suite on a tier: checked, measured, stored.

Nothing is loaded, restored or kept: what a suite measures is made by the program itself. An
interrupted run keeps the configurations and repeats that were measured, and is resumed after them.

A second, untimed execution of a suite, each of its configurations under an observer.

In our own program the observer begins while that waits, after all memory was touched: what it
observes is one configuration, with its set-up, its warm-up and its check. fio and ioping are
processes of their own for each configuration: it begins after the file was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from harness import registry
from harness.errors import HostLacksError, UsageError, nearest
from harness.execution.environment import Environment, work_directory
from harness.execution.observing import Observing, check_observers, second_execution
from harness.execution.resolved_run import ResolvedRun, host_conditions, host_state
from harness.execution.run import Run
from harness.execution.run_monitors import check_monitors
from harness.experiment.placement import parse_placement
from harness.experiment.profile import Plan
from harness.micro import native
from harness.micro.fio import Fio
from harness.micro.host_capacity import variables_on
from harness.micro.host_suite import HostSuite
from harness.micro.ioping import Ioping
from harness.micro.keys import MicroParams
from harness.micro.model import Suite
from harness.micro.native import Microbench, loaded, run_program
from harness.micro.protocol import MeasuringProgram, MicroContext, Planned, TrafficReader
from harness.micro.spec import measurement_name, spec_json
from harness.micro.suite import suite_of
from harness.models.tier import refuse_modelled
from harness.monitors import MonitorContext
from harness.monitors.dimm_media import DimmMediaMonitor, MediaReader
from harness.store.checkpoint import Attempt
from harness.store.documents import attributes
from harness.store.result import Metric, Program
from harness.store.run_store import RunFolder, Store
from harness.store.runs import StoredRun
from harness.store.spec import MICRO, Json, JsonObject, RunSpec, content_hash
from harness.supervise import workdirs
from harness.supervise.process import descendants
from harness.tiers.linux.model import DIRECTORY_KINDS, Tier
from harness.units import NS_PER_S
from harness.warnings import RunWarning
from harness.yamlfile import YamlDocument

_OTHERS: Mapping[str, type[Fio | Ioping]] = {program.workload: program for program in (Fio, Ioping)}
#: What our own program measures of a suite that another program measures.
_NO_SUITE = HostSuite((), ())
#: Tiers that a suite's ``block`` is for: the kernel's block layer is what an engine meets there.
_BLOCK_KINDS = ("block", "sector", "fs-nodax")
#: Where bytes may be those of Optane modules, whose media count.
_PMEM_KINDS = ("fsdax", "devdax", "sector", "fs-nodax")


@dataclass(frozen=True)
class SuiteRequest:
    """A request for a run of a suite. ``documents``: the suite's files, parsed.

    ``repeats``: None for the suite's own. ``overwrite``: the content of a raw device may go.
    """

    suite: str
    documents: Sequence[YamlDocument]
    tier: str
    params: Mapping[str, str] = field(default_factory=dict)
    repeats: int | None = None
    seed: int = 0
    emulate: tuple[str, ...] = ()
    overwrite: bool = False
    monitors: tuple[str, ...] = ()
    no_monitors: tuple[str, ...] = ()
    observe: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ResolvedSuite(ResolvedRun):
    """A run of a suite that can be made: everything checked, nothing touched.

    ``host_suite``: of our own program; ``cpus``: that this may use, empty for all.
    """

    request: SuiteRequest
    suite: Suite
    tier: Tier
    program: MeasuringProgram
    host_suite: HostSuite = _NO_SUITE
    cpus: Sequence[int] = ()
    runnable: ClassVar[bool] = True

    @property
    def repeats(self) -> int:
        """Return the number of samples of each configuration."""
        return self.request.repeats or self.suite.repeats

    @property
    def planned(self) -> Planned:
        """Return what will be measured, and how long it takes."""
        return self.program.planned(self.repeats, self.tier)

    @property
    def details(self) -> Mapping[str, Json]:
        planned = self.planned
        measuring_ns, setup_ns = planned.measuring_ns, planned.setup_ns
        return {
            "suite": self.suite.name,
            "tier": self.tier.name,
            "program": self.program.name,
            "repeats": self.repeats,
            "measuring_s": None if measuring_ns is None else measuring_ns / NS_PER_S,
            "setup_s": None if setup_ns is None else setup_ns / NS_PER_S,
            "ended_by_a_count": planned.counted,
            "configurations": [
                configuration.configuration for configuration in planned.configurations
            ],
            "warnings": [warning.to_json() for warning in self.host_suite.warnings],
        }

    @property
    def planned_ns(self) -> int:
        return self.planned.known_ns

    def conditions(self, env: Environment) -> JsonObject:
        program = self.program.executable
        return {
            **host_conditions([self.tier], self.cpus, env),
            **host_state(env),
            "program": [program, Path(program).stat().st_mtime_ns] if program else None,
            "suite": content_hash(
                [measurement.identity for measurement in self.host_suite.measurements]
            ),
        }

    def run(self, env: Environment, store: Store, attempt: Attempt) -> StoredRun:
        program = self.program
        record = Run(
            self.spec,
            env,
            attempt,
            [self.tier],
            pinned=bool(self.host_suite.measurements),  # fio and ioping pin no thread
            warnings=list(self.host_suite.warnings),
            artifacts={"suite": self._artifact()},
        )
        context = MonitorContext(
            lambda: [process.id for process in descendants(env.supervisor.pid)],
            lambda: None,
            [self.tier],
            io_trace=lambda: None,
        )
        with record.storing(store), record.measuring():
            with self._workplace(env, record.folder) as work, record.monitored(context) as started:
                traffic = TrafficReader.of(started, self.tier)
                outcome = program.measure(replace(work, traffic=traffic))
            record.program = Program(program.name, *outcome.program)
            record.add(outcome)
            record.configurations = outcome.configurations
            for name in self.spec.observe:
                with self._workplace(env, record.folder) as work:
                    observe_suite(program, work, record, name)
        return record.stored

    def _artifact(self) -> dict[str, Any]:
        """Return the suite as requested, so that the run can be repeated from what is stored."""
        return {
            **attributes(self.suite, "name", "description", "published", "documents"),
            "configurations": [
                measurement.configuration for measurement in self.host_suite.measurements
            ],
        }

    @contextmanager
    def _workplace(self, env: Environment, run: RunFolder) -> Iterator[MicroContext]:
        tier, seed = self.tier, self.request.seed
        with ExitStack() as stack:
            scratch, directory = stack.enter_context(env.scratch()), None
            if tier.facts.kind in DIRECTORY_KINDS:
                place = work_directory(tier, run.run_id, "data")
                directory = stack.enter_context(env.directory(place))
            excluded = DimmMediaMonitor.name in self.spec.no_monitors
            on_modules = tier.facts.kind in _PMEM_KINDS and not excluded
            yield MicroContext(
                tier,
                env,
                directory,
                scratch,
                seed,
                self.repeats,
                run.checkpoint,
                MediaReader.of(tier) if on_modules else None,
            )


# Preparation -------------------------------------------------------------------


def suite_plan(
    requests: Sequence[SuiteRequest], env: Environment
) -> tuple[Plan, list[ResolvedSuite]]:
    """Plan a suite on each tier as one experiment; every request is checked first."""
    suites = [prepare(request, env) for request in requests]
    for resolved in suites:
        check_monitors(resolved.spec)
        check_observers(resolved.spec)
    suite = suites[0].suite
    plan = Plan(
        f"micro-{suite.name}", suite.description, tuple(resolved.spec for resolved in suites)
    )
    return plan, suites


def prepare(request: SuiteRequest, env: Environment) -> ResolvedSuite:
    """Check a run; UsageError for the first thing that cannot work."""
    tier = _tier(request.tier, env)
    refuse_modelled(f"suite {request.suite}", tier.name, env.tiers)
    other = _on_tier(request, tier)
    given, _ = MicroParams.from_text(request.params)
    limits = MicroParams.from_mapping({} if other else given)
    variables = variables_on(tier, env.memory_bytes, limits)
    suite = suite_of(request.suite, list(request.documents), variables)
    if other is None:
        microbench = native.prepare(suite, tier, env, limits, request.overwrite)
        cpus = (*microbench.capacity.near, *microbench.capacity.far)
        return _resolved(request, suite, tier, microbench, microbench.host_suite, cpus)
    program = _kind(other["program"]).from_mapping({**other.get("params", {}), **given})
    program.check(tier)
    return _resolved(request, suite, tier, program)


def _resolved(
    request: SuiteRequest,
    suite: Suite,
    tier: Tier,
    program: MeasuringProgram,
    host_suite: HostSuite = _NO_SUITE,
    cpus: Sequence[int] = (),
) -> ResolvedSuite:
    spec = RunSpec(
        workload=MICRO,
        engine=program.name,
        placement=parse_placement(f"data={tier.name}"),
        params={
            "suite": suite.name,
            "suite_hash": content_hash(dict(suite.documents)),
            "repeats": request.repeats or suite.repeats,
            "overwrite": request.overwrite,
            "requested": dict(request.params),
            "configurations": len(host_suite.measurements) or None,
            **program.in_spec,
        },
        emulate=request.emulate,
        seed=request.seed,
        monitors=request.monitors,
        no_monitors=request.no_monitors,
        observe=request.observe,
    )
    return ResolvedSuite(
        spec=spec,
        request=request,
        suite=suite,
        tier=tier,
        program=program,
        host_suite=host_suite,
        cpus=cpus,
    )


def parameter_names(request: SuiteRequest, env: Environment) -> Sequence[str]:
    """Return the names that ``-p`` may set of the program for a suite on its tier."""
    other = _on_tier(request, _tier(request.tier, env))
    return tuple((_kind(other["program"]) if other else MicroParams).declared())


def other_program(suite: Suite) -> MeasuringProgram | None:
    """Return the program of a suite with its parameters; None for our own."""
    if suite.program == native.NAME:
        return None
    return _kind(suite.program).from_mapping(suite.params)


def _on_tier(request: SuiteRequest, tier: Tier) -> Mapping[str, Any] | None:
    """Return ``{program, params}`` if another program measures this suite on this tier."""
    (first, *more) = [document.value for document in request.documents]
    on_blocks = tier.facts.kind in _BLOCK_KINDS
    if more and on_blocks and any("block" in document.value for document in request.documents):
        raise UsageError(
            f"suite {request.suite} on tier {tier.name!r}",
            "on a block device its files are measured by other programs, each by its own",
            f"name one of them: {request.suite}/{Path(request.documents[0].path).stem} …",
        )
    if more or "schema" not in first:  # PerMA-Bench's
        return None
    return first if "program" in first else first.get("block") if on_blocks else None


def _kind(program: str) -> type[Fio | Ioping]:
    return registry.named("program", program, _OTHERS)


def _tier(name: str, env: Environment) -> Tier:
    if name in env.tiers:
        return env.tiers[name]
    names = sorted(env.tiers)
    raise HostLacksError(
        f"tier {name!r}",
        f"there is no such tier{nearest(name, names)}",
        f"tiers here: {', '.join(names) or 'none'} (harness doctor); --emulate {name} lets a tmpfs "
        "stand in and marks its numbers",
    )


def prepared_again(original: StoredRun, env: Environment) -> ResolvedSuite:
    """Prepare the same suite on the same tier again, from what is stored of it."""
    stored_suite = original.artifact("suite")
    if stored_suite is None:
        raise UsageError(
            f"repeat {original.run_id}", "its suite is not stored", "run the suite again"
        )
    spec = original.spec
    requested, repeats = spec.params.get("requested"), spec.params.get("repeats")
    if not (spec.placement and isinstance(requested, Mapping) and isinstance(repeats, int)):
        raise UsageError(f"repeat {original.run_id}", "its spec is not that of a suite")
    request = SuiteRequest(
        suite=stored_suite["name"],
        documents=[
            YamlDocument(path, value, {}) for path, value in stored_suite["documents"].items()
        ],
        tier=spec.placement.data,
        params={name: str(text) for name, text in requested.items()},
        repeats=repeats,
        seed=spec.seed,
        emulate=spec.emulate,
        overwrite=bool(spec.params.get("overwrite")),
        monitors=spec.monitors,
        no_monitors=spec.no_monitors,
        observe=spec.observe,
    )
    return prepare(request, env)


def observe_suite(program: MeasuringProgram, work: MicroContext, record: Run, name: str) -> None:
    """Execute the suite again under one observer."""
    workplace = partial(workdirs.temporary, credentials=work.env.credentials)
    with second_execution(record, name, workplace) as (observing, folder):
        execution = _ObservedConfigurations(lambda index: observing(folder / str(index)))
        if isinstance(program, Microbench):
            execution.run(program, work)
        else:
            program.measure(replace(work, repeats=1, checkpoint=None, around=execution.around))
        record.metrics += execution.metrics()
        record.warnings += execution.warnings


@dataclass
class _ObservedConfigurations:
    """``observed``: of each configuration, by labels; ``warnings``: theirs."""

    observing: Callable[[int], Observing]
    observed: list[tuple[Mapping[str, str], Observing]] = field(default_factory=list)
    warnings: list[RunWarning] = field(default_factory=list)

    @contextmanager
    def around(self, measurement: str, configuration: str) -> Iterator[None]:
        """Count what the host does while this configuration is measured within the context."""
        observer = self.observing(len(self.observed))
        with observer.running():
            observer.begin()
            yield
        labels = {"measurement": measurement, "configuration": configuration}
        self.observed.append((labels, observer))

    def run(self, program: Microbench, work: MicroContext) -> None:
        """The first configuration is measured twice: before it is observed memory is touched."""
        measurements = program.host_suite.measurements
        spec = spec_json(
            measurements, work.tier, work.directory, program.capacity, seed=work.seed, repeats=1
        )
        first = {**spec["measurements"][0], "name": measurement_name(0, 1)}
        spec["measurements"].insert(0, first)
        with ExitStack() as under_way, loaded(spec, work, program.host_suite) as executable:

            def receive(event: str, counts: dict[str, Any]) -> None:
                if event != "measured":
                    return
                under_way.close()
                if len(self.observed) < len(measurements):
                    measurement = measurements[len(self.observed)]
                    under_way.enter_context(
                        self.around(measurement.name, measurement.configuration)
                    )

            run_program(executable, spec, work, receive)

    def metrics(self) -> list[Metric]:
        """Return what each configuration's observer found, and collect the warnings."""
        metrics = []
        for labels, observer in self.observed:
            metrics += [
                msgspec.structs.replace(m, labels={**m.labels, **labels}) for m in observer.result()
            ]
            self.warnings += [w for w in observer.warnings if w not in self.warnings]
        return metrics
