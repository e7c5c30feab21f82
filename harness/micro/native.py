"""Our own program as one of those that measure suites: ``microbench``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness import natives
from harness.engine import Credentials
from harness.micro.fit import Fitted, Room
from harness.micro.measured import Measured, Workplace
from harness.micro.metrics import collected, findings_of, metrics_of
from harness.micro.model import Suite
from harness.micro.program import run_program
from harness.micro.spec import BLOCK, spec_json
from harness.result import Check, CheckStatus

NAME = "microbench"


def check() -> None:
    """UsageError where the program was not built."""
    natives.microbench_program()


def measure(work: Workplace, fitted: Fitted, room: Room, suite: Suite) -> Measured:
    """Run all measurements of a fitted suite, interleaved, and tell what came of them."""
    env = work.env
    spec = spec_json(
        fitted.measurements, work.tier, work.directory, room, seed=work.seed, repeats=work.repeats
    )
    user = _user(work)
    program = natives.microbench_for(user, work.scratch)
    told = f"{suite.name} on {work.tier.name}"
    with env.progress.task(told, len(spec["measurements"])) as task:

        def begins(name: str) -> None:
            index = int(name.partition(BLOCK)[0])
            task.advance(1, fitted.measurements[index].configuration)

        result = run_program([str(program), "-"], spec, env.supervisor, work.scratch, user, begins)
    return Measured(
        metrics=tuple(metrics_of(fitted.measurements, result, work.repeats)),
        checks=(
            _plausible(fitted, work.repeats),
            *_on_node(spec, result),
            *_got_nothing_done(fitted, result, work.repeats),
        ),
        version=result["version"],
        build=result["version"],
        source="built with the harness",
        artifacts={"microbench": {"spec": spec, "result": result}},
        uncontrolled=tuple(findings_of(fitted.measurements, result, work.repeats)),
    )


def _user(work: Workplace) -> Credentials | None:
    """The unprivileged user, except on a raw device, which only its owner may open."""
    return None if work.tier.facts.kind == "devdax" else work.env.credentials


def _plausible(fitted: Fitted, repeats: int) -> Check:
    """The program ends with a failure where a figure is not plausible or a check of it fails."""
    return Check(
        "plausible",
        "passed",
        f"{len(fitted.measurements)} configurations, {repeats} times each, within what the "
        "processor's load and store ports can do",
    )


def _got_nothing_done(fitted: Fitted, result: dict[str, Any], repeats: int) -> Iterator[Check]:
    """Configurations without figures: their threads never ran at the same time."""
    for one in collected(fitted.measurements, result, repeats):
        if one.idle:
            labels = {"configuration": one.measurement.configuration, "job": one.job.name}
            detail = "nothing was done while all threads ran: give it more time (-p duration)"
            yield Check("measured", "unknown", detail, labels)


def _on_node(spec: dict[str, Any], result: dict[str, Any]) -> Iterator[Check]:
    """Whether memory lies on the node that was asked for, of the pages that were looked at."""
    for name, target in spec["targets"].items():
        if target["kind"] != "dram" or target["node"] is None:
            continue
        found = result["targets"][name]["nodes"]
        there = found.get(str(target["node"]), 0)
        total = sum(found.values())
        detail = f"{there} of {total} pages looked at lie on node {target['node']}"
        if not total:
            yield Check("memory-node", "unknown", "the kernel told of no page", {"target": name})
        else:
            right: CheckStatus = "passed" if there == total else "failed"
            yield Check("memory-node", right, detail, {"target": name})
