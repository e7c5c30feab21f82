"""What of a paper this host can run, and what of that a budget allows.

The smallest thing that is run is a *cell*: runs that are compared with one another (alike in
engine, parameters and repeat; they differ in the placement, or in what else the figure varies), or
a suite on one of its tiers. Cells are taken in turn: the first of every figure before the second of
any, and cells in which something can be compared before others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from harness import registry
from harness.errors import UsageError, nearest
from harness.execution.environment import Environment
from harness.execution.run_list import Step, expected_ns, plan_steps
from harness.experiment.preflight import placement_label
from harness.experiment.profile import Plan, find_profile, load_profile
from harness.experiment.run_time import Estimator
from harness.micro.perma import is_perma
from harness.micro.runner import SuiteRequest, parameter_names, suite_steps
from harness.micro.suite import find_suite, load_documents, suite_name
from harness.paper.catalogue import Entry, Paper
from harness.store.runs import Store, StoredRun
from harness.store.spec import RunSpec, canonical_json
from harness.units import format_ns
from harness.yamlfile import load_yaml, scalar

#: Statuses of runs that are not run again: what could not be checked is no better the next time.
ENOUGH = ("complete", "unknown")


@dataclass(frozen=True)
class PaperRequest:
    """Options of ``harness paper``: as of an experiment, for all of its profiles and suites.

    ``params``: a parameter that workloads of the paper have is theirs; others are of suites.
    """

    size: float | None = None
    repeats: int | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    emulate: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One run of a cell. ``why``: why it cannot be run here. ``step``: what is run."""

    what: str
    why: str = ""
    step: Step | None = None

    @property
    def done(self) -> StoredRun | None:
        """The complete run that makes it needless."""
        return self.step.done if self.step else None

    @property
    def to_do(self) -> bool:
        """Whether it can be run and has not been."""
        return self.done is None and not self.why


@dataclass(frozen=True)
class Cell:
    """Runs that are compared with one another. ``entry``: its place among the paper's figures;
    ``turn``: among the figure's cells; ``plan``: theirs. ``alone``: a suite, which needs no other.
    """

    entry: int
    turn: int
    what: str
    parts: tuple[Part, ...]
    plan: Plan | None = None
    alone: bool = False

    @property
    def to_do(self) -> tuple[Part, ...]:
        """The parts that can be run and have not been."""
        return tuple(part for part in self.parts if part.to_do)

    @property
    def single(self) -> bool:
        """Whether nothing can be compared in it; a suite answers by itself."""
        return not self.alone and sum(not part.why for part in self.parts) < 2

    def estimate_ns(self, times: Estimator) -> int | None:
        """Of the parts to do; None where one of them is not known, or there are none."""
        steps = [part.step for part in self.to_do if part.step]
        return expected_ns(steps, times) if steps else None


@dataclass(frozen=True)
class Figure:
    """A paper's figure here: what it publishes, by whom it is repeated, and its cells.

    ``params``: those of the request that its profile or suite has.
    """

    entry: Entry
    published: tuple[str, ...]
    cells: tuple[Cell, ...]
    why: str = ""
    params: Mapping[str, str] = field(default_factory=dict)


def figures_of(paper: Paper, request: PaperRequest, env: Environment, store: Store) -> list[Figure]:
    """Every figure with all of its cells.

    UsageError where no profile or suite has a parameter, or no figure uses an emulated tier.
    """
    check_emulated(paper, request.emulate)
    of_suites = _params_of_suites(paper, request, env)
    made = (
        _figure(number, entry, request, of_suites, env, store)
        for number, entry in enumerate(paper.entries)
    )
    return list(made)


