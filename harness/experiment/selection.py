"""Other forms of a plan: with more blocks, some values of its axes, or twice.

Arrival rates follow from what the arms can do: shares of the rates that closed-loop probes reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from harness.errors import RunFailed, UsageError, unknown
from harness.execution.resolved_run import ResolvedRun
from harness.experiment.profile import Plan
from harness.metrics import load_of
from harness.store.result import ClosedLoop
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec
from harness.warnings import RunWarning, warn


def with_repeats(plan: Plan, repeats: int) -> Plan:
    """The plan's runs in this number of blocks, every other one in reverse."""
    first = [spec for spec in plan.runs if spec.block == 0]
    runs = tuple(
        msgspec.structs.replace(spec, block=block)
        for block in range(repeats)
        for spec in (first if block % 2 == 0 else first[::-1])
    )
    return replace(plan, runs=runs)


def only(plan: Plan, chosen: Mapping[str, Sequence[str]]) -> Plan:
    """The runs with these values of ``engine``, ``placement`` and ``driver``; empty: any.

    UsageError names the profile's values.
    """
    runs = plan.runs
    for key, values in chosen.items():
        available = list(dict.fromkeys(_value(spec, key) for spec in plan.runs))
        for value in values:
            if value not in available:
                problem = f"--{key} {value} of profile {plan.name}"
                context = f"no run of it has this {key}"
                raise unknown(problem, context, value, available, "its values: {}")
        runs = tuple(spec for spec in runs if not values or _value(spec, key) in values)
    if not runs:
        text = " ".join(f"--{key} {value}" for key, values in chosen.items() for value in values)
        raise UsageError(
            f"{text} of profile {plan.name}",
            "no run of it has all of these",
            "`harness experiment run … --dry-run` lists its runs",
        )
    return replace(plan, runs=runs)


def _value(spec: RunSpec, key: str) -> str:
    if key == "placement":
        return spec.placement.name if spec.placement else (spec.label or "external")
    return str(getattr(spec, key))


def in_this_mode(plan: Plan, steps: Sequence[ResolvedRun]) -> Plan:
    """The plan without runs that need the host in another mode: blocks are not divided.

    ``steps``: its first block. All of it where nothing else is left.
    """
    other = {step.spec.series() for step in steps if not step.runnable}
    runs = tuple(spec for spec in plan.runs if spec.series() not in other)
    if not other or not runs:
        return plan
    context = f"{len(other)} of {len(steps)} in a block need the host in another mode"
    hint = "give --repeats without --budget and --resolve to run them after this mode's"
    warn(RunWarning("other-host-mode", "runs are left out", context, hint))
    return replace(plan, runs=runs)


def twice(plan: Plan) -> Plan:
    """The plan with each run twice in a row, as A and B, to calibrate. See :func:`pairs_of`."""
    return replace(plan, runs=tuple(spec for spec in plan.runs for _ in range(2)))


def pairs_of(finished: Sequence[StoredRun]) -> Iterator[list[tuple[StoredRun, StoredRun]]]:
    """The pairs (A, B) of every series, from the runs of such a plan in its order.

    In every second block the first one is B: what changes steadily over time affects both sides.
    Pairs with a failed run are left out.
    """
    series: dict[str, list[tuple[StoredRun, StoredRun]]] = {}
    for first, second in zip(finished[::2], finished[1::2], strict=True):
        pairs = series.setdefault(first.spec.series(), [])
        if "failed" not in (first.result.status, second.result.status):
            pairs.append((first, second) if first.spec.block % 2 == 0 else (second, first))
    yield from series.values()


#: Of a load curve.
SHARES = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class PeakRates:
    """Operations per second of each arm in a closed loop. ``run_ids``: of the probes."""

    per_s: Mapping[str, float]
    names: Mapping[str, str]
    run_ids: tuple[str, ...]

    @property
    def lowest_per_s(self) -> float:
        """The rate of the arm that did the least per second."""
        return min(self.per_s.values())

    @property
    def text(self) -> str:
        """``postgres ssd-both 1,200/s, postgres pmem-both 1,510/s``."""
        rates = self.per_s.items()
        return ", ".join(f"{self.names[arm]} {_rounded(rate):,}/s" for arm, rate in rates)

    def rates(self, shares: Sequence[float]) -> list[float]:
        """Shares of the lowest; of several shares, those of faster arms follow."""
        rates = {_rounded(share * self.lowest_per_s) for share in shares}
        if len(shares) > 1:
            faster = (share * rate for rate in self.per_s.values() for share in shares)
            rates |= {_rounded(rate) for rate in faster if rate > max(rates)}
        return sorted(rates)

    def within(self, plan: Plan, parameter: str, shares: Sequence[float]) -> Plan:
        """The plan's runs at rates that their arms reach; each records where its rate is from."""
        most = {arm: _rounded(max(shares) * rate) for arm, rate in self.per_s.items()}
        runs = (spec for spec in plan.runs if float(_rate(spec, parameter)) <= most[_arm(spec)])
        basis = ClosedLoop(self.lowest_per_s, self.run_ids)
        return replace(plan, runs=tuple(runs), capacity=basis)


def peak_rates(probes: Sequence[StoredRun]) -> PeakRates:
    """From one closed-loop run of each arm; RunFailed where one has no rate."""
    from reports.values import Quantity, measured

    per_s = {}
    for run in probes:
        load = load_of(run.spec.workload, run.spec.params)
        done = measured(run).get(Quantity(load.done)) if load else None
        if load is None or run.result.status == "failed" or not (done and done.value):
            raise RunFailed(
                "the rate of an arm in a closed loop",
                f"{run.run_id} is {run.result.status}",
                f"see `harness runs show {run.run_id}`, or give a rate in operations per second",
            )
        per_s[_arm(run.spec)] = done.value / load.per_s
    names = {_arm(run.spec): _name(run.spec) for run in probes}
    return PeakRates(per_s, names, tuple(run.run_id for run in probes))


def _name(spec: RunSpec) -> str:
    arm = f" {spec.arm}" if spec.arm else ""
    return f"{spec.engine} {spec.where}{arm}"


def _arm(spec: RunSpec) -> str:
    return msgspec.structs.replace(spec, params={}, observe=()).series()


def _rate(spec: RunSpec, parameter: str) -> float:
    rate = spec.params[parameter]
    assert isinstance(rate, int | float)
    return rate


def _rounded(rate: float) -> float:
    """Three digits are enough, and as whole numbers they are points of a curve."""
    rounded = float(f"{rate:.3g}")
    return int(rounded) if rounded >= 10 else rounded
