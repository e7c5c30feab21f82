"""Sub-commands of ``harness run`` have the options of their workload's parameters."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from narrowed import of_kind
from typer.core import TyperGroup

from harness import registry
from harness.cli.app import app

HARNESS = typer.main.get_group(app)
RUN = of_kind(TyperGroup, HARNESS.get_command(typer.Context(HARNESS), "run"))


def options(workload: str) -> dict[str, str]:
    """Help text by option."""
    command: Any = RUN.commands[workload]
    return {text: one.help for one in command.params for text in (*one.opts, *one.secondary_opts)}


def test_every_workload_and_the_microbenchmarks_have_a_sub_command():
    assert set(RUN.commands) == {*registry.workloads(), "micro"}


@pytest.mark.parametrize("workload", registry.all_parameters())
def test_a_workload_has_its_own_options_and_not_those_of_others(workload):
    mine, shown = registry.parameters(workload).options(), options(workload)
    for option, one in mine.items():
        assert f"[{one.default_text}]" in shown[option]
    for other in registry.all_parameters().values():
        for option in other.options().keys() - mine.keys() - {"--threads"}:
            assert option not in shown
    assert {"--engine", "--placement", "--param", "--json"} <= shown.keys()


def test_the_options_of_a_suite_are_its_own():
    assert {"--suite", "--tier", "--duration"} <= options("micro").keys()
    assert not {"--engine", "--warehouses"} & options("micro").keys()


def test_help_lists_the_parameters_and_drivers_that_have_no_option(harness):
    shown = harness("run", "ycsb", "--help")
    assert shown.code == 0
    for name, one in registry.parameters("ycsb").declared().items():
        assert one.option in shown.out and (one.option or name in shown.out)
    assert all(name in shown.out for name in registry.parameters("ycsb").drivers)


def test_engines_of_the_help_are_those_that_there_are():
    assert set(registry.engines()) == set(registry.engine_names())
    assert all(name in options("tpch")["--engine"] for name in registry.engine_names())
