"""The commands by name; a command's module is imported when it is used."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

import harness

#: Commands by the panel of the help: the module of harness.cli that has the command as a function
#: of that name, or sub-commands as ``app``; and the command's line in the help, which imports no
#: module of a command.
_PANELS = {
    "First day": {
        "doctor": ("doctor", "Show tiers, host mode, engines, tools, uncontrolled settings."),
        "advise": ("advise", "Answer which part should move to a faster device."),
        "run": ("run", "Run a workload. Rerunning the command resumes an interrupted run."),
        "compare": ("results", "Compare two sets of runs: ratios, intervals, a verdict."),
        "report": ("results", "Write a page in HTML, Markdown and CSV, with figures."),
    },
    "Runs": {
        "runs": ("runs", "List, show, remove, export and import runs."),
        "experiment": ("experiment", "Run a profile: a YAML file of axes that expands to runs."),
        "site": ("site", "Write a static site of results stores, for a team."),
        "explain": ("results", "Compare waits, devices and models of placements, or arms."),
        "calibrate": ("calibrate", "Measure how much identical runs differ on this host."),
        "repro": ("results", "Repeat a run from its manifest and compare the results."),
        "paper": ("paper", "Run a paper's figures; write published next to measured."),
        "conclusions": ("results", "Test the papers' conclusions on stored runs."),
    },
    "Models": {
        "model": ("model", "List, show and make models of devices."),
        "curve": ("curve", "Measure performance over the latency of a device."),
    },
    "Devices": {
        "micro": ("micro", "List and show suites of microbenchmarks; `run micro` runs one."),
        "card": ("results", "Write a page per device: preferences, practices, prices."),
        "flushes": ("flushes", "Count the flushes and fences that a program executes."),
        "rewrite": ("rewrite", "Replace flush instructions in a program or library."),
    },
    "Hosts": {
        "host": ("host", "Set hosts up: persistent memory, CXL, settings, engines."),
        "engines": ("engines", "List engines; install pinned versions."),
        "selftest": ("selftest", "Plant effects and faults; report whether they are found."),
    },
    "Data": {
        "data": ("data", "List, remove and verify datasets."),
        "workload": ("workload", "Your own workload: a folder of tables, data, queries."),
    },
}
_COMMANDS = {name: entry for panel in _PANELS.values() for name, entry in panel.items()}


class _Root(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": dict.fromkeys(_COMMANDS)})

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands by panel, with the summaries in one column."""
        width = max(map(len, _COMMANDS))
        for title, panel in _PANELS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{n:{width}}", summary) for n, (_, summary) in panel.items()])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import its module; None for another name."""
        return _command(cmd_name) if cmd_name in _COMMANDS else None


@cache
def _command(name: str) -> Any:
    module_name, summary = _COMMANDS[name]
    module = import_module(f"harness.cli.{module_name}")
    alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if hasattr(module, "app"):
        alone.add_typer(module.app, name=name, help=summary)
    else:
        alone.command(name, cls=getattr(module, "command_class", None))(getattr(module, name))
    command = get_group(alone).commands[name]
    _name_values(command)
    return command


def _name_values(command: Any) -> None:
    """Give each value without a metavariable one in upper case: N, FILE, or the option's name."""
    for child in getattr(command, "commands", {}).values():
        _name_values(child)
    for param in command.params:
        if param.metavar is not None or getattr(param, "is_flag", False):
            continue
        kind, argument = str(param.type.name), param.param_type_name == "argument"
        if kind == "choice":
            param.metavar = "|".join(param.type.choices)
        elif kind.startswith(("int", "float")):
            param.metavar = "N"
        else:
            name = param.name.strip("_").upper().replace("_", "-")
            name = "FILE" if kind in ("path", "file") and not argument else name
            several = "..." if argument and param.nargs == -1 else ""
            param.metavar = (name if param.required or not argument else f"[{name}]") + several


app = typer.Typer(
    name="harness",
    cls=_Root,
    help="Does a faster or larger memory tier pay off for a real database, and why?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        print(f"harness (tierbench) {harness.__version__}")
        raise typer.Exit()
