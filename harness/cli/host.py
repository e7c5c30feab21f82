"""``harness host``: set a host up by the playbooks, without speaking Ansible."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.common import JsonOption, QuietOption, key_values, print_json, print_table
from harness.errors import HarnessError, RunFailed, UsageError
from harness.progress import progress_on_stderr
from harness.provision.modes import MODES, Action, Mode, asked_of, find_mode
from harness.provision.playbook import Asked, HostOutcome, run_playbook
from harness.yamlfile import parse_yaml

app = typer.Typer(
    help="Set hosts up: persistent memory, CXL, host settings, engines (docs/provisioning.md).",
    no_args_is_help=True,
)

_ModeArgument = Annotated[str, typer.Argument(metavar="MODE", help=", ".join(MODES))]
_InventoryOption = Annotated[
    Path | None,
    typer.Option("--inventory", "-i", help="Ansible inventory of other hosts [this host]."),
]
_LimitOption = Annotated[
    str | None, typer.Option("--limit", help="Only these hosts of the inventory.")
]
_SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A variable of the playbook; may repeat."),
]
_ConfirmOption = Annotated[
    bool,
    typer.Option("--confirm-destroy", help="Destroy what --destroy names; nothing without."),
]
_DestroyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--destroy",
        metavar="NAME",
        help="What the plan says it destroys, by its exact name; of several hosts HOST:NAME; "
        "may repeat.",
    ),
]
_DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the plan; change nothing.")]


@app.command("modes")
def modes(json_: JsonOption = False) -> None:
    """What a host can be set up as."""
    rows = [{"mode": m.name, "what": m.help, "playbook": m.playbook} for m in MODES.values()]
    if json_:
        print_json({"modes": rows})
        return
    print_table(("mode", "what", "playbook"), [tuple(row.values()) for row in rows])


@app.command("plan")
def plan(
    mode: _ModeArgument,
    inventory: _InventoryOption = None,
    limit: _LimitOption = None,
    set_: _SetOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """What apply would do and destroy, by exact names; changes nothing."""
    chosen = find_mode(mode)
    _act("plan", chosen, Where(inventory, limit), _variables(set_), json_, quiet)


@app.command("apply")
def apply(
    mode: _ModeArgument,
    confirm_destroy: _ConfirmOption = False,
    destroy: _DestroyOption = None,
    dry_run: _DryRunOption = False,
    inventory: _InventoryOption = None,
    limit: _LimitOption = None,
    set_: _SetOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Set the host up; a second time changes nothing, and what was cut off is gone on with."""
    variables = _variables(set_) | _destruction(confirm_destroy, destroy)
    action: Action = "plan" if dry_run else "apply"
    _act(action, find_mode(mode), Where(inventory, limit), variables, json_, quiet)


