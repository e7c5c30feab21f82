"""Parts of a plan: some values of its axes, engines that are installed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from harness import registry
from harness.errors import UsageError
from harness.execution.environment import Environment
from harness.experiment.profile import find_profile, load_profile
from harness.experiment.selection import installed, only, with_repeats

DEMO = load_profile(find_profile("demo"), repeats=2)
NONE: dict[str, list[str]] = {"engine": [], "placement": [], "driver": []}


def test_a_plan_is_restricted_to_values_of_its_axes() -> None:
    found = only(DEMO, NONE | {"engine": ["duckdb"], "placement": ["pmem-both", "ssd-both"]})
    assert found.runs == tuple(spec for spec in DEMO.runs if spec.engine == "duckdb")
    assert only(DEMO, NONE).runs == DEMO.runs


def test_more_blocks_of_a_restricted_plan_are_restricted() -> None:
    restricted = only(DEMO, NONE | {"engine": ["duckdb"]})
    more = with_repeats(restricted, 3)
    assert more.runs[:4] == restricted.runs
    assert {spec.engine for spec in more.runs} == {"duckdb"}
    assert more.runs[-1].block == 2


def missing(*names: str) -> Any:
    """A registry of engines of which some are not installed."""

    def engine(name: str, workload: str) -> Any:
        def available(options: object, prefix: object) -> str:
            if name in names:
                raise UsageError(name, "installations found: none", f"install {name}")
            return "1"

        return SimpleNamespace(available=available)

    return engine


ENVIRONMENT = cast(Environment, SimpleNamespace(engines_prefix=Path("/nonexistent")))


def test_a_missing_engine_is_left_out_with_a_warning(monkeypatch, capsys):
    monkeypatch.setattr(registry, "engine", missing("postgres"))
    found = installed(DEMO, ENVIRONMENT, skip_missing=True)
    assert found.runs == tuple(spec for spec in DEMO.runs if spec.engine == "duckdb")
    assert "engine-skipped" in capsys.readouterr().err
    monkeypatch.setattr(registry, "engine", missing())
    assert installed(DEMO, ENVIRONMENT, skip_missing=True) is not None
