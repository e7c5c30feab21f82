"""The sentence in which a workload answers its question, filled in from each arm's medians."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.metrics import workload_info
from harness.store.spec import JsonObject
from harness.units import counted
from reports.arm import Arm
from reports.formatting import significant
from reports.series import Panel

#: ``{metric}``, ``{share %}`` and ``{parameter noun}``.
_FIELD = re.compile(r"\{(?P<name>\w+)(?: (?P<noun>[\w%]+))?\}")


@dataclass(frozen=True)
class WorkloadAnswer:
    """``where``: engine and arm that it is of."""

    where: str
    sentence: str

    @property
    def text(self) -> str:
        """``postgres 18.4, ssd-both: with 4 terminals and 1 stream: …``."""
        return f"{self.where}: {self.sentence}"


def workload_answers(panels: Sequence[Panel]) -> Iterator[WorkloadAnswer]:
    """Yield the answer of each arm; none of a workload without one, or of runs without a value."""
    for panel in panels:
        template = workload_info(panel.workload).answer
        for arm in panel.arms if template else ():
            if arm.usable and (sentence := _filled(template, arm.usable[0].spec.params, arm)):
                yield WorkloadAnswer(f"{panel.title}, {arm.marked_name}", sentence)


def _filled(template: str, params: JsonObject, arm: Arm) -> str:
    """Fill in a template; empty where a metric has no value."""
    values: Mapping[str, float] = {
        quantity.name: point.summary.median
        for quantity, point in arm.points.items()
        if not quantity.labels and point.samples
    }
    missing = False

    def text(match: re.Match[str]) -> str:
        nonlocal missing
        name, noun = match["name"], match["noun"]
        parameter = params.get(name)
        if isinstance(parameter, int) and noun:
            return counted(parameter, noun)
        if name not in values:
            missing = True
            return ""
        if noun == "%":
            return f"{100 * values[name]:.0f} %"
        return significant(values[name]).removesuffix(".0")

    sentence = _FIELD.sub(text, template)
    return "" if missing else sentence
