"""ioping on a tier: one request after another, as the DB paper measures its SSD (Table 3).

Past the page cache where the file system can; a write is followed by ``fdatasync``, within
the time that is counted, as ioping does by default.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Self

from msgspec import Meta

from harness import jsonfile
from harness.errors import RunFailed, UsageError
from harness.micro import external_tools
from harness.micro.fio import histogram, number
from harness.micro.io_jobs import SECTOR_BYTES
from harness.micro.keys import Patterns, Size, chosen
from harness.micro.model import Job, Measurement
from harness.micro.protocol import MeasuringProgram, MicroContext, Planned, ProgramOutcome
from harness.store.result import Check, Label, Labels, Metric
from harness.store.spec import content_hash
from harness.tiers.linux.model import Tier
from harness.units import format_bytes
from harness.workloads.parameters import Parameters, parameter

#: ioping's own: the first request after a pause is not like the others.
_IGNORED = 1
_CASES = tuple((o, p) for o in ("read", "write") for p in ("random", "sequential"))


@dataclass(frozen=True)
class Ioping(Parameters, MeasuringProgram):
    """One request after another, by ioping."""

    workload = name = "ioping"
    aliases = {"size": "working_set"}  # noqa: RUF012

    requests: Annotated[int, Meta(ge=1, le=1_000_000)] = parameter(
        2000, help="of each case and repeat"
    )
    #: More than Linux moves at once ioping does not take (2 GiB less a page).
    access_bytes: Annotated[int, Size(1 << 30)] = parameter(
        "4KiB", name="access", help="of a request"
    )
    #: Of 0 bytes ioping would make sizes of its own.
    working_set_bytes: Annotated[int, Size()] = parameter(
        "256MiB", name="working_set", help="of the file"
    )
    only: Annotated[tuple[str, ...], Patterns()] | None = parameter(help="configurations")

    @property
    def cases(self) -> list[tuple[str, str]]:
        """Return the cases to measure: operation and pattern."""
        return chosen(_CASES, self.only or (), lambda case: ("ioping", _configuration(*case)))

    def resolve(self) -> Self:
        """Refuse requests that are larger than the file."""
        if self.access_bytes > self.working_set_bytes:
            raise UsageError(
                f"access {format_bytes(self.access_bytes)} of ioping",
                f"larger than its file, working_set: {format_bytes(self.working_set_bytes)}",
                "give a smaller access or a larger working_set",
            )
        return self

    def check(self, tier: Tier) -> None:
        """UsageError where ioping is missing, or the tier has no room for the files."""
        version()
        external_tools.require_room(tier, self.working_set_bytes, "ioping", "working_set")
        for key, size in (("access", self.access_bytes), ("working_set", self.working_set_bytes)):
            if external_tools.refuses_past_cache(tier, size):
                raise UsageError(
                    f"{key} {size} of ioping on tier {tier.name!r}",
                    "it goes past the page cache there, where only whole blocks go",
                    f"a multiple of {SECTOR_BYTES} bytes, or of 4096 where the device has such "
                    "blocks",
                )

    def planned(self, repeats: int, tier: Tier | None = None) -> Planned:
        """Plan each case in a file of its own, for the same number of requests."""
        job = Job("", self.name, 1, self.working_set_bytes, operations=self.requests)
        return Planned(
            [Measurement(_configuration(*case), (job,)) for case in self.cases],
            None,
            f"the writing of files of {format_bytes(self.working_set_bytes)}",
        )

    @property
    def _settings(self) -> str:
        return content_hash({"requests": self.requests, "file_bytes": self.working_set_bytes})

    def measure(self, work: MicroContext) -> ProgramOutcome:
        """Measure all cases; one histogram has the latencies of all repeats."""
        found_version = version()
        direct = external_tools.takes_direct(work.files, work.env.credentials)
        times: dict[tuple[str, str], list[list[int]]] = {case: [] for case in self.cases}
        for repeat in range(work.repeats):
            for operation, pattern in self.cases:
                done = f"{repeat + 1} of {work.repeats}"
                work.env.progress.note(f"{work.tier.name}: ioping {pattern} {operation} ({done})")
                argv = _argv(self, operation, pattern, direct, work.seed + repeat)
                measure = partial(_times, work, argv, self.requests)
                configuration = _configuration(operation, pattern)
                request_times = work.step("ioping", configuration, repeat, measure)
                times[operation, pattern].append(request_times)
        metrics = [
            metric
            for (operation, pattern), repeats in times.items()
            for metric in _metrics(_labels(work, self, operation, pattern, direct), repeats)
        ]
        requests = sum(
            len(request_times) for repeats in times.values() for request_times in repeats
        )
        return ProgramOutcome(
            metrics=metrics,
            checks=[Check("io_without_errors", "passed", f"{requests:,} requests, none failed")],
            version=found_version,
            configurations=dict.fromkeys(
                (_configuration(*case) for case in self.cases), self._settings
            ),
            tool="ioping",
            artifacts={
                "ioping": {"argv": [_argv(self, o, p, direct, work.seed) for o, p in self.cases]}
            },
            uncontrolled=(external_tools.WRITES_CACHED,)
            if direct and external_tools.caches_direct_writes(work.tier)
            else (),
        )


def version() -> str:
    """Return the version of the ioping here; UsageError where it is missing."""
    return external_tools.require("ioping", ["-v"])


def _argv(plan: Ioping, operation: str, pattern: str, direct: bool, seed: int) -> list[str]:
    argv = ["ioping", "-J", "-i", "0", "-c", str(plan.requests + _IGNORED), "-a", str(_IGNORED)]
    argv += ["-s", str(plan.access_bytes), "-S", str(plan.working_set_bytes), "-e", str(seed)]
    argv += ["-D"] * direct + ["-W"] * (operation == "write") + ["-L"] * (pattern == "sequential")
    return [*argv, "."]


def _times(work: MicroContext, argv: list[str], requests: int) -> list[int]:
    """Run ioping; return the ns of each request, RunFailed where some are missing."""
    printed = external_tools.run(work, argv)
    try:
        request_times = [
            int(number(entry["io"]["time"]))
            for entry in jsonfile.parse(printed)
            if "io" in entry and not entry["io"]["ignored"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunFailed("read what ioping prints", f"not as version 1.3 does: {error!r}") from error
    if len(request_times) != requests:
        raise RunFailed(
            f"{requests} requests of ioping", f"it reports the times of {len(request_times)}"
        )
    return request_times


def _configuration(operation: str, pattern: str) -> str:
    return f"ioping/operation={operation},pattern={pattern}"


def _labels(
    work: MicroContext, plan: Ioping, operation: str, pattern: str, direct: bool
) -> dict[str, Label]:
    facts = work.tier.facts
    cached = external_tools.caches_direct_writes(work.tier)
    return {
        "measurement": "ioping",
        "configuration": _configuration(operation, pattern),
        "operation": operation,
        "pattern": pattern,
        "access_size_bytes": plan.access_bytes,
        "queue_depth": 1,
        "threads": 1,
        "sync": "fdatasync" if operation == "write" else "none",
        "direct": direct and not (operation == "write" and cached),
        "filesystem": facts.filesystem or "unknown",
        "dax": "unknown" if facts.dax is None else facts.dax,
    }


def _metrics(labels: Labels, repeats: list[list[int]]) -> list[Metric]:
    means = tuple(sum(times) / len(times) for times in repeats)
    bins = Counter(str(time) for times in repeats for time in times)
    merged = histogram(bins).encode()
    return [
        Metric("operation_mean_duration_ns", "ns", "lower", labels, samples=means),
        Metric("operation_duration_ns", "ns", "lower", labels, hdr=merged),
    ]
