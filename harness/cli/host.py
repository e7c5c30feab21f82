"""``harness host``: set a host up by the playbooks."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.common import JsonOption, QuietOption, key_values, print_json
from harness.errors import HarnessError, RunFailed, UsageError
from harness.host.confounders import TUNED, uncontrolled
from harness.progress import progress_on_stderr
from harness.provision.playbook import (
    MODES,
    Action,
    HostOutcome,
    Mode,
    PlaybookRun,
    check_variables,
    find_mode,
    playbook_for,
    run_playbook,
)
from harness.store.documents import as_json
from harness.store.spec import JsonObject
from harness.terminal import print_table, say
from harness.yamlfile import parse_yaml

app = typer.Typer(
    no_args_is_help=True,
)

_ModeArgument = Annotated[str, typer.Argument(metavar="MODE", help=", ".join(MODES))]
_InventoryOption = Annotated[
    Path | None,
    typer.Option("--inventory", "-i", help="Ansible inventory of other hosts [this host]."),
]
_LimitOption = Annotated[
    str | None, typer.Option("--limit", metavar="HOST", help="Only these hosts of the inventory.")
]
_SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A variable of the playbook; repeatable."),
]
_ConfirmOption = Annotated[
    bool, typer.Option("--confirm-destroy", help="Destroy what --destroy names.")
]
_DestroyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--destroy", metavar="[HOST:]NAME", help="Object to destroy, as planned; repeatable."
    ),
]
_DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the steps; change nothing.")]


@app.command("modes")
def modes(json_: JsonOption = False) -> None:
    """List the modes that a host can be set up in."""
    rows = [{"mode": m.name, "what": m.help, "playbook": m.playbook} for m in MODES.values()]
    if json_:
        print_json({"modes": rows})
        return
    print_table(("mode", "what", "playbook"), [tuple(row.values()) for row in rows])


def _reading(action: Action) -> Callable[..., None]:
    def command(
        mode: _ModeArgument,
        inventory: _InventoryOption = None,
        limit: _LimitOption = None,
        set_: _SetOption = None,
        json_: JsonOption = False,
        quiet: QuietOption = False,
    ) -> None:
        request = _request(action, find_mode(mode), _variables(set_), inventory, limit)
        _act(action, mode, request, json_, quiet)

    return command


def _changing(action: Action) -> Callable[..., None]:
    def command(
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
        variables = _variables(set_) | _destruction(confirm_destroy, destroy)
        request = _request(action, find_mode(mode), variables, inventory, limit, dry_run)
        _act("plan" if dry_run and action == "apply" else action, mode, request, json_, quiet)

    return command


app.command("plan", help="List what apply would do and destroy; change nothing.")(_reading("plan"))
app.command("apply", help="Set the host up; rerun to resume after an interruption.")(
    _changing("apply")
)
app.command("verify", help="Compare the host with the mode; exit status 1 if it deviates.")(
    _reading("verify")
)
app.command("restore", help="Restore the state before the first apply.")(_changing("restore"))


#: Variables of the options --confirm-destroy and --destroy.
_CONSENTING = ("confirm_destroy", "destroy")


def _request(
    action: Action,
    mode: Mode,
    variables: JsonObject,
    inventory: Path | None,
    limit: str | None,
    dry_run: bool = False,
) -> PlaybookRun:
    if inventory is not None and not inventory.exists():
        raise UsageError(f"--inventory {inventory}", "no such file", "inventory/ has examples")
    playbook, of_playbook = playbook_for(mode, action)
    check_variables(playbook, [name for name in variables if name not in _CONSENTING])
    check = dry_run or action == "plan"
    return PlaybookRun(playbook, {**of_playbook, **variables}, check, inventory, limit)


def _variables(items: Sequence[str] | None) -> dict[str, Any]:
    """Return the values as YAML reads them: ``true`` and ``[region0]`` are not texts."""
    variables: dict[str, Any] = {}
    for key, text in key_values(items, "--set").items():
        if key in _CONSENTING:
            raise UsageError(
                f"--set {key}",
                "an option sets this variable",
                "use --confirm-destroy --destroy NAME",
            )
        try:
            variables[key] = parse_yaml(text, f"--set {key}").value
        except UsageError as error:
            raise UsageError(f"--set {key}={text}", error.context, "quote it") from error
    return variables


def _destruction(confirmed: bool, names: Sequence[str] | None) -> dict[str, Any]:
    if names and not confirmed:
        raise UsageError(f"--destroy {names[0]}", "it is not confirmed", "add --confirm-destroy")
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
            "some names have a host, others do not",
            "write HOST:NAME for each",
        )
    return {"confirm_destroy": True, "destroy": by_host or list(names or [])}


def _act(action: Action, mode: str, request: PlaybookRun, json_: bool, quiet: bool) -> None:
    with progress_on_stderr(quiet) as progress:
        outcomes = run_playbook(request, progress)
    error = _error(action, mode, outcomes, request.check)
    here = mode == "tune" and action == "plan" and request.inventory is None
    settings = uncontrolled(idle=True) if here else ()
    others = [setting for setting in settings if setting.code not in TUNED]
    if json_:
        print_json(
            {
                "action": action,
                "mode": mode,
                "playbook": request.playbook,
                "dry_run": request.check,
                "hosts": as_json(outcomes),
                "not_set": [setting.to_json() for setting in others],
                "error": error.to_json() if error else None,
            }
        )
        if error:
            say(f"harness: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code if error else 0)
    for outcome in outcomes:
        _print(outcome, request.check or action == "verify", len(outcomes) > 1)
    if others:
        say("not controlled, and not set by tune:")
        for setting in others:
            say(f"  {setting.code}: {setting.hint}")
    if error:
        raise error


def _print(outcome: HostOutcome, planned: bool, several_hosts: bool) -> None:
    fact = outcome.provisioning
    if not outcome.steps and not outcome.refusals and not outcome.failures:
        say(f"{outcome.host}: nothing to do")
    elif outcome.steps:
        count = f"{len(outcome.steps)} step{'' if len(outcome.steps) == 1 else 's'}"
        say(f"{outcome.host}: {count}{', nothing is changed' if planned else ''}")
        print_table(
            ("do", "object", "why"),
            [(s.get("do"), s.get("object"), s.get("why")) for s in outcome.steps],
        )
    for note in fact.get("notes", ()):
        say(f"note: {note}")
    if planned and fact.get("destroy"):
        options = consent_options(fact["destroy"], outcome.host if several_hosts else None)
        say(f"destroys data; to confirm: {options}")
    for missing in fact.get("missing", ()):
        say(f"missing: {missing['what']}: {missing['found']}\n  {missing['do']}")


def consent_options(names: Sequence[str], host: str | None) -> str:
    """The options that consent to a plan; ``host``: where it is one of several."""
    of_host = f"{host}:" if host else ""
    return " ".join(["--confirm-destroy", *(f"--destroy {of_host}{name}" for name in names)])


def _error(
    action: Action, mode: str, outcomes: Sequence[HostOutcome], check: bool
) -> HarnessError | None:
    """UsageError for a refusal, RunFailed for a failed step or a deviation."""
    problem = f"{action} {mode}"
    refused = [o for o in outcomes if o.refusals and (check or not o.changed_further)]
    failed = [o for o in outcomes if o.failures and o not in refused]
    if failed:
        context = "; ".join(f"{o.host}: {failure}" for o in failed for failure in o.failures)
        return RunFailed(problem, context, _HINTS[action])
    refusals = [(o.host, refusal) for o in refused for refusal in o.refusals]
    if not refusals:
        return None
    context = "; ".join(f"{host}: {item['object']}: {item['why']}" for host, item in refusals)
    hint = "; ".join(dict.fromkeys(item["do"] for _, item in refusals if item.get("do")))
    packages = sorted({name for o in refused for name in o.installed_packages})
    installed = f"packages were installed ({', '.join(packages)}), nothing else" if packages else ""
    return UsageError(
        problem, f"{context}; {installed or 'nothing'} was changed", _as_options(hint)
    )


def _as_options(hint: str) -> str:
    """The options of this command for those of ansible-playbook."""
    hint = _CONSENT.sub(lambda match: consent_options(parse_yaml(match[1], hint).value, None), hint)
    return re.sub(r"-e (pmem|cxl)_", r"--set \1_", hint)


#: The consent to what a plan destroys, as a variable of a playbook.
_CONSENT = re.compile(r"""-e '\{"confirm_destroy": true, "destroy": (\[.*?\])\}'""")


_HINTS: dict[Action, str] = {
    "plan": "",
    "apply": "fix that and rerun the command: it resumes",
    "verify": "run harness host apply",
    "restore": "fix that and rerun the command: it resumes",
}