@app.command("verify")
def verify(
    mode: _ModeArgument,
    inventory: _InventoryOption = None,
    limit: _LimitOption = None,
    set_: _SetOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Whether the kernel has it so; exit status 1 and what deviates where not."""
    _act("verify", find_mode(mode), Where(inventory, limit), _variables(set_), json_, quiet)


@app.command("restore")
def restore(
    mode: _ModeArgument,
    confirm_destroy: _ConfirmOption = False,
    destroy: _DestroyOption = None,
    dry_run: _DryRunOption = False,
    inventory: _InventoryOption = None,
    limit: _LimitOption = None,
    set_: _SetOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Back to what was there before the first apply."""
    variables = _variables(set_) | _destruction(confirm_destroy, destroy)
    where = Where(inventory, limit)
    _act("restore", find_mode(mode), where, variables, json_, quiet, dry_run=dry_run)


class Where:
    """Which hosts."""

    def __init__(self, inventory: Path | None, limit: str | None) -> None:
        if inventory is not None and not inventory.exists():
            raise UsageError(f"--inventory {inventory}", "no such file", "inventory/ has examples")
        self.inventory = inventory
        self.limit = limit


def _variables(items: Sequence[str] | None) -> dict[str, Any]:
    """Values as YAML reads them: ``true`` and ``[region0]`` are not texts."""
    found: dict[str, Any] = {}
    for key, text in key_values(items, "--set").items():
        if key in ("confirm_destroy", "destroy"):
            raise UsageError(
                f"--set {key}",
                "it has an option of its own",
                "say --confirm-destroy --destroy NAME",
            )
        try:
            found[key] = parse_yaml(text, f"--set {key}").value
        except UsageError as error:
            raise UsageError(f"--set {key}={text}", error.context, "quote it") from error
    return found


def _destruction(confirmed: bool, names: Sequence[str] | None) -> dict[str, Any]:
    if names and not confirmed:
        raise UsageError(
            f"--destroy {names[0]}", "it is not confirmed", "add --confirm-destroy to mean it"
        )
    if not confirmed:
        return {}
    by_host: dict[str, list[str]] = {}
    for name in names or ():
        host, colon, object_ = name.partition(":")
        if colon:
            by_host.setdefault(host, []).append(object_)
    if by_host and sum(map(len, by_host.values())) < len(names or ()):
        raise UsageError(
            "--destroy",
            "some names say their host, others do not",
            "write HOST:NAME for all of them",
        )
    return {"confirm_destroy": True, "destroy": by_host or list(names or [])}


def _act(
    action: Action,
    mode: Mode,
    where: Where,
    variables: dict[str, Any],
    json_: bool,
    quiet: bool,
    dry_run: bool = False,
) -> None:
    playbook, more = asked_of(mode, action)
    check = dry_run or action == "plan"
    asked = Asked(playbook, {**more, **variables}, check, where.inventory, where.limit)
    with progress_on_stderr(quiet) as progress:
        outcomes = run_playbook(asked, progress)
    error = _error(action, mode, outcomes, check)
    if json_:
        told = {"action": action, "mode": mode.name, "playbook": playbook, "dry_run": check}
        hosts = [outcome.to_json() for outcome in outcomes]
        print_json(told | {"hosts": hosts, "error": error.to_json() if error else None})
        if error:
            print(f"harness: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code if error else 0)
    for outcome in outcomes:
        _print(outcome, planned=check or action == "verify", one_of=len(outcomes))
    if error:
        raise error


def _print(outcome: HostOutcome, planned: bool, one_of: int) -> None:
    told = outcome.provisioning
    if not outcome.steps and not outcome.refusals and not outcome.failures:
        print(f"{outcome.host}: nothing to do")
    elif outcome.steps:
        count = f"{len(outcome.steps)} step{'' if len(outcome.steps) == 1 else 's'}"
        print(f"{outcome.host}: {count}{', nothing is changed' if planned else ''}")
        print_table(
            ("do", "object", "why"),
            [(s.get("do"), s.get("object"), s.get("why")) for s in outcome.steps],
        )
    for note in told.get("notes", ()):
        print(f"note: {note}")
    if planned and told.get("destroy"):
        words = consent_words(told["destroy"], outcome.host if one_of > 1 else None)
        print(f"destroys what is on it; to mean it: {words}")
    for missing in told.get("missing", ()):
        print(f"not here: {missing['what']}: {missing['found']}\n  {missing['do']}")


def consent_words(names: Sequence[str], host: str | None) -> str:
    """The options that consent to a plan; ``host``: where it is one of several."""
    of_host = f"{host}:" if host else ""
    return " ".join(["--confirm-destroy", *(f"--destroy {of_host}{name}" for name in names)])


def _error(
    action: Action, mode: Mode, outcomes: Sequence[HostOutcome], check: bool
) -> HarnessError | None:
    """A refusal is known before anything is touched (2); what deviates or fails is not (1)."""
    asked = f"{action} {mode.name}"
    refused = [o for o in outcomes if o.refusals and (check or not o.changed)]
    failed = [o for o in outcomes if o.failures and o not in refused]
    if failed:
        found = "; ".join(f"{o.host}: {failure}" for o in failed for failure in o.failures)
        return RunFailed(asked, found, _WHAT_NEXT[action])
    refusals = [(o.host, refusal) for o in refused for refusal in o.refusals]
    if not refusals:
        return None
    found = "; ".join(f"{host}: {one['object']}: {one['why']}" for host, one in refusals)
    do = "; ".join(dict.fromkeys(one["do"] for _, one in refusals if one.get("do")))
    return UsageError(asked, f"{found}; nothing was changed", do)


_WHAT_NEXT: dict[Action, str] = {
    "plan": "",
    "apply": "run it again when that is put right: it goes on where it stopped",
    "verify": "harness host apply makes it so",
    "restore": "run it again when that is put right: it goes on where it stopped",
}
