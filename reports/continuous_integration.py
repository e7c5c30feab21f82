"""Comparisons as tests of a continuous integration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from harness.supervise.user_files import replacing
from reports.compare import Comparison, Group
from reports.formatting import interval_text, times
from reports.labels import in_words


@dataclass(frozen=True)
class Tested:
    """A test: a comparison, or what could not be compared. ``failure``: empty if it passes."""

    name: str
    failure: str
    found: str


def tests_of(comparison: Comparison, above: float, inconclusive_fails: bool) -> list[Tested]:
    """Return a test for each comparison, and each series without a counterpart."""
    found = []
    for name, group in _named(comparison.groups):
        why = ""
        if group.regressed(above):
            why = f"worse by more than {above:.0%}: {_ratio(group)}"
        elif inconclusive_fails and group.inconclusive(above):
            why = f"inconclusive: {_ratio(group)}"
        found.append(Tested(name, why, _ratio(group)))
    for series in comparison.unmatched:
        why = "not compared, without a counterpart"
        found.append(Tested(series, why if inconclusive_fails else "", why))
    return found


def tests_of_runs(failed: Mapping[str, str]) -> list[Tested]:
    """Return a test for each failed run, by its id; values say why it failed."""
    return [Tested(run_id, f"failed: {why}", "no result") for run_id, why in failed.items()]


def _named(groups: Collection[Group]) -> Iterator[tuple[str, Group]]:
    """Name each comparison: ``postgres, users 4: candidate against release``."""
    facts = {fact for group in groups for fact in group.context}
    apart = [f for f in facts if len({group.context.get(f) for group in groups}) > 1]
    for group in groups:
        words = (in_words(f, v) for f, v in group.context.items() if f in apart and f != "engine")
        where = ", ".join(filter(None, [group.context.get("engine", ""), *words]))
        yield f"{where}: {group.b.name} against {group.a.name}".removeprefix(": "), group


def _ratio(group: Group) -> str:
    row = group.deciding
    if row is None or row.estimate is None:
        return "no ratio"
    return f"{row.title} {times(row.estimate.value)} {interval_text(row.estimate)}"


def _printable(text: str) -> str:
    """Return the text as XML can have it: the last lines of a log may have any character."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def write_junit(path: Path, tests: Collection[Tested]) -> None:
    """Write a JUnit file; OSError where that cannot be."""
    suite = ElementTree.Element(
        "testsuite",
        name="harness compare",
        tests=str(len(tests)),
        failures=str(sum(bool(one.failure) for one in tests)),
    )
    for one in tests:
        case = ElementTree.SubElement(suite, "testcase", classname="harness.compare", name=one.name)
        if one.failure:
            ElementTree.SubElement(case, "failure", message=_printable(one.failure))
        ElementTree.SubElement(case, "system-out").text = one.found
    with replacing(path) as file:
        ElementTree.ElementTree(suite).write(file, encoding="utf-8", xml_declaration=True)
