"""The command line: parses and prints, decides nothing."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import typer

import harness
from harness.cli import data, doctor, engines, experiment, results, run, runs
from harness.cli.common import print_error
from harness.errors import HarnessError, interruption

app = typer.Typer(
    name="harness",
    help="Does a faster or larger memory tier pay off for a real database, and why?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("doctor")(doctor.doctor)
app.command("run")(run.run)
app.add_typer(experiment.app, name="experiment")
app.add_typer(runs.app, name="runs")
app.add_typer(data.app, name="data")
app.command("compare")(results.compare)
app.command("report")(results.report)
app.command("repro")(results.repro)
app.add_typer(engines.app, name="engines")


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        print(f"harness (tierbench) {harness.__version__}")
        raise typer.Exit()


def _terminated(number: int, _frame: FrameType | None) -> None:
    """SIGTERM and SIGHUP end the command in order, as Ctrl-C does."""
    raise SystemExit(128 + number)


def main() -> None:
    """Entry point of ``harness``; exit codes: 2 beforehand, 1 under way, 130 on Ctrl-C."""
    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGHUP, _terminated)
    try:
        app()
    except HarnessError as error:
        if (cause := interruption(error)) is not None:
            sys.exit(cause.code if isinstance(cause, SystemExit) else 130)
        print_error(error)
        sys.exit(error.exit_code)
    except SystemExit as done:
        if done.code == 130:
            print("interrupted: everything that was started is stopped", file=sys.stderr)
        raise
