"""All verdicts of a device's card: of the practices' trials, and of the knees of its curves."""

from __future__ import annotations

from reports.micro.hypotheses import Verdict, verdicts_of
from reports.micro.points import Device
from reports.micro.practice_tests import trials
from reports.micro.saturation import knees


def verdicts(device: Device) -> dict[str, Verdict]:
    """By the key of the trial or knee, judged as one family."""
    claims = {one.key: one.claim for one in (*trials(device), *knees(device)) if one.claim}
    return verdicts_of(claims)
