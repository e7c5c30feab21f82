"""Parts of a plan: other numbers of blocks, some values of its axes, engines that are installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness import registry
from harness.errors import UsageError, nearest
from harness.execution.environment import Environment
from harness.experiment.profile import Plan, expand
from harness.store.spec import RunSpec, canonical_json
from harness.warnings import RunWarning, warn


def with_repeats(plan: Plan, repeats: int) -> Plan:
    """The plan's runs in this number of blocks."""
    assert plan.document is not None
    document = replace(plan.document, value={**plan.document.value, "repeats": repeats})
    expanded = expand(document, plan.published, plan.emulate)
    series = {spec.series() for spec in plan.runs}
    return replace(expanded, runs=tuple(s for s in expanded.runs if s.series() in series))


def only(plan: Plan, chosen: Mapping[str, Sequence[str]]) -> Plan:
    """The runs with these values of ``engine``, ``placement`` and ``driver``; empty: any.

    UsageError names the profile's values.
    """
    runs = plan.runs
    for key, values in chosen.items():
        known = list(dict.fromkeys(_value(spec, key) for spec in plan.runs))
        for value in values:
            if value not in known:
                raise UsageError(
                    f"--{key} {value} of profile {plan.name}",
                    f"no run of it has this {key}{nearest(value, known)}",
                    f"its values: {', '.join(known)}",
                )
        runs = tuple(spec for spec in runs if not values or _value(spec, key) in values)
    if not runs:
        text = " ".join(f"--{key} {value}" for key, values in chosen.items() for value in values)
        raise UsageError(
            f"{text} of profile {plan.name}",
            "no run of it has all of these",
            "`harness experiment run … --dry-run` lists its runs",
        )
    return replace(plan, runs=runs)


def _value(spec: RunSpec, key: str) -> str:
    if key == "placement":
        return spec.placement.name if spec.placement else (spec.label or "external")
    return str(getattr(spec, key))


def installed(plan: Plan, env: Environment, skip_missing: bool) -> Plan:
    """The plan, if its engines are installed; with ``skip_missing`` the runs on those that are.

    Each engine that is left out is a warning. UsageError lists all that is missing.
    """
    if not skip_missing and len({_installation(spec) for spec in plan.runs}) == 1:
        return plan  # preflight looks for it
    missing: dict[tuple[str, str], UsageError] = {}
    for spec in plan.runs:
        if (key := _installation(spec)) in missing:
            continue
        factory = registry.engine(spec.engine)
        try:
            factory.available(spec.engine_options, env.engines_prefix)
        except UsageError as error:
            missing[key] = error
    kept = tuple(spec for spec in plan.runs if _installation(spec) not in missing)
    if not missing or (len(missing) == 1 and not skip_missing):
        return plan  # preflight names the line of the profile
    if not skip_missing or not kept:
        raise UsageError(
            f"engines of {plan.name}",
            "; ".join(f"{why.problem}: {why.context}" for why in missing.values()),
            " · ".join(dict.fromkeys(why.hint for why in missing.values()))
            + ("" if skip_missing else "; or add --skip-missing"),
        )
    for (engine, _), why in missing.items():
        found = f"{engine}: {why.problem}: {why.context}"
        warn(RunWarning("engine-skipped", "an engine is left out", found, why.hint))
    return replace(plan, runs=kept)


def _installation(spec: RunSpec) -> tuple[str, str]:
    return spec.engine, canonical_json(dict(spec.engine_options))
