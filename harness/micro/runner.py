"""One run of a suite on a tier: checked, fitted, measured, stored.

Nothing is loaded, restored or kept: what a suite measures is made by the program itself. An
interrupted run keeps the configurations and repeats that were measured, and is resumed after them.
"""

from __future__ import annotations

import hashlib
import importlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from harness.errors import UsageError, nearest
from harness.execution.environment import Environment
from harness.execution.monitoring import RunMonitors, check_monitors
from harness.execution.run_list import (
    completed_before_interruption,
    host_conditions,
    host_state,
    newest_alike,
    resume_conditions_of,
)
from harness.execution.run_record import Program, ResumePolicy, RunRecord
from harness.experiment.placement import parse_placement
from harness.experiment.preflight import work_directory
from harness.micro import native
from harness.micro.estimate import Estimate, estimate
from harness.micro.host_capacity import HostCapacity, capacity_of, llc_bytes
from harness.micro.model import Suite
from harness.micro.params import MicroParams
from harness.micro.protocol import Measured, Planned, Workplace
from harness.micro.scaling import ScaledSuite, scale
from harness.micro.suite import cpus_and_more, suite_of
from harness.monitors import MonitorContext
from harness.native_programs import microbench_program, open_to
from harness.store.runs import RunWriter, Store, StoredRun
from harness.store.spec import RunSpec, content_hash
from harness.supervise.process import ProcessId, descendants
from harness.supervise.user_files import read_bytes, refuse_writable
from harness.tiers.linux.model import DIRECTORY_KINDS, Tier
from harness.warnings import unique
from harness.yamlfile import Document

WORKLOAD = MicroParams.workload
#: Other programs: modules of this package with functions ``check`` (what can be known
#: beforehand), ``planned`` and ``measure``.
_OTHERS = ("fio", "ioping", "like")
#: Tiers that a suite's ``block`` is for: the kernel's block layer is what an engine meets there.
_BLOCK_KINDS = ("block", "sector", "fs-nodax")
#: Of a library, for its digest.
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class SuiteRequest:
    """A request for a run of a suite. ``documents``: the suite's files, parsed.

    ``repeats``: None for the suite's own. ``overwrite``: the content of a raw device may go.
    """

    suite: str
    documents: Sequence[Document]
    tier: str
    params: Mapping[str, str] = field(default_factory=dict)
    repeats: int | None = None
    seed: int = 0
    emulate: tuple[str, ...] = ()
    overwrite: bool = False
    monitors: tuple[str, ...] = ()
    no_monitors: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResolvedSuite:
    """A run that can be made: everything checked, nothing touched.

    ``scaled`` and ``capacity``: of our own program; None of another one. ``library_digest``:
    SHA-256 of an index library.
    """

    request: SuiteRequest
    suite: Suite
    tier: Tier
    program: str
    params: Mapping[str, Any]
    limits: MicroParams
    capacity: HostCapacity | None
    scaled: ScaledSuite | None
    library_digest: str = ""

    @property
    def repeats(self) -> int:
        """Samples of each configuration."""
        return self.request.repeats or self.suite.repeats

    @property
    def expected(self) -> Estimate | None:
        """How long it takes; None of another program (``planned``)."""
        if self.scaled is None or self.capacity is None:
            return None
        return estimate(self.scaled.measurements, self.capacity, self.repeats)

    @property
    def planned(self) -> Planned | None:
        """What another program will do; None of our own."""
        return planned_by(self.program, self.params, self.repeats, self.tier)

    def spec(self) -> RunSpec:
        """As it is stored; its hash covers the whole request."""
        return RunSpec(
            workload=WORKLOAD,
            engine=self.program,
            placement=parse_placement(f"data={self.tier.name}"),
            params={
                "suite": self.suite.name,
                "suite_hash": content_hash(dict(self.suite.documents)),
                "repeats": self.repeats,
                "overwrite": self.request.overwrite,
                "asked": dict(self.request.params),
                "configurations": len(self.scaled.measurements) if self.scaled else None,
                **({"index_library": self.library_digest} if self.library_digest else {}),
                **({"like": self.params["trace"]["run"]} if "trace" in self.params else {}),
            },
            emulate=self.request.emulate,
            seed=self.request.seed,
            monitors=self.request.monitors,
            no_monitors=self.request.no_monitors,
        )


def _check_library(library: Path, tier: Tier, env: Environment) -> None:
    if tier.facts.kind == "devdax":
        raise UsageError(
            f"--index-library {library}",
            "only root opens a raw device, and a library is never loaded as root",
            "measure it on memory, or on a file system of that device",
        )
    if env.credentials is None or open_to(library, env.credentials):
        return
    try:  # root copies it
        refuse_writable(library.parent, env.credentials)
    except PermissionError as error:
        raise UsageError(
            f"--index-library {library}",
            f"{env.credentials.name} may not execute it, and {error.strerror}",
            f"let that user read and execute it, or make {library.parent} root's alone",
        ) from error


