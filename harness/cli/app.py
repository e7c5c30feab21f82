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
#: command as a function of that name, or sub-commands as ``app``.
_MODULES = {
    "doctor": "doctor",
    "advise": "advise",
    "run": "run",
    "compare": "results",
    "report": "results",
    "calibrate": "calibrate",
    "experiment": "experiment",
    "model": "model",
    "curve": "curve",
    "runs": "runs",
    "workload": "workload",
    "data": "data",
    "explain": "results",
    "repro": "results",
    "engines": "engines",
    "micro": "micro",
    "card": "results",
    "rewrite": "rewrite",
    "paper": "paper",
    "conclusions": "results",
    "selftest": "selftest",
    "host": "host",
}


#: The number of commands that a newcomer needs.
_FIRST_DAY = 5


class _Root(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": dict.fromkeys(_MODULES)})

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands of the first day apart."""
        rows = []
        for name in self.list_commands(ctx):
            width = formatter.width - 6 - max(map(len, _MODULES))
            rows.append((name, _command(name).get_short_help_str(limit=width)))
        for title, own in (("First day", rows[:_FIRST_DAY]), ("Commands", rows[_FIRST_DAY:])):
            with formatter.section(title):
                formatter.write_dl(own)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import its module; None for another name."""
        return _command(cmd_name) if cmd_name in _MODULES else None


@cache
def _command(name: str) -> Any:
    module = import_module(f"harness.cli.{_MODULES[name]}")
    alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if hasattr(module, "app"):
        alone.add_typer(module.app, name=name)
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