def _params_of_suites(paper: Paper, request: PaperRequest, env: Environment) -> Mapping[str, str]:
    """The parameters that are of no workload of the paper: a window is no time of a suite."""
    of_workloads = {
        name
        for entry in paper.entries
        if entry.profile
        for name in registry.parameters(_workload(entry)).declared()
    }
    found = {name: text for name, text in request.params.items() if name not in of_workloads}
    if not found:
        return {}
    of_suites: set[str] = set()
    for entry in paper.entries:
        for tier in entry.tiers if entry.suite else ():
            with suppress(UsageError):  # no such tier: the figure's page says so
                of_suites |= set(parameter_names(_suite_request(entry, tier, request, {}), env))
    declared = of_workloads | of_suites
    for name in found:
        if name not in of_suites:
            raise UsageError(
                f"--param {name}",
                f"no profile or suite of {paper.name} here has such a parameter"
                f"{nearest(name, sorted(declared))}",
                f"one of {', '.join(sorted(declared))}" if declared else "leave it out",
            )
    return found


def check_emulated(paper: Paper, requests: Sequence[str]) -> None:
    """UsageError where a tier to be emulated is that of no figure."""
    tiers = {tier for entry in paper.entries for tier in entry.tiers}
    for entry in paper.entries:
        for spec in load_profile(find_profile(entry.profile)).runs if entry.profile else ():
            tiers |= set(spec.placement.tiers() if spec.placement else ())
    for request in requests:
        name = request.partition("=")[0]
        if name not in tiers:
            raise UsageError(
                f"--emulate {request}",
                f"no figure of {paper.name} uses such a tier{nearest(name, sorted(tiers))}",
                f"one of {', '.join(sorted(tiers))}" if tiers else "leave it out",
            )


def _workload(entry: Entry) -> str:
    return str(load_yaml(find_profile(entry.profile), "profile").value["workload"])


def _figure(
    number: int,
    entry: Entry,
    request: PaperRequest,
    of_suites: Mapping[str, str],
    env: Environment,
    store: Store,
) -> Figure:
    if entry.profile:
        known = registry.parameters(_workload(entry)).declared()
        params = {name: text for name, text in request.params.items() if name in known}
        values = {name: scalar(text) for name, text in params.items()}
        path = find_profile(entry.profile)
        plan = load_profile(path, request.emulate, request.size, values, request.repeats)
        cells = tuple(_cells(number, plan, env, store))
        return Figure(entry, plan.figures or entry.published, cells, params=params)
    if entry.suite:
        return _suite_figure(number, entry, request, of_suites, env, store)
    return Figure(entry, entry.published, (), entry.missing)


# Experiments -------------------------------------------------------------------------


def _cells(number: int, plan: Plan, env: Environment, store: Store) -> Iterator[Cell]:
    held: dict[str, list[Part]] = {}
    names: dict[str, RunSpec] = {}
    for part in _parts(plan, env, store):
        spec = part.step.spec if part.step else None
        assert spec is not None
        key = canonical_json([spec.workload, spec.engine, dict(spec.params), spec.block])
        names.setdefault(key, spec)
        held.setdefault(key, []).append(part)
    varied = _varied(plan)
    for turn, (key, parts) in enumerate(held.items()):
        spec = names[key]
        values = [f"{name} {_text(spec.params.get(name))}" for name in varied]
        block = [f"repeat {spec.block + 1}"] if spec.block else []
        yield Cell(number, turn, ", ".join([spec.engine, *values, *block]), tuple(parts), plan)


def _varied(plan: Plan) -> list[str]:
    """The parameters that the profile's axes vary."""
    axes = plan.document.value["axes"] if plan.document else {}
    together = (entry.get("params", {}) for entry in axes.get("configuration", ()))
    return list(dict.fromkeys(n for one in (axes.get("params", {}), *together) for n in one))


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _parts(plan: Plan, env: Environment, store: Store) -> Iterator[Part]:
    """A part for each run of a plan; what cannot be run here says why."""
    try:
        steps = plan_steps(plan, env, store, enough=ENOUGH)
    except UsageError:
        steps = [_step(plan, spec, env, store) for spec in plan.runs]
    for spec, step in zip(plan.runs, steps, strict=True):
        yield Part(_arm(spec), "" if step.done or step.prepared else step.why, step)


