"""Plan the part of a paper that this host can run within a budget.

The smallest thing that is run is a *cell*: runs that are compared with one another (alike in
engine, parameters and repeat; they differ in the placement, or in what else the figure varies), or
a suite on one of its tiers. Cells are taken in turn: the first of every figure before the second of
any, and cells in which something can be compared before others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from harness import registry
from harness.errors import UsageError, unknown
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_list import plan_steps, why_refused
from harness.execution.run_time import Estimator
from harness.experiment.profile import Plan, find_profile, load_profile
from harness.experiment.profile_document import Profile
from harness.micro.perma import is_perma
from harness.micro.runner import SuiteRequest, parameter_names, suite_plan
from harness.micro.suite import find_suite, load_documents, suite_name
from harness.paper.catalogue import FigureEntry, Paper
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec, canonical_json
from harness.tiers.stand_ins import stand_in_names, stand_in_option
from harness.units import format_ns
from harness.yamlfile import load_yaml, scalar

#: Statuses of runs that are not run again: what could not be checked is no better the next time.
ENOUGH = ("complete", "unknown")
#: Why cells are not run, by their figures and turns.
LeftOut = dict[tuple[int, int], str]


@dataclass(frozen=True)
class PaperRequest:
    """Options of ``harness paper``: as of an experiment, for all of its profiles and suites.

    ``params``: a parameter that workloads of the paper have is theirs; others are of suites.
    """

    size: float | None = None
    repeats: int | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    emulate: tuple[str, ...] = ()
    #: In place of the drivers that profiles fix, where their workload has it; empty: theirs.
    driver: str = ""

    def drivers(self, workload: str) -> Sequence[str]:
        """Return the driver that replaces that of a profile of this workload, if one does."""
        drivers = registry.parameters(workload).drivers
        return [self.driver] if self.driver in drivers else []


@dataclass(frozen=True)
class CellRun:
    """One run of a cell. ``why``: why it cannot be run here. ``step``: what is run."""

    what: str
    why: str = ""
    step: ResolvedRun | None = None

    @property
    def done(self) -> StoredRun | None:
        """The complete run that makes it needless."""
        return self.step.done if self.step else None

    def stored(self, made: Mapping[str, StoredRun]) -> StoredRun | None:
        """Return its complete run, else the last attempt of this command, by hash of its spec."""
        return self.done or made.get(self.hash)

    @property
    def hash(self) -> str:
        """Identify the run; empty where it cannot be run."""
        return self.step.spec.hash() if self.step else ""

    @property
    def to_do(self) -> bool:
        """Return whether it can be run and has not been."""
        return self.done is None and not self.why


@dataclass(frozen=True)
class FigureCell:
    """Runs that are compared with one another. ``entry``: its place among the paper's figures;
    ``turn``: among the figure's cells; ``plan``: theirs. ``alone``: a suite, which needs no other.
    """

    entry: int
    turn: int
    what: str
    runs: tuple[CellRun, ...]
    plan: Plan | None = None
    alone: bool = False

    @property
    def to_do(self) -> tuple[CellRun, ...]:
        """The runs that can be run and have not been."""
        return tuple(run for run in self.runs if run.to_do)

    @property
    def single(self) -> bool:
        """Return whether nothing can be compared in it; a suite answers by itself."""
        return not self.alone and sum(not run.why for run in self.runs) < 2

    @property
    def steps(self) -> list[ResolvedRun]:
        """Return the steps of the runs to do."""
        return [run.step for run in self.to_do if run.step]

    def estimate_ns(self, times: Estimator) -> int | None:
        """Return the sum over the runs to do; None without runs, or where one is not known."""
        return times.total_ns(self.steps) if self.steps else None


@dataclass(frozen=True)
class Figure:
    """A paper's figure here: what it publishes, by whom it is repeated, and its cells.

    ``params``: those of the request that its profile or suite has.
    """

    entry: FigureEntry
    published: tuple[str, ...]
    cells: tuple[FigureCell, ...]
    why: str = ""
    params: Mapping[str, str] = field(default_factory=dict)


def figures_of(paper: Paper, request: PaperRequest, env: Environment, store: Store) -> list[Figure]:
    """A paper's figures, each with all of its cells.

    UsageError where no profile or suite has a parameter, or no figure uses a tier to be emulated
    or modelled.
    """
    check_stand_ins(paper, request.emulate)
    _check_driver(paper, request)
    return _Figures(paper, request, env, store).all()


def check_stand_ins(paper: Paper, requests: Sequence[str]) -> None:
    """UsageError where a tier to be emulated or modelled is that of no figure."""
    tiers = {tier for entry in paper.entries for tier in entry.tiers}
    for entry in paper.entries:
        for spec in load_profile(find_profile(entry.profile)).runs if entry.profile else ():
            tiers |= set(spec.placement.tiers() if spec.placement else ())
    for request in requests:
        name = request.partition("=")[0]
        if name not in tiers:
            context = f"no figure of {paper.name} uses such a tier"
            raise _unknown(" ".join(stand_in_option(request)), context, name, tiers)


def _check_driver(paper: Paper, request: PaperRequest) -> None:
    """UsageError where no profile of the paper has a workload with the requested driver."""
    workloads = {_workload(entry) for entry in paper.entries if entry.profile}
    if request.driver and not any(map(request.drivers, workloads)):
        drivers = {name for workload in workloads for name in registry.parameters(workload).drivers}
        context = f"no workload of {paper.name} has it"
        raise _unknown(f"--driver {request.driver}", context, request.driver, drivers)


def _unknown(problem: str, context: str, name: str, accepted: Collection[str]) -> UsageError:
    return unknown(
        problem, context, name, sorted(accepted), "one of {}" if accepted else "leave it out"
    )


@dataclass(frozen=True)
class _Figures:
    """Makes the figures of a paper, as a request has them on this host."""

    paper: Paper
    request: PaperRequest
    env: Environment
    store: Store

    def all(self) -> list[Figure]:
        of_suites = self._params_of_suites()
        return [
            self._figure(number, entry, of_suites)
            for number, entry in enumerate(self.paper.entries)
        ]

    def _params_of_suites(self) -> Mapping[str, str]:
        """The parameters that are of no workload of the paper: a window is no time of a suite."""
        entries = self.paper.entries
        of_workloads = {
            name for entry in entries if entry.profile for name in _workload_parameters(entry)
        }
        params = {n: text for n, text in self.request.params.items() if n not in of_workloads}
        if not params:
            return {}
        of_suites: set[str] = set()
        for entry in entries:
            for tier in entry.tiers if entry.suite else ():
                with suppress(UsageError):  # no such tier: the figure's page says so
                    of_suites |= set(parameter_names(self._suite_request(entry, tier), self.env))
        for name in params:
            if name not in of_suites:
                context = f"no profile or suite of {self.paper.name} here has such a parameter"
                raise _unknown(f"--param {name}", context, name, of_workloads | of_suites)
        return params

    def _figure(self, number: int, entry: FigureEntry, of_suites: Mapping[str, str]) -> Figure:
        if entry.profile:
            return self._profile_figure(number, entry)
        if entry.suite:
            return self._suite_figure(number, entry, of_suites)
        return Figure(entry, entry.published, (), entry.missing)

    # Experiments -------------------------------------------------------------------------

    def _profile_figure(self, number: int, entry: FigureEntry) -> Figure:
        """A cell for each comparison."""
        request, names = self.request, _workload_parameters(entry)
        params = {name: text for name, text in request.params.items() if name in names}
        values = {name: scalar(text) for name, text in params.items()}
        path = find_profile(entry.profile)
        drivers = request.drivers(_workload(entry))
        plan = load_profile(
            path, request.emulate, request.size, values, request.repeats, drivers=drivers
        )
        cells = tuple(self._cells(number, plan))
        return Figure(entry, plan.figures or entry.published, cells, params=params)

    def _cells(self, number: int, plan: Plan) -> Iterator[FigureCell]:
        cells: dict[str, tuple[RunSpec, list[CellRun]]] = {}
        for spec, run in zip(plan.runs, self._runs(plan), strict=True):
            key = canonical_json([spec.workload, spec.engine, dict(spec.params), spec.block])
            cells.setdefault(key, (spec, []))[1].append(run)
        varied = _varied(plan)
        for turn, (spec, runs) in enumerate(cells.values()):
            values = [f"{name} {_text(spec.params.get(name))}" for name in varied]
            block = [f"repeat {spec.block + 1}"] if spec.block else []
            yield FigureCell(
                number, turn, ", ".join([spec.engine, *values, *block]), tuple(runs), plan
            )

    def _runs(self, plan: Plan) -> Iterator[CellRun]:
        """Yield the runs of a plan; what cannot be run here says why."""
        try:
            steps = plan_steps(plan, self.env, self.store, enough=ENOUGH)
        except UsageError:
            steps = [self._step(plan, spec) for spec in plan.runs]
        for spec, step in zip(plan.runs, steps, strict=True):
            yield CellRun(_arm(spec), "" if step.done or step.runnable else step.why, step)

    def _step(self, plan: Plan, spec: RunSpec) -> ResolvedRun:
        try:
            with plan.blaming():
                plan_of_run = replace(plan, runs=(spec,))
                (step,) = plan_steps(plan_of_run, self.env, self.store, enough=ENOUGH)
        except UsageError as error:
            return ResolvedRun(spec, None, why_refused(error))
        return step

    # Suites ------------------------------------------------------------------------------

    def _suite_figure(
        self, number: int, entry: FigureEntry, of_suites: Mapping[str, str]
    ) -> Figure:
        """A cell for each tier."""
        cells: list[FigureCell] = []
        given: dict[str, str] = {}
        for turn, tier in enumerate(entry.tiers):
            of_tier, plan = self._suite_request(entry, tier), None
            try:
                names = parameter_names(of_tier, self.env)
                params = {name: text for name, text in of_suites.items() if name in names}
                request = replace(of_tier, params=params)
                plan, suites = suite_plan([request], self.env)
                (step,) = plan_steps(plan, self.env, self.store, enough=ENOUGH, resolved=suites)
                run = CellRun(tier, step=step)
                given |= params
            except UsageError as error:
                run = CellRun(tier, why_refused(error))
            cells.append(FigureCell(number, turn, entry.suite, (run,), plan, alone=True))
        documents = load_documents(find_suite(entry.suite))
        named = [
            document.value.get("published", {})
            for document in documents
            if not is_perma(document.value)
        ]
        published = tuple(figure for entry in named for figure in entry.get("figures", ()))
        return Figure(entry, published or entry.published, tuple(cells), params=given)

    def _suite_request(self, entry: FigureEntry, tier: str) -> SuiteRequest:
        path = find_suite(entry.suite)
        return SuiteRequest(
            suite_name(path),
            load_documents(path),
            tier,
            repeats=self.request.repeats,
            emulate=stand_in_names(self.request.emulate),
        )


def _workload_parameters(entry: FigureEntry) -> Collection[str]:
    return registry.parameters(_workload(entry)).declared()


def _workload(entry: FigureEntry) -> str:
    return str(load_yaml(find_profile(entry.profile)).to(Profile).workload)


def _varied(plan: Plan) -> list[str]:
    """The parameters that the profile's axes vary."""
    axes = plan.document.value["axes"] if plan.document else {}
    together = (entry.get("params", {}) for entry in axes.get("configuration", ()))
    return list(
        dict.fromkeys(
            n for names_of_entry in (axes.get("params", {}), *together) for n in names_of_entry
        )
    )


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _arm(spec: RunSpec) -> str:
    """``ssd-both, innodb_doublewrite=OFF``."""
    settings = [f"{name}={value}" for name, value in spec.settings.items()]
    mode = [f"{spec.required_host_mode} mode"] if spec.required_host_mode == "Memory" else []
    return ", ".join([spec.where, *settings, *mode])


