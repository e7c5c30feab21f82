"""Several devices side by side: the same questions, each device's answer in a column."""

from __future__ import annotations

from collections.abc import Sequence

from reports.formatting import EMULATED
from reports.micro.findings import findings
from reports.micro.points import Device
from reports.micro.practices import practices
from reports.micro.prices import NOTHING

Rows = tuple[tuple[str, ...], ...]


def head(devices: Sequence[Device]) -> tuple[str, ...]:
    """The devices' names; those that are emulated say so."""
    return ("", *(marked_name(device) for device in devices))


def marked_name(device: Device) -> str:
    """With EMULATED behind it where it is."""
    return device.name + (f" ({EMULATED})" if device.emulated else "")


def answers(devices: Sequence[Device]) -> Rows:
    """Every question that one of them answers, in the first one's order."""
    held = [{one.question: one.answer for one in findings(device)} for device in devices]
    questions = dict.fromkeys(question for one in held for question in one)
    return tuple(
        (question, *(one.get(question, NOTHING) for one in held)) for question in questions
    )


def outcomes(devices: Sequence[Device]) -> Rows:
    """The practices, confirmed, refuted or not testable on each."""
    held = [practices(device) for device in devices]
    return tuple(
        (f"{same[0].number}. {same[0].text}", *(one.outcome for one in same))
        for same in zip(*held, strict=True)
    )
