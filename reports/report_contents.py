"""What a report over finished runs of engines has to say, before it is put on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.errors import UsageError
from harness.store.calibrations import Calibration
from harness.store.runs import StoredRun
from harness.warnings import RunWarning
from reports.agreement import (
    DRIVER,
    Agreement,
    agreements,
    driven_by_several,
)
from reports.answers import gains_of
from reports.arm import Arm
from reports.basis import apart
from reports.compare import Group
from reports.conclusions.model import Checked
from reports.conditions import (
    panel_warnings,
    uncontrolled,
)
from reports.explain.ceilings import Ceilings, ceilings
from reports.explain.devices import NO_TIER_SOURCES, TierSources
from reports.host_models import NO_HOST_MODELS, HostModels
from reports.host_rates import hosts_json
from reports.load_target import TargetAnswer, target_answers
from reports.more_memory import memory_answers
from reports.price_list import PriceList
from reports.published import PublishedSeries
from reports.relations import RelationAnswer, relation_answers
from reports.series import Panel, panels
from reports.workload_answers import WorkloadAnswer, workload_answers


@dataclass(frozen=True)
class ReportContents:
    """What a report about ``runs`` has to say: panels, comparisons, answers, warnings.

    ``title``: of the page (found if None); ``over``: the dimension compared (found if None:
    placement first); ``baseline``: the arm that the others are compared with (found if None: real
    before emulated, block devices first); ``force``: also compare runs that differ in more;
    ``published``: a paper's numbers; ``prices``: in place of those recorded with the runs;
    ``conclusions``: those of papers; ``calibrations``: the noise of workloads on this and other
    hosts; ``sources``: of their devices; ``card``: whether a card of the devices is in the same
    folder, to be linked; ``of_hosts``: models of the devices of all hosts, and their scores.
    UsageError where there is no run, or an option fits none.
    """

    runs: Sequence[StoredRun]
    title: str | None = None
    over: str | None = None
    baseline: str | None = None
    force: bool = False
    published: Sequence[PublishedSeries] = ()
    prices: PriceList | None = None
    conclusions: Sequence[Checked] = ()
    calibrations: Sequence[Calibration] = ()
    sources: TierSources = NO_TIER_SOURCES
    card: bool = False
    of_hosts: HostModels = NO_HOST_MODELS

    def __post_init__(self) -> None:
        if not self.runs:
            hint = "`harness runs list` shows all"
            raise UsageError("a report", "no finished run is selected", hint)
        if self.over is not None and all(len(panel.arms) < 2 for panel in self.panels):
            raise UsageError(
                f"--over {self.over}",
                "the runs differ in nothing of that name",
                "select runs with several of its values, or leave it out",
            )

    @cached_property
    def panels(self) -> list[Panel]:
        """The runs of each engine and workload under the same conditions, by arm."""
        # A driver pays for nothing: what two of them differ by is no verdict, and agreements
        # report what else they differ in.
        return panels(self.runs, self.over, self.baseline, self.force or self.over == DRIVER)

    @property
    def comparable(self) -> list[Panel]:
        """Return the panels whose comparisons are verdicts."""
        return [] if self.over == DRIVER else self.panels

    @property
    def _question(self) -> str:
        hosts = {panel.over for panel in self.panels} == {"host"}
        return "Which host is faster?" if hosts else "Does the faster tier pay?"

    @property
    def answers(self) -> list[tuple[str, Group]]:
        """Return all comparisons with the baseline, by the panel's title."""
        return [(p.title_with_workload, group) for p in self.comparable for group in p.groups]

    @property
    def _gains(self) -> list[str]:
        groups = [group for panel in self.comparable for group in panel.groups]
        return [gains.text for gains in gains_of(groups)]

    @cached_property
    def _memory(self) -> list[str]:
        """Whether more, slower memory pays, where the runs say it."""
        answers = memory_answers(self.comparable, self.prices)
        return [f"{answer.where}: {answer.sentence}" for answer in answers]

    @cached_property
    def _relations(self) -> list[RelationAnswer]:
        """Which tables and indexes to move, where the runs say it."""
        return list(relation_answers(self.comparable))

    @cached_property
    def workload_answers(self) -> list[WorkloadAnswer]:
        """Answers of workloads that have one, of each arm."""
        return [*workload_answers(self.panels)]

    @cached_property
    def _targets(self) -> list[TargetAnswer]:
        """The most load within a latency target, of experiments with one."""
        return target_answers(self.runs)

    @cached_property
    def _driven(self) -> list[Panel]:
        return self.panels if self.over == DRIVER else driven_by_several(self.runs)

    @cached_property
    def agreements(self) -> list[Agreement]:
        """Return the agreements of the drivers that offered the same load."""
        return agreements(self._driven)

    @cached_property
    def warnings(self) -> list[RunWarning]:
        return [warning for panel in self.comparable for warning in panel_warnings(panel)]

    @cached_property
    def _uncontrolled(self) -> list[RunWarning]:
        return uncontrolled(self.runs)

    @cached_property
    def _rests_on(self) -> tuple[str, Mapping[str, list[str]]]:
        return apart(
            (f"{where}, {group.b.marked_name} against {group.a.marked_name}", group.rests_on)
            for where, group in self.answers
        )

    @cached_property
    def ceilings(self) -> list[tuple[Panel, Arm, Ceilings]]:
        """Return what faster devices could gain at most on each arm."""
        return [
            (panel, arm, arm_ceilings)
            for panel in self.panels
            for arm in panel.arms
            if (arm_ceilings := ceilings(arm.usable)) is not None
        ]

    @property
    def _hostnames(self) -> list[str]:
        return [run.head.host.hostname for run in self.runs if run.head.host]

    def hosts_json(self) -> dict[str, Any]:
        """Return what hosts are compared by, and their models, for ``harness report --json``."""
        return {
            "comparisons": [*hosts_json(self.comparable, self.prices)],
            **self.of_hosts.to_json(dict.fromkeys(self._hostnames)),
        }
