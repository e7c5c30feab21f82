"""``microbench``, the program that measures our own suites."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import native_programs
from harness.engine import Credentials
from harness.errors import RunFailed, UsageError
from harness.micro.host_capacity import HostCapacity
from harness.micro.keys import KEYS
from harness.micro.metrics import NOTHING_DONE, collected, metrics_of, pages_of
from harness.micro.model import Suite
from harness.micro.program import run_program
from harness.micro.protocol import Measured, Workplace, failed_in
from harness.micro.result_warnings import warnings_of
from harness.micro.scaling import ScaledSuite
from harness.micro.spec import BLOCK, spec_json
from harness.progress import Task
from harness.store import schemas
from harness.store.result import Check, CheckStatus
from harness.tiers.linux.model import Tier
from harness.units import counted
from harness.warnings import RunWarning

NAME = "microbench"
#: How the program begins what it says of one measurement, by the name that it has in the spec.
_OF_MEASUREMENT = re.compile(rf"^measurement \d+{BLOCK}\d+: ")
#: Suite keys by the names that the program has for them.
_FIELD = re.compile(r"^[a-z_]+(?=: )|\b[a-z]+(?:_[a-z]+)+\b")
_SUITE_KEYS = {
    name: suite_key
    for suite_key, key in KEYS.items()
    for name in (key.field, key.attribute)
    if name
} | {"second": "dram_range"}
_REFUSED = re.compile(
    rf"^measurement (?P<index>\d+){BLOCK}\d+: (?:job (?P<job>.+?): )?(?P<found>.*)$", re.DOTALL
)


def check() -> None:
    """UsageError where the program was not built."""
    native_programs.microbench_program()


def refuse(suite: ScaledSuite, tier: Tier, capacity: HostCapacity) -> None:
    """UsageError, in the suite's words, for what the program refuses: nothing is started."""
    there = Path(tier.claim.path or "/")
    while not there.is_dir():  # an emulated tier's is made by its first run
        there = there.parent
    spec = spec_json(suite.measurements, tier, there, capacity, seed=0, repeats=1)
    done = subprocess.run(
        [native_programs.microbench_program(), "--check"],
        input=json.dumps(spec),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode == 0:
        return
    words = done.stderr.strip().removeprefix("microbench: ")
    if (of := _REFUSED.match(words)) is None:
        raise UsageError("measure with microbench", words, "see docs/microbench.md")
    one = suite.measurements[int(of["index"])]
    job = f", job {of['job']}" if len(one.jobs) > 1 else ""
    raise UsageError(
        f"{one.origin}, {one.configuration}{job}",
        _FIELD.sub(lambda match: _SUITE_KEYS.get(match[0], match[0]), of["found"]),
        "change it in the suite, or with --param (docs/micro.md, docs/microbench.md)",
    )


def measure(work: Workplace, scaled: ScaledSuite, capacity: HostCapacity, suite: Suite) -> Measured:
    """Run all measurements of a scaled suite, interleaved."""
    env = work.env
    spec = spec_json(
        scaled.measurements,
        work.tier,
        work.directory,
        capacity,
        seed=work.seed,
        repeats=work.repeats,
    )
    every = spec["measurements"]
    kept = {one["name"]: found for one in every if (found := work.finished(one["name"]))}
    # The last one's process describes the host: it is measured again if all of them are there.
    left = [one for one in every if one["name"] not in kept] or every[-1:]
    user = _user(work)
    program = native_programs.microbench_for(user, work.scratch)
    told = f"{suite.name} on {work.tier.name}"
    with env.progress.task(told, len(left)) as task:
        under_way = _UnderWay(scaled, work, task)
        try:
            result = run_program(
                [str(program), "-"],
                {**spec, "measurements": left},
                env.supervisor,
                work.scratch,
                user,
                under_way.receive,
                env.credentials,
            )
        except RunFailed as error:
            raise under_way.named(error) from error
    warnings = list(_joined(result, kept))
    schemas.validate(result, "microbench-result", "microbench's result")
    return Measured(
        metrics=tuple(metrics_of(scaled.measurements, result, work.repeats)),
        checks=(
            _plausible(scaled, work.repeats),
            *_on_node(spec, result),
            *_got_nothing_done(scaled, result, work.repeats),
        ),
        version=result["version"],
        build=result["version"],
        source="built with the harness",
        artifacts={"microbench": {"spec": spec, "result": result}},
        uncontrolled=(*warnings_of(scaled.measurements, result, work.repeats), *warnings),
    )


def _joined(result: dict[str, Any], kept: Mapping[str, Any]) -> Iterator[RunWarning]:
    """Add what an earlier attempt measured to the result of this one; warn of other memory."""
    done = {one["name"] for one in result["measurements"]}
    earlier = [one for name, one in kept.items() if name not in done]
    result["measurements"] = [*(one["measurement"] for one in earlier), *result["measurements"]]
    result["notes"] = list(
        dict.fromkeys([*(n for o in earlier for n in o["notes"]), *result["notes"]])
    )
    now = {name: pages_of(target) for name, target in result["targets"].items()}
    for name, pages in now.items():
        then = {pages_of(one["targets"][name]) for one in earlier} - {pages}
        if then:
            yield RunWarning(
                "resumed-on-other-pages",
                f"target {name} is on other pages than before the interruption",
                f"{', '.join(sorted(then))}, then {pages}; labels name the latter",
                "run the suite again with --again",
            )


@dataclass
class _UnderWay:
    """Which configuration is being measured: for progress, and for what fails meanwhile."""

    scaled: ScaledSuite
    work: Workplace
    task: Task
    said: str = ""

    def receive(self, event: str, counts: dict[str, Any]) -> None:
        """A measurement, by the name that it has in the spec, begins or is finished."""
        if event == "measured":
            self.work.finish(counts["measurement"]["name"], counts)
            return
        index, _, block = counts["measurement"].partition(BLOCK)
        configuration = self.scaled.measurements[int(index)].configuration
        self.said = f"{configuration} (repeat {int(block) + 1} of {self.work.repeats})"
        self.task.advance(1, configuration)

    def named(self, error: RunFailed) -> RunFailed:
        """The failure with the configuration in it; before the first one there is none."""
        if not self.said:
            return RunFailed(
                f"{error.problem}, before its first measurement", error.context, error.hint
            )
        found = _OF_MEASUREMENT.sub("", error.context)
        return failed_in(self.said, RunFailed(error.problem, found, error.hint))


def _user(work: Workplace) -> Credentials | None:
    """The unprivileged user, except on a raw device, which only its owner may open."""
    return None if work.tier.facts.kind == "devdax" else work.env.credentials


def _plausible(scaled: ScaledSuite, repeats: int) -> Check:
    """The program ends with a failure where a figure is not plausible or a check of it fails."""
    return Check(
        "plausible",
        "passed",
        f"{counted(len(scaled.measurements), 'configuration')}, {repeats} times each, within what "
        "the processor's load and store ports can do",
    )


def _got_nothing_done(scaled: ScaledSuite, result: dict[str, Any], repeats: int) -> Iterator[Check]:
    """Configurations without figures: their threads never ran at the same time."""
    for one in collected(scaled.measurements, result, repeats):
        if one.idle:
            labels = {"configuration": one.measurement.configuration, "job": one.job.name}
            yield Check("measured", "unknown", NOTHING_DONE, labels)


def _on_node(spec: dict[str, Any], result: dict[str, Any]) -> Iterator[Check]:
    """Whether a sample of pages lies on the requested node."""
    for name, target in spec["targets"].items():
        if target["kind"] != "dram" or target["node"] is None:
            continue
        found = result["targets"][name]["nodes"]
        there = found.get(str(target["node"]), 0)
        total = sum(found.values())
        detail = f"{there} of {total} pages looked at lie on node {target['node']}"
        if not total:
            yield Check("memory-node", "unknown", "Linux reports no page of it", {"target": name})
        else:
            right: CheckStatus = "passed" if there == total else "failed"
            yield Check("memory-node", right, detail, {"target": name})