def _step(plan: Plan, spec: RunSpec, env: Environment, store: Store) -> Step:
    try:
        (step,) = plan_steps(replace(plan, runs=(spec,)), env, store, enough=ENOUGH)
    except UsageError as error:
        return Step(spec, None, None, f"{error.problem}: {error.context}")
    return step


def _arm(spec: RunSpec) -> str:
    """``ssd-both, innodb_doublewrite=OFF``."""
    settings = [f"{name}={value}" for name, value in spec.settings.items()]
    mode = [f"{spec.required_host_mode} mode"] if spec.required_host_mode == "Memory" else []
    return ", ".join([placement_label(spec), *settings, *mode])


# Suites -----------------------------------------------------------------------------------


def _suite_request(
    entry: Entry, tier: str, request: PaperRequest, params: Mapping[str, str]
) -> SuiteRequest:
    path = find_suite(entry.suite)
    return SuiteRequest(
        suite_name(path),
        load_documents(path),
        tier,
        params,
        request.repeats,
        emulate=tuple(one.partition("=")[0] for one in request.emulate),
    )


def _suite_figure(
    number: int,
    entry: Entry,
    request: PaperRequest,
    of_suites: Mapping[str, str],
    env: Environment,
    store: Store,
) -> Figure:
    """A cell for each tier."""
    cells: list[Cell] = []
    given: dict[str, str] = {}
    for turn, tier in enumerate(entry.tiers):
        of_tier = _suite_request(entry, tier, request, of_suites)
        plan = None
        try:
            names = parameter_names(of_tier, env)
            params = {name: text for name, text in of_suites.items() if name in names}
            of_tier = replace(of_tier, params=params)
            plan, (step,) = suite_steps([of_tier], env, store, enough=ENOUGH)
            part = Part(tier, step=step)
            given |= params
        except UsageError as error:
            part = Part(tier, f"{error.problem}: {error.context}")
        cells.append(Cell(number, turn, entry.suite, (part,), plan, alone=True))
    documents = load_documents(find_suite(entry.suite))
    named = [one.value.get("published", {}) for one in documents if not is_perma(one.value)]
    published = tuple(figure for one in named for figure in one.get("figures", ()))
    return Figure(entry, published or entry.published, tuple(cells), params=given)


# The budget ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """Cells in the order in which they are run; ``left_out``: why each other one is not."""

    cells: tuple[Cell, ...]
    left_out: Mapping[tuple[int, int], str]
    estimated_ns: int
    unknown: int


def choose(cells: Sequence[Cell], budget_ns: int, times: Estimator) -> Chosen:
    """The cells that fit into the budget, in turn; what has no estimate counts as nothing."""
    chosen: list[Cell] = []
    left_out: dict[tuple[int, int], str] = {}
    seen: set[str] = set()
    spent = unknown = 0
    for cell in sorted(cells, key=_place):
        fresh = _without(cell, seen)
        if not fresh.to_do:
            continue
        cost = fresh.estimate_ns(times)
        if spent + (cost or 0) > budget_ns:
            why = f"does not fit into the budget of {format_ns(budget_ns)}"
            left_out[cell.entry, cell.turn] = why
            continue
        spent += cost or 0
        unknown += cost is None
        seen |= {part.step.spec.hash() for part in fresh.to_do if part.step}
        chosen.append(cell)
    return Chosen(tuple(chosen), left_out, spent, unknown)


def _place(cell: Cell) -> tuple[bool, int, int, int]:
    """In the order of the module; all tiers of a suite belong to the first turn."""
    turn = 0 if cell.alone else cell.turn
    return cell.single, turn, cell.entry, cell.turn


def _without(cell: Cell, seen: set[str]) -> Cell:
    """The cell without runs that another cell makes: figures share some."""
    parts = (p for p in cell.parts if not (p.step and p.step.spec.hash() in seen))
    return replace(cell, parts=tuple(parts))
