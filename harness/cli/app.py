"""The commands by name."""

from __future__ import annotations

import typer

import harness
from harness.cli import (
    card,
    conclusions,
    data,
    doctor,
    engines,
    experiment,
    host,
    micro,
    results,
    run,
    runs,
    whatif,
)

app = typer.Typer(
    name="harness",
    help="Does a faster or larger memory tier pay off for a real database, and why?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("doctor")(doctor.doctor)
app.add_typer(run.app, name="run")
app.add_typer(experiment.app, name="experiment")
app.add_typer(whatif.app, name="whatif")
app.add_typer(runs.app, name="runs")
app.add_typer(data.app, name="data")
app.command("compare")(results.compare)
app.command("report")(results.report)
app.command("repro")(results.repro)
app.add_typer(engines.app, name="engines")
app.add_typer(micro.app, name="micro")
app.command("card")(card.card)
app.command("conclusions")(conclusions.conclusions)
app.add_typer(host.app, name="host")


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        print(f"harness (tierbench) {harness.__version__}")
        raise typer.Exit()
