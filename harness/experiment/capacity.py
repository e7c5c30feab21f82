"""Arrival rates from what the arms can do: shares of the rates that closed-loop probes reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.errors import RunFailed
from harness.experiment.profile import Plan
from harness.store.result import ClosedLoop
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec

#: Of a load curve.
SHARES = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class Capacity:
    """Operations per second of each arm in a closed loop. ``run_ids``: of the probes."""

    per_s: Mapping[str, float]
    names: Mapping[str, str]
    run_ids: tuple[str, ...]

    @property
    def lowest_per_s(self) -> float:
        """Of the slowest arm."""
        return min(self.per_s.values())

    @property
    def text(self) -> str:
        """``postgres ssd-both 1,200/s, postgres pmem-both 1,510/s``."""
        found = self.per_s.items()
        return ", ".join(f"{self.names[arm]} {_rounded(rate):,}/s" for arm, rate in found)

    def rates(self, shares: Sequence[float]) -> list[float]:
        """Shares of the lowest; of several shares, those of faster arms follow."""
        found = {_rounded(share * self.lowest_per_s) for share in shares}
        if len(shares) > 1:
            faster = (share * rate for rate in self.per_s.values() for share in shares)
            found |= {_rounded(rate) for rate in faster if rate > max(found)}
        return sorted(found)

    def within(self, plan: Plan, parameter: str, shares: Sequence[float]) -> Plan:
        """The plan's runs at rates that their arms reach; each records where its rate is from."""
        most = {arm: _rounded(max(shares) * rate) for arm, rate in self.per_s.items()}
        runs = (spec for spec in plan.runs if float(_rate(spec, parameter)) <= most[_arm(spec)])
        basis = ClosedLoop(self.lowest_per_s, self.run_ids)
        return replace(plan, runs=tuple(runs), capacity=basis)


def capacity_of(probes: Sequence[StoredRun]) -> Capacity:
    """From one closed-loop run of each arm; RunFailed where one has no rate."""
    from reports.metric_registry import load_of  # reports are loaded where they are needed
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
    return Capacity(per_s, names, tuple(run.run_id for run in probes))


def _name(spec: RunSpec) -> str:
    arm = f" {spec.label}" if spec.placement and spec.label else ""
    return f"{spec.engine} {spec.where}{arm}"


def _arm(spec: RunSpec) -> str:
    return replace(spec, params={}, parameters=None, observe=()).series()


def _rate(spec: RunSpec, parameter: str) -> float:
    rate = spec.params[parameter]
    assert isinstance(rate, int | float)
    return rate


def _rounded(rate: float) -> float:
    """Three digits are enough, and as whole numbers they are points of a curve."""
    rounded = float(f"{rate:.3g}")
    return int(rounded) if rounded >= 10 else rounded
