"""``harness model``: models of devices, which engines can run on without having them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from harness.cli.common import (
    EmulateOption,
    HostOption,
    JsonOption,
    QuietOption,
    ResultsOption,
    print_json,
    store,
)
from harness.models.device import ZERO, DeviceModel, Point, find_model, known_models
from harness.models.table import quantile_ns
from harness.terminal import print_table
from harness.units import format_bytes, format_ns

app = typer.Typer(no_args_is_help=True, help="List, show and make models of devices.")
_SHOWN = (50, 90, 99, 99.9)


@app.command("list")
def list_models(json_: JsonOption = False) -> None:
    """List every device model with its source."""
    models = [find_model(name) for name in (ZERO, *known_models())]
    if json_:
        print_json({"models": [_entry(model) for model in models]})
        return
    rows = [
        (
            model.name,
            model.basis,
            "yes" if model.page_cache else "no",
            ", ".join(model.gaps()) or "—",
            model.description,
        )
        for model in models
    ]
    print_table(("model", "basis", "page cache", "not stated", "device"), rows)


def _entry(model: DeviceModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "description": model.description,
        "basis": model.basis,
        "source": model.source,
        "page_cache": model.page_cache,
        "parallel": model.parallel,
        "bandwidth": dict(model.bandwidth),
        "missing": model.gaps(),
        "scores": [],
    }


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A model, latency:20us, or a file.")],
    json_: JsonOption = False,
) -> None:
    """Show a model's service times and their sources."""
    model = find_model(name)
    if json_:
        points = {op: [_point(p) for p in of_op] for op, of_op in model.points.items()}
        print_json({"model": _entry(model) | {"points": points}})
        return
    print(f"{model.name}: {model.description}")
    print(f"{model.basis}; {model.source}" if model.source else model.basis)
    files = "buffered in the page cache" if model.page_cache else "no page cache (DAX)"
    limits = [f"{way} {rate / 1e6:,.0f} MB/s" for way, rate in model.bandwidth.items()]
    print(", ".join([files, f"serves {model.parallel} at once", *limits]))
    rows = [
        (
            operation,
            format_bytes(point.size_bytes),
            *(format_ns(quantile_ns(point, percent)) for percent in _SHOWN),
            point.source,
        )
        for operation, points in model.points.items()
        for point in points
    ]
    if rows:
        print_table(("call", "size", *(f"p{p:g}" for p in _SHOWN), "source"), rows)
    for gap in model.gaps():
        print(f"not stated: {gap}: a run that needs it is refused")


def _point(point: Point) -> dict[str, Any]:
    quantiles = {f"p{percent:g}": duration for percent, duration in point.quantiles}
    return {"size_bytes": point.size_bytes, "quantiles_ns": quantiles, "source": point.source}


@app.command()
def make(
    name: Annotated[str, typer.Argument(help="Name of the model to write.")],
    tier: Annotated[str, typer.Option(help="Tier to measure (`harness doctor` lists them).")],
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", help="Key of the suite device-model: duration=1s."),
    ] = None,
    replace_: Annotated[
        bool, typer.Option("--replace", help="Replace a model of this name.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be measured, and how long.")
    ] = False,
    emulate: EmulateOption = None,
    host: HostOption = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure a tier (about five minutes) and write its model."""
    from harness.cli.common import key_values
    from harness.execution.environment import command_environment
    from harness.execution.run_list import plan_steps, run_plan
    from harness.micro.runner import SuiteRequest, suite_plan
    from harness.micro.suite import find_suite, load_documents
    from harness.models import make as making

    making.check_new(name, replace_)
    documents = load_documents(find_suite(making.SUITE))
    request = SuiteRequest(
        making.SUITE,
        documents,
        tier,
        key_values(param, "--param"),
        emulate=tuple(one.partition("=")[0] for one in emulate or ()),
    )
    with command_environment(host, emulate or [], quiet) as env:
        into = store(results)
        plan, suites = suite_plan([request], env)
        steps = plan_steps(plan, env, into, again=True, prepared=suites)
        if dry_run:
            planned = suites[0].planned
            count = len(planned.configurations) * suites[0].repeats
            print(f"{name}: {count} measurements of {tier}, about {format_ns(planned.known_ns)}")
            return
        (run,) = run_plan(plan, steps, env, into, True)
    model = making.model_of(run, name)
    path = making.write_model(model)
    if json_:
        print_json({"model": _entry(replace(model)), "path": str(path), "run": run.run_id})
    else:
        print(f"{path}\n`harness model show {name}` prints it; --model fast={name} runs on it")
