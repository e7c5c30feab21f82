"""Comparisons as tests of a continuous integration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from harness.supervise.user_files import replacing
from reports.compare import Comparison, Group
from reports.formatting import interval_text, times


def name_of(group: Group) -> str:
    """Return the name of a comparison's test: ``postgres: candidate against release``."""
    engine = group.context.get("engine", "")
    return f"{engine}: {group.b.name} against {group.a.name}".removeprefix(": ")


def failures_of(
    comparison: Comparison, above: float, inconclusive_fails: bool
) -> Mapping[str, str]:
    """Return why tests fail, by name: regressions, and on request what is inconclusive."""
    found = {}
    for group in comparison.groups:
        if group.regressed(above):
            found[name_of(group)] = f"worse by more than {above:.0%}: {_ratio(group)}"
        elif inconclusive_fails and group.inconclusive(above):
            found[name_of(group)] = f"inconclusive: {_ratio(group)}"
    return found


def _ratio(group: Group) -> str:
    row = group.deciding
    if row is None or row.estimate is None:
        return "no ratio"
    return f"{row.title} {times(row.estimate.value)} {interval_text(row.estimate)}"


def write_junit(path: Path, comparison: Comparison, failures: Mapping[str, str]) -> None:
    """Write a JUnit file with a test for each comparison."""
    suite = ElementTree.Element(
        "testsuite",
        name="harness compare",
        tests=str(len(comparison.groups)),
        failures=str(len(failures)),
    )
    for group in comparison.groups:
        name = name_of(group)
        case = ElementTree.SubElement(suite, "testcase", classname="harness.compare", name=name)
        if name in failures:
            ElementTree.SubElement(case, "failure", message=failures[name])
        ElementTree.SubElement(case, "system-out").text = _ratio(group)
    with replacing(path) as file:
        ElementTree.ElementTree(suite).write(file, encoding="utf-8", xml_declaration=True)
