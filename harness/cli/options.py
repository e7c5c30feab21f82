"""Commands made from typed options: a dataclass of common options and a workload's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from harness import registry
from harness.cli.common import (
    DryRunOption,
    EmulateOption,
    HostOption,
    JsonOption,
    QuietOption,
    ResultsOption,
    RetriesOption,
    key_values,
)
from harness.errors import UsageError, nearest, unknown
from harness.micro.keys import MicroParams
from harness.workloads.kinds import Choice, Count, Flag, Number, Time
from harness.workloads.parameters import Parameter, Parameters, option_text

#: Of a parameter of the callback; the options' dataclass has names of its own.
_OWN = "own_"
_LONGEST_METAVAR = 45


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options of every command that makes runs. The metadata of each field is its annotation's."""

    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", metavar="NAME=VALUE", help="Any workload parameter; may repeat."
        ),
    ] = None
    repeats: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Interleaved repeats [1; micro: the suite's]."),
    ] = None
    cpus: Annotated[
        str | None,
        typer.Option(help="Processors to use: 0-7,16-23, socket:0, node:0 [all]."),
    ] = None
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random choices of a run.")] = 0
    again: Annotated[
        bool, typer.Option("--again", help="Start from scratch; resume no interrupted run.")
    ] = False
    retries: RetriesOption = 1
    dry_run: DryRunOption = False
    monitor: Annotated[
        list[str] | None,
        typer.Option(help="Monitor to add (`harness doctor` lists them); may repeat."),
    ] = None
    no_monitor: Annotated[
        list[str] | None, typer.Option("--no-monitor", help="Monitor to leave out; may repeat.")
    ] = None
    emulate: EmulateOption = None
    host: HostOption = None
    results: ResultsOption = None
    json_: JsonOption = False
    quiet: QuietOption = False
    #: The parameters of ``param`` and of the command's own options; not an option itself.
    pairs: Mapping[str, str] = field(default_factory=dict)


T = TypeVar("T", bound=CommonOptions)


def callback(
    options: type[T],
    start: Callable[[T], None],
    parameters: type[Parameters] | None = None,
    without: Collection[str] = (),
) -> Callable[..., None]:
    """Make a command's function from its options.

    ``start`` gets the options of the dataclass, ``without`` some fields; the options of
    ``parameters`` are another form of ``--param`` and are added to it. An option of theirs
    replaces the dataclass's option of that name.
    """
    by_option = parameters.options() if parameters else {}

    def command(**given: Any) -> None:
        pairs = key_values(given.get("param"), "--param")
        for parameter in by_option.values():
            value = given.pop(_OWN + parameter.field)
            if value is None or value == []:
                continue
            text = str(value).lower() if isinstance(value, bool) else value
            if parameter.repeats:
                text = ",".join(value)
            name = parameter.name
            if name in pairs:
                raise UsageError(
                    f"{parameter.option} {text} and --param {name}={pairs[name]}",
                    f"{name} is given twice",
                    "leave one of the two out",
                )
            pairs[name] = text
        start(options(**given, pairs=pairs))

    hints = get_type_hints(options, include_extras=True)
    common = {field.name for field in fields(CommonOptions)}
    of_dataclass = [
        field
        for field in sorted(fields(options), key=lambda field: field.name in common)
        if option_text(field.name) not in by_option and field.name not in {"pairs", *without}
    ]
    arguments = [
        _argument(_OWN + parameter.field, _annotation(parameter), None)
        for parameter in by_option.values()
    ]
    arguments += [_argument(field.name, hints[field.name], field.default) for field in of_dataclass]
    command.__doc__ = start.__doc__
    command.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]  # for typer
    return command


def words_of(
    options: CommonOptions, kind: type[CommonOptions], without: Collection[str] = ()
) -> list[str]:
    """Return a command's words from its options: those of ``kind`` that are no defaults.

    Files and directories are absolute: the command may be given in another directory.
    """
    hints = get_type_hints(kind, include_extras=True)
    words: list[str] = []
    for member in fields(kind):
        value = getattr(options, member.name)
        if member.name in {"pairs", *without} or value == member.default or value is None:
            continue
        (information,) = hints[member.name].__metadata__
        declared = (information.default, *(information.param_decls or ()))
        names = [name for name in declared if isinstance(name, str) and name.startswith("--")]
        name = names[0] if names else f"--{member.name.replace('_', '-')}"
        for item in value if isinstance(value, list) else [value]:
            text = str(item.absolute()) if isinstance(item, Path) else str(item)
            words += [name] if item is True else [name, text]
    return words


