"""``microbench``, the program that measures our own suites."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import jsonfile, native_programs, structs
from harness.engine import Credentials
from harness.errors import RunFailed, UsageError
from harness.execution.environment import Environment
from harness.micro.duration import estimate
from harness.micro.external_tools import caches_direct_writes
from harness.micro.host_capacity import HostCapacity, capacity_of
from harness.micro.host_suite import (
    HostSuite,
    Library,
    job_source,
    suite_on,
    through_page_cache,
)
from harness.micro.keys import KEYS, MicroParams
from harness.micro.labels import settings_hash
from harness.micro.metrics import (
    NOTHING_DONE,
    Counted,
    SuiteResult,
    Target,
    counted_metrics,
    metrics_of,
    pages_of,
)
from harness.micro.model import MAP, Suite
from harness.micro.protocol import (
    MeasuringProgram,
    MicroContext,
    Planned,
    ProgramOutcome,
    failed_in,
)
from harness.micro.result_warnings import warnings_of
from harness.micro.spec import BLOCK, spec_json
from harness.progress import Task
from harness.rewrite import check_tools, rewrite
from harness.sequences import grouped
from harness.store.result import Check, CheckStatus
from harness.store.spec import JsonObject
from harness.supervise import programs, workdirs
from harness.supervise.credentials import run_unprivileged
from harness.supervise.failures import ending, log_tail
from harness.supervise.own_files import refuse_writable
from harness.supervise.starting import converse
from harness.supervise.user_files import read_bytes
from harness.tiers.discovery import nearest_existing
from harness.tiers.linux.model import Tier
from harness.units import counted

NAME = "microbench"
#: Before a measurement's name: the steps with what modules moved during it, and memory.
_MEDIA, _TRAFFIC = "media ", "traffic "
_WINDOW = ("window_begins", "window_ended")
_TIMEOUT_S = 60
#: Of a library, for its digest.
_MOST_BYTES = 1 << 30
#: How the program begins what it says of one measurement, by the name that it has in the spec.
_OF_MEASUREMENT = re.compile(rf"^measurement \d+{BLOCK}\d+: ")
#: Suite keys by the names that the program has for them.
_FIELD = re.compile(r"^[a-z_]+(?=: )|\b[a-z]+(?:_[a-z]+)+\b")
_SUITE_KEYS = {
    name: suite_key
    for suite_key, key in reversed(list(KEYS.items()))
    for name in (key.field, key.attribute)
    if name
} | {"second": "dram_range"}
_REFUSED = re.compile(
    rf"^measurement (?P<index>\d+){BLOCK}\d+: (?:job (?P<job>.+?): )?(?P<found>.*)$", re.DOTALL
)


@dataclass(frozen=True)
class Microbench(MeasuringProgram):
    """The program with a suite on a host.

    ``limits``: what the command line changed of the suite; ``library_digest``: SHA-256 of an index
    library.
    """

    suite: Suite
    host_suite: HostSuite
    capacity: HostCapacity
    limits: MicroParams
    library_digest: str = ""
    name = NAME

    @property
    def in_spec(self) -> JsonObject:
        return {"index_library": self.library_digest} if self.library_digest else {}

    def planned(self, repeats: int, tier: Tier | None = None) -> Planned:
        """Plan each configuration once in every block of repeats."""
        return estimate(self.host_suite.measurements, self.capacity, repeats)

    def measure(self, work: MicroContext) -> ProgramOutcome:
        """Run all measurements, their repeats interleaved."""
        host_suite = self.host_suite
        spec = spec_json(
            host_suite.measurements,
            work.tier,
            work.directory,
            self.capacity,
            seed=work.seed,
            repeats=work.repeats,
        )
        counted = Counted()
        label = f"{self.suite.name} on {work.tier.name}"
        document = _result_of(spec, work, host_suite, label, counted)
        result = SuiteResult.read(host_suite.measurements, work.repeats, document)
        return ProgramOutcome(
            metrics=[*metrics_of(result), *counted_metrics(result, counted, work.media)],
            checks=[
                _plausible(result),
                *_on_node(spec, result.targets),
                *_got_nothing_done(result),
            ],
            version=document["version"],
            configurations={
                measurement.configuration: settings_hash(
                    measurement, self.limits, self.library_digest
                )
                for measurement in self.host_suite.measurements
            },
            artifacts={"microbench": {"spec": spec, "result": document}},
            uncontrolled=tuple(warnings_of(result)),
        )


def prepare(
    suite: Suite, tier: Tier, env: Environment, limits: MicroParams, overwrite: bool
) -> Microbench:
    """Check a suite on a tier; UsageError for the first thing that cannot work."""
    native_programs.microbench_program()
    if tier.facts.kind == "devdax" and not overwrite:
        raise UsageError(
            f"suite {suite.name} on tier {tier.name!r}",
            f"it would write into the raw device {tier.claim.device}, whatever is on it",
            "add --overwrite if its content may go",
        )
    if limits.index_library:
        _check_library(Path(limits.index_library), tier, env)
    capacity = capacity_of(tier, env, limits)
    host_suite = suite_on(suite, capacity, limits)
    if caches_direct_writes(tier):
        host_suite = through_page_cache(host_suite)
    refuse(host_suite, tier, capacity, env)
    if any(library.rewritten for library in host_suite.libraries):
        check_tools()
    digest = _digest(Path(limits.index_library), env) if limits.index_library else ""
    return Microbench(suite, host_suite, capacity, limits, digest)


def _check_library(library: Path, tier: Tier, env: Environment) -> None:
    if tier.facts.kind == "devdax":
        raise UsageError(
            f"--index-library {library}",
            "only root opens a raw device, and a library is never loaded as root",
            "measure it on memory, or on a file system of that device",
        )
    if env.credentials is None or native_programs.readable_to(library, env.credentials):
        return
    try:  # root copies it
        refuse_writable(library.parent)
    except PermissionError as error:
        raise UsageError(
            f"--index-library {library}",
            f"{env.credentials.name} may not read it, and {error.strerror}",
            f"let that user read it, or make {library.parent} root's alone",
        ) from error


def _digest(library: Path, env: Environment) -> str:
    with env.readable(library) as file:
        return hashlib.sha256(read_bytes(file, env.credentials, _MOST_BYTES)).hexdigest()


def refuse(
    suite: HostSuite, tier: Tier, capacity: HostCapacity, env: Environment | None = None
) -> None:
    """Raise, in the suite's words, what the program refuses; nothing is measured.

    ``env``: where the suite has a library, whose code runs when it is loaded.
    """
    there = nearest_existing(Path(tier.claim.path or "/"))
    spec = spec_json(suite.measurements, tier, there, capacity, seed=0, repeats=1)
    libraries = suite.libraries
    done = _check_with_libraries(spec, libraries, env) if libraries else _check(spec)
    if done.returncode == 0:
        return
    words = done.stderr.strip().removeprefix("microbench: ")
    if libraries and (done.returncode not in (0, 2) or "library: " in words):
        raise UsageError(
            f"--index-library {libraries[0].path}",
            words.rpartition("library: ")[2] or ending(done.returncode),
            "name a shared library with PiBench's create_tree (docs/microbench.md)",
        )
    if (of := _REFUSED.match(words)) is None:
        raise UsageError("measure with microbench", words, "see docs/microbench.md")
    raise UsageError(
        job_source(suite.measurements[int(of["index"])], of["job"]),
        _FIELD.sub(lambda match: _SUITE_KEYS.get(match[0], match[0]), of["found"]),
        "change it in the suite, or with --param (docs/micro.md, docs/microbench.md)",
    )


def _check(spec: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    command = [str(native_programs.microbench_program()), "--check"]
    return programs.run(command, stdin=json.dumps(spec), timeout_s=_TIMEOUT_S)


def _check_with_libraries(
    spec: dict[str, Any], libraries: Sequence[Library], env: Environment | None
) -> subprocess.CompletedProcess[str]:
    """Check as the unprivileged user, since a library's code runs when it is loaded."""
    if env is None:
        assert all(library.ours for library in libraries), "others are loaded in an environment"
        return _check(_loading(spec, {library.name: library.path for library in libraries}))
    with env.scratch() as scratch, ExitStack() as stack:
        program = native_programs.microbench_for(env.credentials, scratch)
        files = {
            library.name: stack.enter_context(env.readable(library.path)) for library in libraries
        }
        stdin = json.dumps(_loading(spec, files))
        try:
            return run_unprivileged([str(program), "--check"], stdin=stdin, timeout_s=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise UsageError(
                f"--index-library {libraries[0].path}",
                f"it was not loaded within {_TIMEOUT_S} s",
                "load it with another program to see why",
            ) from None


def _rewritten(library: Library, folder: Path) -> Path:
    """Return the library as the program loads it: itself, or rewritten into ``folder``."""
    if not library.rewritten:
        return library.path
    new = folder / f"rewritten-{library.path.name}"
    rewrite(library.path, new)
    return new


def _loading(spec: dict[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
    """Name libraries in the spec by paths from which the unprivileged user can read them."""
    for measurement in spec["measurements"]:
        for job in measurement["jobs"]:
            if "library" in job:
                job["library"] = str(files[job["library"]])
    return spec


def _result_of(
    spec: dict[str, Any],
    work: MicroContext,
    host_suite: HostSuite,
    label: str,
    counted: Counted,
) -> dict[str, Any]:
    """Return one result of all measurements, also of those that an earlier attempt finished.

    ``counted``: receives what counters say of each.
    """
    env = work.env
    every = [measurement["name"] for measurement in spec["measurements"]]
    results = {name: result for name in every if (result := work.finished(name))}
    for step, kind in ((_MEDIA, counted.media), (_TRAFFIC, counted.traffic)):
        kind |= {name: counters for name in results if (counters := work.finished(step + name))}
    spec["await_windows"] = work.media is not None
    spec["report_windows"] = work.traffic is not None or work.media is not None
    left = [
        measurement for measurement in spec["measurements"] if measurement["name"] not in results
    ]
    with (
        loaded(spec, work, host_suite) as program,
        env.progress.task(label, len(left)) as task,
    ):
        under_way = UnderWay(host_suite, spec, work, task, results, counted)
        try:
            if left:
                run_program(program, {**spec, "measurements": left}, work, under_way.receive)
        except RunFailed as error:
            raise under_way.named(error) from error
    # One result of those of single measurements, perhaps of several processes.
    ordered = [results[name] for name in every]
    measurements = [measurement for result in ordered for measurement in result["measurements"]]
    notes = list(dict.fromkeys(note for result in ordered for note in result["notes"]))
    return {**ordered[-1], "measurements": measurements, "notes": notes}


@contextmanager
def loaded(spec: dict[str, Any], work: MicroContext, host_suite: HostSuite) -> Iterator[Path]:
    """Yield the program; the spec names libraries where the program's user can read them."""
    with ExitStack() as stack:
        folder = stack.enter_context(workdirs.temporary()) if host_suite.libraries else work.scratch
        files = {
            library.name: stack.enter_context(work.env.readable(_rewritten(library, folder)))
            for library in host_suite.libraries
        }
        _loading(spec, files)
        yield native_programs.microbench_for(_user(work), work.scratch)


def run_program(
    program: Path,
    spec: Mapping[str, Any],
    work: MicroContext,
    on_event: Callable[[str, dict[str, Any]], None],
) -> None:
    """The program with its spec on stdin and its progress on descriptor 3; RunFailed in its words.

    ``on_event``: receives ``measuring`` as a measurement begins and ``measured`` with the result
    of that alone; the next one begins when it returns. So does a window, where the spec has
    ``await_windows``.
    """
    awaited = {"measured"} | ({*_WINDOW} if spec.get("await_windows") else set())
    env, log = work.env, work.scratch / "microbench.log"
    process = env.supervisor.spawn(
        [str(program), "-"],
        log=log,
        log_owner=env.credentials,
        credentials=_user(work),
        pipes=True,
        progress=True,
    )

    def progress(line: bytes) -> bool:
        event = jsonfile.parse(line)
        on_event(event["event"], event["counts"])
        return event["event"] in awaited

    code, printed = converse(process, json.dumps(spec), progress)
    try:
        document: dict[str, Any] = jsonfile.parse(printed)
    except ValueError:
        document = {}
    if code != 0 or document.get("status") != "complete":
        reason = document.get("error") or f"it {ending(code)}: {log_tail(log, env.credentials)}"
        raise RunFailed("measure with microbench", reason)


@dataclass
class UnderWay:
    """The configuration under measurement: for progress, and for errors meanwhile.

    ``results``: of the finished measurements, by the names that they have in the spec; ``counted``:
    what counters say of their windows.
    """

    host_suite: HostSuite
    spec: dict[str, Any]
    work: MicroContext
    task: Task
    results: dict[str, dict[str, Any]]
    counted: Counted = field(default_factory=Counted)
    said: str = ""

    def receive(self, event: str, counts: dict[str, Any]) -> None:
        """Report that a measurement begins, count while it is measured, or store its result."""
        if event in _WINDOW:
            self._count(event, counts["measurement"])
            return
        if event == "measured":
            self._refuse_other_memory(counts)
            (measurement,) = counts["measurements"]
            # Before the result, without which it is measured again.
            if moved := self.counted.media.get(measurement["name"]):
                self.work.finish(_MEDIA + measurement["name"], dict(moved))
            if rates := self.counted.traffic.get(measurement["name"]):
                self.work.finish(_TRAFFIC + measurement["name"], dict(rates))
            self.work.finish(measurement["name"], counts)
            self.results[measurement["name"]] = counts
            return
        index, _, block = counts["measurement"].partition(BLOCK)
        configuration = self.host_suite.measurements[int(index)].configuration
        self.said = f"{configuration} (repeat {int(block) + 1} of {self.work.repeats})"
        self.task.advance(1, configuration)

    def _count(self, event: str, name: str) -> None:
        """The modules' counters are read first and last: that takes long, and is awaited."""
        media, traffic = self.work.media, self.work.traffic
        if event == "window_begins":
            if media is not None:
                media.begin()
            if traffic is not None:
                traffic.begin()
            return
        if traffic is not None:
            self.counted.traffic[name] = traffic.rates()
        if media is not None:
            self.counted.media[name] = media.moved()

    def _refuse_other_memory(self, result: dict[str, Any]) -> None:
        """Refuse to resume if memory lies on other pages or nodes than before."""
        first = next(iter(self.results.values()), result)
        then, now = _memory(self.spec, first), _memory(self.spec, result)
        if then != now:
            raise RunFailed(
                "resume the suite",
                f"its memory is on other pages or nodes: {then}, now {now}",
                "add --again: the suite is measured from its beginning",
            )

    def named(self, error: RunFailed) -> RunFailed:
        """Return the failure with the configuration in it, if one had begun."""
        if not self.said:
            return RunFailed(
                f"{error.problem}, before its first measurement", error.context, error.hint
            )
        context = _OF_MEASUREMENT.sub("", error.context)
        return failed_in(self.said, RunFailed(error.problem, context, error.hint))


def _memory(spec: dict[str, Any], result: dict[str, Any]) -> str:
    targets = structs.convert(result["targets"], dict[str, Target], "microbench's result")
    pages = [f"{name} {pages_of(target)}" for name, target in targets.items()]
    return ", ".join(
        [*pages, *(f"{check.name} {check.status}" for check in _on_node(spec, targets))]
    )


def _user(work: MicroContext) -> Credentials | None:
    """Return the unprivileged user, but none for a raw device, which only its owner opens."""
    return None if work.tier.facts.kind == "devdax" else work.env.credentials


def _plausible(result: SuiteResult) -> Check:
    """Report the program's own check: it fails where a figure is not plausible."""
    return Check(
        "plausible",
        "passed",
        f"{counted(len(result.measurements), 'configuration')}, {result.repeats} times each, "
        "within what the processor's load and store ports can do",
    )


def _got_nothing_done(result: SuiteResult) -> Iterator[Check]:
    """Yield a check for each job without figures: its threads never ran at the same time."""
    for job_results in result.jobs():
        if job_results.idle:
            labels = {
                "configuration": job_results.measurement.configuration,
                "job": job_results.job.name,
            }
            yield Check("measured", "unknown", NOTHING_DONE, labels)


def _on_node(spec: dict[str, Any], targets: Mapping[str, Target]) -> Iterator[Check]:
    """Check whether a sample of pages lies on the requested node."""
    by_kind = grouped(
        (job["kind"] == MAP, job["target"])
        for measurement in spec.get("measurements", [])
        for job in measurement["jobs"]
    )
    unmapped = {*by_kind.get(True, [])} - {*by_kind.get(False, [])}
    for name, target in spec["targets"].items():
        if name in unmapped:
            continue
        requested = {node for part in target.get("placement", []) for node in part["nodes"]}
        if target["kind"] == "dram" and target.get("node") is not None:
            requested = {target["node"]}
        if not requested:
            continue
        pages_by_node = targets[name].nodes
        there = sum(pages_by_node.get(str(node), 0) for node in requested)
        total = sum(pages_by_node.values())
        nodes = ", ".join(map(str, sorted(requested)))
        detail = f"{there} of {total} pages looked at lie on node {nodes}"
        if not total:
            yield Check("memory-node", "unknown", "Linux reports no page of it", {"target": name})
        else:
            right: CheckStatus = "passed" if there == total else "failed"
            yield Check("memory-node", right, detail, {"target": name})
