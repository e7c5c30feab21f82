"""All verdicts of a device's card: of the practices' trials, and of the knees of its curves."""

from __future__ import annotations

from harness.reports.micro.claims import Verdict, verdicts_of
from harness.reports.micro.knees import knees
from harness.reports.micro.points import Device
from harness.reports.micro.trials import trials


def verdicts(device: Device) -> dict[str, Verdict]:
    """By the key of the trial or knee, judged as one family."""
    claims = {one.key: one.claim for one in (*trials(device), *knees(device)) if one.claim}
    return verdicts_of(claims)
