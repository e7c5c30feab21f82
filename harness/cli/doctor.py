"""``harness doctor``: what is here, and what would make measurements doubtful."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from harness.cli.common import HostOption, JsonOption, print_json, print_table
from harness.cli.engines import engine_rows
from harness.host.doctor import examine
from harness.opening import open_tiers
from harness.units import format_bytes


def doctor(
    host: HostOption = None,
    emulate: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    json_: JsonOption = False,
) -> None:
    """Tiers and their verified kind, host mode, engines, tools, CPU, and what is uncontrolled."""
    tiers, problems = open_tiers(host, emulate or [])
    found = examine(list(tiers.values()))
    found["tiers"] = [tier.to_json() for tier in tiers.values()]
    found["tier_problems"] = problems
    found["engines"] = engine_rows()
    if json_:
        print_json(found)
        return
    _print(found)


def _print(found: dict[str, Any]) -> None:
    print(f"Host mode: {found}")
    print(format_bytes(0))
    print_table(("",), [])
