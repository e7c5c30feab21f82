"""The canary: a suite of a few seconds on each tier in use, before and after an experiment.

Its time is a share of the experiment's, so a short experiment has none: what could be measured in
that time would show nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from harness.errors import UsageError, as_failure, interruption
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_time import Estimator
from harness.experiment.profile import Plan
from harness.micro import native
from harness.micro.runner import ResolvedSuite, SuiteRequest, prepare
from harness.micro.suite import find_suite, load_documents
from harness.store.calibrations import Canary, CanaryBandwidth, CanaryStore
from harness.store.checkpoint import Attempt
from harness.store.result import Experiment
from harness.store.run_store import Store
from harness.units import NS_PER_S
from harness.warnings import RunWarning, warn

_SUITE = "canary"
#: Of the experiment's time, for all tiers, before and after it.
_SHARE = 0.05
#: Bounds of the time on one tier, before or after: below it nothing is measured.
_LEAST_NS, _MOST_NS = 5 * NS_PER_S, 30 * NS_PER_S
#: A run whose time is not known counts as this.
_UNKNOWN_NS = 3 * NS_PER_S
#: Shows what takes processors and memory, whichever tiers are in use.
_MEMORY = "dram"
#: Of each measurement by fio, its start; of each tier, files and programs.
_FIO_NS, _SETUP_NS = NS_PER_S // 2, NS_PER_S

_BANDWIDTH = "bandwidth_bytes_per_second"
_Key = tuple[str, str]


@contextmanager
def canary(
    plan: Plan,
    steps: Sequence[ResolvedRun],
    env: Environment,
    results: Store,
    most_ns: int | None = None,
) -> Iterator[None]:
    """Measure before and after what is done inside, and store both; nothing if that fails.

    ``most_ns``: of the experiment, where its time is limited.
    """
    todo = [step for step in steps if step.done is None and step.runnable]
    tiers = _tiers(todo, env)
    estimated_ns = Estimator(results.runs()).total_ns(todo, _UNKNOWN_NS) or 0
    expected_ns = min(estimated_ns, most_ns or sys.maxsize)
    budget_ns = expected_ns * _SHARE / 2 / max(1, len(tiers))
    if not todo or budget_ns < _LEAST_NS:
        yield
        return
    into = CanaryStore(results.root)
    suites = list(_suites(tiers, env, min(budget_ns, _MOST_NS)))
    before = _measured(suites, env, Store(into.folder))
    began = time.time_ns()
    elsewhere = None
    try:
        yield
    except UsageError as error:  # what is left needs another host mode: here it is over
        elsewhere = error
    ended = time.time_ns()
    after = _measured(suites, env, Store(into.folder))
    both = before.keys() & after.keys()
    figures = tuple(CanaryBandwidth(*key, before[key], after[key]) for key in sorted(both))
    if figures:
        into.write(Canary(plan.hash, env.host.host_id, began, ended, figures))
    if elsewhere is not None:
        raise elsewhere


def _tiers(todo: Sequence[ResolvedRun], env: Environment) -> list[str]:
    """Names of those in use that can be measured.

    The content of a raw device would be lost, and of a modelled tier the tier below it would be
    measured.
    """
    placed = (step.spec.placement for step in todo if step.spec.placement)
    used = [_MEMORY, *(tier for placement in placed for tier in placement.tiers())]
    tiers = [env.tiers[name] for name in dict.fromkeys(used) if name in env.tiers]
    if modelled := [tier.name for tier in tiers if tier.model]:
        env.progress.say(f"no canary on {', '.join(modelled)}, which is modelled")
    return [tier.name for tier in tiers if tier.facts.kind != "devdax" and not tier.model]


def _suites(tiers: Sequence[str], env: Environment, budget_ns: float) -> Iterator[ResolvedSuite]:
    """Fit the suite into the time limit of each tier; leave out a tier that cannot be measured."""
    documents = load_documents(find_suite(_SUITE))
    for tier in tiers:
        emulate = (tier,) if env.tiers[tier].emulated else ()
        request = SuiteRequest(_SUITE, documents, tier, emulate=emulate)
        try:
            first = prepare(request, env)
            count = first.repeats * len(first.planned.configurations)
            each_ns = (budget_ns - _SETUP_NS) / count
            if first.program.name != native.NAME:
                each_ns -= _FIO_NS
            duration = {"duration": f"{max(20, round(each_ns / 1e6))}ms"}
            yield prepare(SuiteRequest(_SUITE, documents, tier, duration, emulate=emulate), env)
        except Exception as error:
            _left_out(tier, error)


def _measured(
    suites: Sequence[ResolvedSuite], env: Environment, store: Store
) -> dict[_Key, tuple[float, ...]]:
    """Return the samples of all tiers."""
    samples_by_key: dict[_Key, tuple[float, ...]] = {}
    for suite in suites:
        env.progress.say(f"canary on {suite.tier.name}")
        try:
            experiment = Experiment("canary", suite.spec.hash())
            # Without conditions nothing is kept for a later one, whose time is another.
            run = suite.run(env, store, Attempt(experiment=experiment))
        except Exception as error:
            _left_out(suite.tier.name, error)
            continue
        for metric in run.result.metrics:
            samples = metric.samples or ()
            if metric.name == _BANDWIDTH and samples and min(samples) > 0:
                samples_by_key[suite.tier.name, str(metric.labels["configuration"])] = samples
    return samples_by_key


def _left_out(tier: str, error: Exception) -> None:
    if interruption(error) is not None:
        raise error
    failure = as_failure(error, "measure the canary")
    context = f"{tier}: {failure.problem}: {failure.context}"
    warn(RunWarning("canary-left-out", "no canary on a tier", context, failure.hint))