# The budget ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChosenCells:
    """Cells in the order in which they are run; ``left_out``: why each other one is not."""

    cells: tuple[FigureCell, ...]
    left_out: Mapping[tuple[int, int], str]
    estimated_ns: int
    unknown: int


def choose(cells: Sequence[FigureCell], budget_ns: int, times: Estimator) -> ChosenCells:
    """The cells that fit into the budget, in turn; what has no estimate counts as nothing."""
    chosen: list[FigureCell] = []
    left_out: LeftOut = {}
    seen: set[str] = set()
    spent = unknown = 0
    for cell in sorted(cells, key=_place):
        # Figures share runs: those of an earlier cell are not made again.
        fresh = replace(cell, runs=tuple(run for run in cell.runs if run.hash not in seen))
        if not fresh.to_do:
            continue
        cost = fresh.estimate_ns(times)
        if spent + (cost or 0) > budget_ns:
            takes = format_ns(cost or 0)
            why = f"takes about {takes}: does not fit into the budget of {format_ns(budget_ns)}"
            left_out[cell.entry, cell.turn] = why
            continue
        spent += cost or 0
        unknown += cost is None
        seen |= {run.hash for run in fresh.to_do}
        chosen.append(cell)
    return ChosenCells(tuple(chosen), left_out, spent, unknown)


def _place(cell: FigureCell) -> tuple[bool, int, int, int]:
    """In the order of the module; all tiers of a suite belong to the first turn."""
    turn = 0 if cell.alone else cell.turn
    return cell.single, turn, cell.entry, cell.turn