def _argument(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _annotation(parameter: Parameter) -> Any:
    if isinstance(parameter.kind, Flag):
        negated = f"--no-{parameter.option.removeprefix('--')}"
        return Annotated[
            bool | None, typer.Option(f"{parameter.option}/{negated}", help=_help(parameter))
        ]
    words = parameter.kind.words if isinstance(parameter.kind, Choice) else ()
    return Annotated[
        list[str] | None if parameter.repeats else str | None,
        typer.Option(
            parameter.option,
            help=_help(parameter),
            metavar=_metavar(parameter),
            autocompletion=lambda: list(words),
        ),
    ]


def _help(parameter: Parameter) -> str:
    several = "; may repeat" if parameter.repeats else ""
    return f"{parameter.help.removesuffix('.')}{several} [{parameter.default_text}]."


def _metavar(parameter: Parameter) -> str:
    if isinstance(parameter.kind, Choice):
        words = "|".join(parameter.kind.words)
        return words if len(words) <= _LONGEST_METAVAR else "NAME"
    if isinstance(parameter.kind, Count | Number):
        return "N"
    return "DURATION" if isinstance(parameter.kind, Time) else "VALUE"


def known_parameters() -> dict[str, type[Parameters]]:
    """Return the parameters of the sub-commands of ``harness run``, by name."""
    return {**registry.all_parameters(), MicroParams.workload: MicroParams}


#: Options in the help by what they are about; all others are the workload's.
_ARGUMENTS, _WORKLOAD = "Arguments", "Workload"
_GROUPS = {
    group: frozenset(names.split())
    for group, names in (
        (
            "Engine and placement",
            "engine placement driver threads cpus memory_limit tuning set_ option listen dsn label"
            " model emulate from_ to by_table part parts properties tier host",
        ),
        (
            "Measurement",
            "repeats budget resolve arm load_curve target plant observe monitor no_monitor seed"
            " again retries suite overwrite resume no_canary",
        ),
        ("Slurm", "slurm hosts local_results partition constraint account time"),
        ("Output", "name out results format json_ quiet dry_run help"),
    )
}


class RunGroup(TyperGroup):
    """``harness run``: an unknown workload is an error like any other."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, names = args[0], list(self.commands)
        if name in names or name.startswith("-"):
            return super().resolve_command(ctx, args)
        raise unknown(f"workload {name!r}", "no such workload", name, names)


class RunCommand(TyperCommand):
    """A command whose help groups its options; an unknown option is an error like any other."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if type(error).__name__ == "NoSuchOption":  # of typer's own copy of click
                self._refuse(str(getattr(error, "option_name", "")), ctx)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the options by what they are about; of engines, those of the workload."""
        order = (_ARGUMENTS, _WORKLOAD, *_GROUPS)
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in order}
        for parameter in self.get_params(ctx):
            if parameter.name == "engine" and self.name in registry.all_parameters():
                parameter.help = f"{', '.join(sorted(registry.engines_of(self.name)))}; may repeat."  # type: ignore[attr-defined]
            if (record := parameter.get_help_record(ctx)) is not None:
                group = (name for name, fields in _GROUPS.items() if parameter.name in fields)
                argument = parameter.param_type_name == "argument"
                groups[_ARGUMENTS if argument else next(group, _WORKLOAD)].append(record)
        for name in order:
            if groups[name]:
                with formatter.section(name):
                    formatter.write_dl(groups[name])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """List the parameters and drivers that have no option of their own."""
        parameters = known_parameters().get(self.name or "")
        if parameters is None:
            return
        others = [parameter for parameter in parameters.declared().values() if not parameter.option]
        if others:
            with formatter.section("Parameters of --param NAME=VALUE"):
                formatter.write_dl([(parameter.name, _help(parameter)) for parameter in others])
        if len(parameters.drivers) > 1:
            with formatter.section("Drivers"):
                formatter.write_dl(list(parameters.drivers.items()))

    def _refuse(self, option: str, ctx: Any) -> NoReturn:
        commands = ctx.parent.command.commands if ctx.parent else {}
        others = [name for name, subcommand in commands.items() if option in _options(subcommand)]
        raise UsageError(
            f"{option} with {self.name}",
            f"{option} is an option of {' and '.join(others)}"
            if others
            else f"no such option{nearest(option, _options(self))}",
            f"`{ctx.command_path} --help` lists the options",
        )


def _options(command: Any) -> list[str]:
    return [
        text
        for parameter in command.params
        for text in (*parameter.opts, *parameter.secondary_opts)
    ]


def workload_commands(
    options: type[T],
    start: Callable[[type[Parameters], T], None],
    command_help: str,
    without: Collection[str],
) -> typer.Typer:
    """Make a command with a sub-command for each workload, as :func:`callback` makes one.

    ``command_help``: what it does, of any workload; the list of sub-commands says what each is.
    """
    app = typer.Typer(cls=RunGroup, no_args_is_help=True)
    for workload, parameters in registry.all_parameters().items():
        unused = [] if len(parameters.drivers) > 1 else ["driver"]
        unused += [] if parameters.property_files else ["properties"]
        command = callback(options, partial(start, parameters), parameters, (*without, *unused))
        about = parameters.__doc__
        app.command(workload, cls=RunCommand, help=command_help, short_help=about)(command)
    return app
