"""The commands by name; a command's module is imported when it is used."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

import harness

#: In the order of the help: the module of harness.cli that has the command as a function of that
#: name, or sub-commands as ``app``.
_MODULES = {
    "doctor": "doctor",
    "calibrate": "calibrate",
    "run": "run",
    "experiment": "experiment",
    "whatif": "whatif",
    "runs": "runs",
    "data": "data",
    "compare": "results",
    "explain": "explain",
    "report": "results",
    "repro": "results",
    "engines": "engines",
    "micro": "micro",
    "card": "card",
    "rewrite": "rewrite",
    "paper": "paper",
    "conclusions": "conclusions",
    "selftest": "selftest",
    "host": "host",
}


class _Commands(MutableMapping[str, Any]):
    """What typer looks commands up in."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module = import_module(f"harness.cli.{_MODULES[name]}")
            alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
            if hasattr(module, "app"):
                alone.add_typer(module.app, name=name)
            else:
                alone.command(name)(getattr(module, name))
            self._made[name] = get_group(alone).commands[name]
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


class _Root(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": None})
        self.commands = _Commands()


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
