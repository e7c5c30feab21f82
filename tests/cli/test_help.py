"""What ``harness run --help`` says of workloads' options is what the workloads do."""

from __future__ import annotations

import pytest
import typer

from harness import registry
from harness.cli.app import app
from harness.cli.params import has, option_text

HELP = {
    option: parameter.help
    for parameter in typer.main.get_command(app).commands["run"].params
    for option in parameter.opts
    if getattr(parameter, "help", None)
}


#: Options that say what a workload does with them and are none of its parameters.
OTHERS = {"--driver", "--properties", "-P"}


@pytest.mark.parametrize("workload", ["tpch", "tpcc", "ycsb"])
def test_an_option_says_whose_it_is(workload):
    entry = registry.workload(workload)
    others = [one for one in registry.workloads() if one != workload]
    for option, told in HELP.items():
        own = option.startswith("--") and has(entry, option[2:].replace("-", "_"))
        if f"{workload}: " in told and option not in OTHERS:
            assert own, option
        elif own:
            assert not any(f"{other}: " in told for other in others), option


@pytest.mark.parametrize(
    ("workload", "option", "name"),
    [
        ("tpch", "--scale", "scale"),
        ("tpch", "--cache", "cache"),
        *(("tpcc", option_text(n), n) for n in ("warehouses", "test", "users", "ramp_up")),
        ("tpcc", "--duration", "duration"),
        *(("ycsb", option_text(n), n) for n in ("workload", "update", "ramp_up", "duration")),
        ("ycsb", "--records", "recordcount"),
        ("ycsb", "--threads", "threadcount"),
    ],
)
def test_the_default_it_tells_is_the_one_that_is_used(workload, option, name):
    used = registry.normalise(workload, {})
    _, _, told = HELP[option].partition(f"{workload}: ")
    _, _, default = told.partition("[")
    words = default.partition("]")[0].replace(";", " ").split()
    assert words[0] == str(used[name]), name


def test_engines_and_drivers_are_those_that_there_are():
    assert set(registry.engines()) == set(registry.engine_names())
    assert set(registry.workloads()) == set(registry.workload_names())
    for name in registry.engine_names():
        assert name in HELP["--engine"]
    for workload in ("tpcc", "ycsb"):
        for name in registry.drivers(workload):
            assert name in HELP["--driver"]
        assert f"[{registry.default_driver(workload)}]" in HELP["--driver"]
