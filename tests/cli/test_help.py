"""What ``harness run --help`` says of workloads' options is what the workloads do."""

from __future__ import annotations

import pytest
import typer

from harness import registry
from harness.cli.app import app
from harness.cli.params import option_of

HELP = {
    option: parameter.help
    for parameter in typer.main.get_command(app).commands["run"].params
    for option in parameter.opts
    if getattr(parameter, "help", None)
}


@pytest.mark.parametrize("workload", ["tpch", "tpcc"])
def test_an_option_says_whose_it_is(workload):
    for name in registry.workload(workload).parameters:
        if option_of(name) in HELP:
            assert f"{workload}: " in HELP[option_of(name)], name
    others = [one for one in registry.workloads() if one != workload]
    for option, told in HELP.items():
        own = option in map(option_of, registry.workload(workload).parameters)
        if f"{workload}: " in told and option != "--driver":
            assert own, option
        elif own:
            assert not any(f"{other}: " in told for other in others), option


@pytest.mark.parametrize(
    ("workload", "names"),
    [
        ("tpch", ["scale", "cache"]),
        ("tpcc", ["warehouses", "test", "users", "ramp_up", "duration"]),
    ],
)
def test_the_default_it_tells_is_the_one_that_is_used(workload, names):
    used = registry.normalise(workload, {})
    for name in names:
        _, _, told = HELP[option_of(name)].partition(f"{workload}: ")
        _, _, default = told.partition("[")
        words = default.partition("]")[0].replace(";", " ").split()
        assert words[0] == str(used[name]), name


def test_engines_and_drivers_are_those_that_there_are():
    assert set(registry.engines()) == set(registry.engine_names())
    assert set(registry.workloads()) == set(registry.workload_names())
    for name in registry.engine_names():
        assert name in HELP["--engine"]
    for name in registry.drivers("tpcc"):
        assert name in HELP["--driver"]
    assert f"[{registry.default_driver('tpcc')}]" in HELP["--driver"]