def _digest(library: Path, env: Environment) -> str:
    with env.readable(library) as file:
        return hashlib.sha256(read_bytes(file, env.credentials, _MOST_BYTES)).hexdigest()


def variables(env: Environment, limits: MicroParams) -> dict[str, float]:
    """What the expressions of suites may name here."""
    cpus = min(env.cores, limits.threads or env.cores)
    return cpus_and_more(cpus, llc_bytes(), env.memory_bytes)


def prepare(request: SuiteRequest, env: Environment) -> ResolvedSuite:
    """Check a run; UsageError for the first thing that cannot work."""
    check_monitors(request)
    tier = _tier(request.tier, env)
    other = _other_program(request, tier)
    given, _ = MicroParams.from_text(request.params)
    limits = MicroParams.from_mapping({} if other else given)
    suite = suite_of(request.suite, list(request.documents), variables(env, limits))
    program = other["program"] if other else suite.program
    params = dict(other.get("params", {})) if other else {}
    if program != native.NAME:
        _module(program).check(params := {**params, **given}, tier)
        return ResolvedSuite(request, suite, tier, program, params, limits, None, None)
    native.check()
    if tier.facts.kind == "devdax" and not request.overwrite:
        raise UsageError(
            f"suite {suite.name} on tier {tier.name!r}",
            f"it would write into the raw device {tier.claim.device}, whatever is on it",
            "add --overwrite if its content may go",
        )
    if limits.index_library:
        _check_library(Path(limits.index_library), tier, env)
    capacity = capacity_of(tier, env, limits)
    scaled = scale(suite, capacity, limits)
    native.refuse(scaled, tier, capacity, env)
    digest = _digest(scaled.library, env) if scaled.library else ""
    return ResolvedSuite(request, suite, tier, program, params, limits, capacity, scaled, digest)


def parameter_names(request: SuiteRequest, env: Environment) -> Sequence[str]:
    """What ``-p`` may set of the program that measures a suite on its tier."""
    other = _other_program(request, _tier(request.tier, env))
    if other is None:
        return tuple(MicroParams.declared())
    return getattr(_module(other["program"]), "PARAMETERS", ())


def _other_program(request: SuiteRequest, tier: Tier) -> Mapping[str, Any] | None:
    """``{program, params}`` where another program measures this suite on this tier."""
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
    if "program" in first:
        return {"program": first["program"], "params": first.get("params", {})}
    return first.get("block") if on_blocks else None


def _tier(name: str, env: Environment) -> Tier:
    if name in env.tiers:
        return env.tiers[name]
    known = sorted(env.tiers)
    raise UsageError(
        f"tier {name!r}",
        f"there is no such tier{nearest(name, known)}",
        f"tiers here: {', '.join(known) or 'none'} (harness doctor); --emulate {name} lets a tmpfs "
        "stand in and marks its numbers",
    )


def planned_by(
    program: str, params: Mapping[str, Any], repeats: int, tier: Tier | None = None
) -> Planned | None:
    """What another program will do with a suite's parameters; None of our own."""
    if program == native.NAME:
        return None
    return cast(Planned, _module(program).planned(params, repeats, tier))


def _module(program: str) -> Any:
    if program not in _OTHERS:
        known = [native.NAME, *_OTHERS]
        raise UsageError(
            f"program {program!r} of a suite",
            f"no such program{nearest(program, known)}",
            f"known: {', '.join(known)}",
        )
    return importlib.import_module(f"harness.micro.{program}")


# The run -----------------------------------------------------------------------


def policy_of(resolved: ResolvedSuite, env: Environment, restart: bool = False) -> ResumePolicy:
    """Of an experiment of its own, resumed while nothing has changed unless ``restart``."""
    measurements = resolved.scaled.measurements if resolved.scaled else None
    scaled = [one.identity for one in measurements] if measurements is not None else None
    experiment = {"name": _experiment(resolved), "hash": resolved.spec().hash()}
    conditions = _conditions(resolved, env) | {"scaled suite": scaled}
    return ResumePolicy(experiment, conditions, restart)


def _conditions(resolved: ResolvedSuite, env: Environment) -> dict[str, Any]:
    cpus = (*resolved.capacity.near, *resolved.capacity.far) if resolved.capacity else ()
    name = "fio" if resolved.program == "like" else resolved.program
    program = microbench_program() if resolved.scaled else shutil.which(name)
    return {
        **host_conditions([resolved.tier], cpus, env),
        **host_state(env),
        "program": [str(program), Path(program).stat().st_mtime_ns] if program else None,
    }


