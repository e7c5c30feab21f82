"""The commands by name; a command's module is imported when it is used."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

import harness

#: In the order of the help, those of the first day first: the module of harness.cli that has the
#: command as a function of that name, or sub-commands as ``app``; and the command's line in the
#: help, which imports no module of a command.
_COMMANDS = {
    "doctor": ("doctor", "Show tiers, host mode, engines, tools, uncontrolled settings."),
    "advise": ("advise", "Answer which part should move to a faster device."),
    "run": ("run", "Run a workload. Rerunning the command resumes an interrupted run."),
    "compare": ("results", "Compare two sets of runs: ratios, intervals, a verdict."),
    "report": ("results", "Write a page in HTML, Markdown and CSV, with figures."),
    "calibrate": ("calibrate", "Measure how much identical runs differ on this host."),
    "experiment": ("experiment", "Run a profile: a YAML file of axes that expands to runs."),
    "model": ("model", "List, show and make models of devices."),
    "curve": ("curve", "Measure performance over the latency of a device."),
    "runs": ("runs", "List, show, remove, export and import runs."),
    "workload": ("workload", "Your own workload: a folder of tables, data, queries."),
    "data": ("data", "List, remove and verify datasets."),
    "explain": ("results", "Compare waits, devices and models of placements, or arms."),
    "repro": ("results", "Repeat a run from its manifest and compare the results."),
    "engines": ("engines", "List engines; install pinned versions."),
    "micro": ("micro", "List and show suites of microbenchmarks."),
    "card": ("results", "Write a page per device: preferences, practices, prices."),
    "rewrite": ("rewrite", "Replace flush instructions in a program or library."),
    "paper": ("paper", "Run a paper's figures; write published next to measured."),
    "conclusions": ("results", "Test the papers' conclusions on stored runs."),
    "selftest": ("selftest", "Plant effects and faults; report whether they are found."),
    "host": ("host", "Set hosts up: persistent memory, CXL, settings, engines."),
}


#: The number of commands that a newcomer needs.
_FIRST_DAY = 5


class _Root(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": dict.fromkeys(_COMMANDS)})

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands of the first day apart."""
        rows = [(name, summary) for name, (_, summary) in _COMMANDS.items()]
        for title, own in (("First day", rows[:_FIRST_DAY]), ("Commands", rows[_FIRST_DAY:])):
            with formatter.section(title):
                formatter.write_dl(own)

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
    return get_group(alone).commands[name]


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