def _experiment(resolved: ResolvedSuite) -> str:
    return f"micro-{resolved.suite.name}"


def finished_run(
    resolved: ResolvedSuite, env: Environment, complete: Mapping[str, Sequence[StoredRun]]
) -> StoredRun | None:
    """The newest of these runs, by hash of their specs, of the suite on this tier as it is now.

    A finished one may have been scaled otherwise: free memory changes.
    """
    candidates = complete.get(resolved.spec().hash(), ())
    return newest_alike(candidates, _conditions(resolved, env), resume_conditions_of)[0]


def run_all(
    suites: Sequence[ResolvedSuite], env: Environment, store: Store, restart: bool
) -> list[StoredRun]:
    """Run one after another. An interrupted command is resumed, unless ``restart``."""
    specs = [one.spec() for one in suites]
    kept: dict[str, list[StoredRun]] = {}
    for name in {_experiment(one) for one in suites if not restart}:
        kept |= completed_before_interruption(specs, env, store, name)
    return [
        finished_run(one, env, kept) or run(one, env, store, policy_of(one, env, restart))
        for one in suites
    ]


def run(
    resolved: ResolvedSuite, env: Environment, store: Store, policy: ResumePolicy | None = None
) -> StoredRun:
    """Measure and store a run, or resume an interrupted one; a failed one is returned, too."""
    spec = resolved.spec()
    record = RunRecord(
        spec,
        env,
        policy or policy_of(resolved, env),
        [resolved.tier],
        pinned=resolved.scaled is not None,  # fio and ioping pin no thread
        warnings=list(resolved.scaled.warnings) if resolved.scaled else [],
        artifacts={"suite": suite_artifact(resolved)},
    )

    def measure() -> None:
        with _workplace(resolved, env, record.writer) as work:
            record.begin_attempt()
            monitors = RunMonitors(
                spec,
                MonitorContext(
                    _programs(env), lambda: None, [resolved.tier], io_trace=lambda: None
                ),
            )
            with monitors.running():
                measured = _measure(resolved, work)
        record.program = Program(
            resolved.program, measured.version, measured.build, measured.source
        )
        record.metrics += [*measured.metrics, *monitors.metrics()]
        record.checks += measured.checks
        record.warnings = unique([*record.warnings, *measured.uncontrolled, *monitors.warnings()])
        record.artifacts |= {**measured.artifacts, **monitors.artifacts()}

    return record.measure(store, measure)


def _programs(env: Environment) -> Callable[[], list[ProcessId]]:
    """Returns the processes of the measuring program."""
    return lambda: [process.id for process in descendants(env.supervisor.pid)]


def _measure(resolved: ResolvedSuite, work: Workplace) -> Measured:
    if resolved.program != native.NAME:
        measured: Measured = _module(resolved.program).measure(work, resolved.params)
        return measured
    assert resolved.scaled is not None and resolved.capacity is not None
    return native.measure(work, resolved.scaled, resolved.capacity, resolved.suite)


@contextmanager
def _workplace(resolved: ResolvedSuite, env: Environment, run: RunWriter) -> Iterator[Workplace]:
    tier, seed = resolved.tier, resolved.request.seed
    with ExitStack() as stack:
        scratch, directory = stack.enter_context(env.scratch()), None
        if tier.facts.kind in DIRECTORY_KINDS:
            place = work_directory(tier, run.run_id, "data")
            directory = stack.enter_context(env.directory(place))
        yield Workplace(tier, env, directory, scratch, seed, resolved.repeats, run.checkpoint)


def suite_artifact(resolved: ResolvedSuite) -> dict[str, Any]:
    """The suite as requested, so that the run can be repeated from what is stored."""
    return {
        "name": resolved.suite.name,
        "description": resolved.suite.description,
        "published": resolved.suite.published,
        "documents": dict(resolved.suite.documents),
        "configurations": [
            one.configuration for one in (resolved.scaled.measurements if resolved.scaled else ())
        ],
    }


def prepared_again(original: StoredRun, env: Environment) -> ResolvedSuite:
    """The same suite on the same tier again, from what is stored of it."""
    kept = original.artifact("suite")
    if kept is None:
        raise UsageError(
            f"repeat {original.run_id}", "its suite is not stored", "run the suite again"
        )
    spec = original.spec
    assert spec.placement is not None
    params: Any = spec.params  # as RunSpec has them of a suite
    documents = [Document(path, value, {}) for path, value in kept["documents"].items()]
    request = SuiteRequest(
        suite=kept["name"],
        documents=documents,
        tier=spec.placement.data,
        params=params["asked"],
        repeats=params["repeats"],
        seed=spec.seed,
        emulate=spec.emulate,
        overwrite=params["overwrite"],
        monitors=spec.monitors,
        no_monitors=spec.no_monitors,
    )
    return prepare(request, env)
