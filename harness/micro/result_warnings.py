"""Warnings about a result, from what the program observed while it measured."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence

from harness.micro.metrics import Repeat, SuiteResult, pages_of
from harness.micro.model import FILE
from harness.micro.spec import BLOCK
from harness.micro.suite_warnings import STRIPE_BYTES
from harness.units import NS_PER_S, counted, format_bytes, format_ns
from harness.warnings import RunWarning

#: A note on one measurement, by the name that it has in the spec.
_NOTED = re.compile(rf"^measurement (\d+){BLOCK}\d+: (.*)$")
#: Share of the processors' time that the hypervisor may take without a warning. It is counted in
#: ticks of 10 ms: measurements shorter than a hundred of them do not resolve 1 %.
_STOLEN, _LONG_NS = 0.01, NS_PER_S
#: Share of a thread's time that other processes may have its processor without a warning; threads
#: that ran for less time than this say nothing of it.
_SHARED, _LEAST_NS = 0.02, 1_000_000
#: What a page fault takes at the least: without, and with a wait for storage. Reported where they
#: took so much of a thread's time.
_MINOR_NS, _MAJOR_NS, _FAULTING = 250, 10_000, 0.005
#: The number of configurations that are named, those that lost most.
_WORST = 3
#: Kinds that report rates, and the time below which they are doubtful: threads look at the
#: clock, and whether another one has ended, up to 400 µs apart.
_RATED = ("throughput", "chain", "log", "page", "index", "pmdk", FILE)
_LEAST_WINDOW_NS = 10_000_000
#: Steps of the clock from which on a percentile of some 100 ns is off by more than 2 %.
_STAMP_STEP_NS = 2.0
#: So far the core's clock may move between the repeats of a configuration.
_CLOCK = 0.05


def warnings_of(result: SuiteResult) -> Iterator[RunWarning]:
    """Yield what makes the figures of this result doubtful."""
    yield from _notes(result)
    yield from _pages(result)
    yield from _dimms(result)
    yield from _persistence(result)
    yield from _stolen(result)
    yield from _shared(result)
    yield from _faults(result)
    yield from _short(result)
    yield from _clock(result)
    yield from _stamps(result)


def _notes(result: SuiteResult) -> Iterator[RunWarning]:
    """Yield the program's own notes once each, with the configurations' names."""
    by_words: dict[str, list[str]] = {}
    for note in result.notes:
        match = _NOTED.match(note)
        words = match.group(2) if match else note
        names = by_words.setdefault(words, [])
        if match:
            names.append(result.measurements[int(match.group(1))].configuration)
    for number, (words, noted) in enumerate(by_words.items(), 1):
        names = list(dict.fromkeys(noted))
        of = f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''}: " if names else ""
        yield RunWarning(
            code="microbench-note",
            problem=f"microbench note {number}",
            context=of + words,
            hint="see docs/microbench.md",
        )


def _pages(result: SuiteResult) -> Iterator[RunWarning]:
    for name, target in result.targets.items():
        pages = pages_of(target)
        if target.pages == "huge" and pages != "huge":
            how = "lie on huge pages"
            hint = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and free memory"
        elif target.pages is None and pages in ("base", "mixed"):
            how = "are mapped by pages of 2 MiB"
            hint = (
                "align namespace and file system to 2 MiB, as setup-appdirect.yml does, and "
                "leave free space in one piece"
            )
        else:
            continue
        size = format_bytes(target.size_bytes)
        yield RunWarning(
            code="huge-pages-missing",
            problem=f"target {name} does not lie on huge pages",
            context=f"{format_bytes(target.huge_bytes or 0)} of {size} {how}",
            hint=hint,
        )


def _dimms(result: SuiteResult) -> Iterator[RunWarning]:
    """Warn where the pieces of a file begin on other DIMMs than its stripes do."""
    stripes: dict[str, set[int]] = {}
    for job_results in result.jobs():
        if job_results.job.keys.get("pattern") == "dimms":
            stripe = int(job_results.job.keys.get("stripe_bytes", STRIPE_BYTES))
            stripes.setdefault(job_results.repeats[0].target, set()).add(stripe)
    for name, of_target in stripes.items():
        target = result.targets[name]
        unit = target.extent_unit_bytes
        if target.kind != "file" or (unit is not None and not any(unit % s for s in of_target)):
            continue
        pieces = (
            "Linux does not say where the pieces of the file are"
            if unit is None
            else f"the file is in pieces, displaced by multiples of {format_bytes(unit)}, not of"
            f" {', '.join(format_bytes(stripe) for stripe in sorted(of_target))}"
        )
        yield RunWarning(
            code="dimms-mixed",
            problem=f"pattern dimms: threads access other DIMMs than stated on target {name}",
            context=pieces,
            hint="measure a devdax tier of the same region, or a file system with free space in one"
            " piece",
        )


def _persistence(result: SuiteResult) -> Iterator[RunWarning]:
    """Warn where no write would survive a loss of power."""
    answers = {
        repeat.durable: repeat.durable_why or ""
        for job_results in result.jobs()
        for repeat in job_results.repeats
        if repeat.durable is not None
    }
    if answers and set(answers) == {"no"}:
        yield RunWarning(
            code="not-persistent",
            problem="no write survives a loss of power",
            context=answers["no"],
            hint="do not read the figures as those of persistent memory",
        )


def _stolen(result: SuiteResult) -> Iterator[RunWarning]:
    """Warn of stolen time: of measurements of 1 s or more one by one, of shorter ones together.

    ``stolen_ns`` is a sum over processors since the warm-up began; what was stolen during the
    set-up counts with it, so that a share may be above 1.
    """
    times = [
        (
            repeat.stolen_ns,
            wall_ns * len({t.cpu for job in repeat.jobs for t in job.threads}),
            wall_ns,
        )
        for measurement, repeats in result.by_measurement()
        for repeat in repeats
        for wall_ns in [measurement.warm_up_ns + repeat.duration_ns]
        if repeat.stolen_ns is not None
    ]
    long = [min(1.0, stolen / max(1, all_)) for stolen, all_, wall in times if wall >= _LONG_NS]
    short = [entry for entry in times if entry[2] < _LONG_NS]
    contexts = []
    if many := [share for share in long if share > _STOLEN]:
        contexts.append(
            f"in {len(many)} of {len(long)} measurements of 1 s or more, up to {max(long):.0%}"
        )
    if sum(wall for _, _, wall in short) >= _LONG_NS:
        share = min(
            1.0, sum(entry[0] for entry in short) / max(1, sum(entry[1] for entry in short))
        )
        if share > _STOLEN:
            contexts.append(f"{share:.0%} in {len(short)} shorter ones together")
    if contexts:
        yield RunWarning(
            code="stolen-while-measuring",
            problem="the hypervisor took processor time during measurements",
            context=f"more than {_STOLEN:.0%} of the processors' time went to other guests: "
            + "; ".join(contexts),
            hint="request dedicated processors, or repeat",
        )


def _shared(result: SuiteResult) -> Iterator[RunWarning]:
    """Warn of processors that others used: threads that only load and store never sleep."""
    lost = [(name, _most_lost(repeat)) for name, repeat in result.in_order()]
    above = [(name, share) for name, share in lost if share > _SHARED]
    if above:
        yield RunWarning(
            code="processors-shared",
            problem="other processes ran on the measuring processors",
            context=f"in {len(above)} of {len(lost)} measurements other processes had more than "
            f"{_SHARED:.0%} of a thread's time, the most in {_worst(above)}",
            hint="measure while nothing else runs, or on dedicated processors (--cpus)",
        )


def _worst(shares: Sequence[tuple[str, float]]) -> str:
    """Name the configurations that lost most, each with its worst repeat."""
    worst: dict[str, float] = {}
    for name, share in sorted(shares, key=lambda pair: -pair[1]):
        worst.setdefault(name, share)
    named = [f"{name} ({share:.{0 if share >= 0.1 else 1}%})" for name, share in worst.items()]
    return "; ".join([*named[:_WORST], *(["…"] if len(named) > _WORST else [])])


def _faults(result: SuiteResult) -> Iterator[RunWarning]:
    """Warn of page faults: all pages were touched before, so some were taken or moved."""
    shares = [(name, _most_faulting(repeat)) for name, repeat in result.in_order()]
    above = [(name, share) for name, share in shares if share > _FAULTING]
    if above:
        yield RunWarning(
            code="page-faults",
            problem="page faults took time during measurements",
            context=f"in {len(above)} of {len(shares)} measurements page faults took at least "
            f"{_FAULTING:.1%} of a thread's time, the most in {_worst(above)}",
            hint="for a file without DAX: use a tier with DAX, or dram; else stop what moves pages "
            "(automatic NUMA balancing, DAMON, memory demotion, swap)",
        )


def _most_faulting(repeat: Repeat) -> float:
    """Return the largest share of a thread's time that its page faults took at least."""
    shares = (
        (_MINOR_NS * thread.minor_faults + _MAJOR_NS * thread.major_faults)
        / (thread.end_ns - thread.begin_ns)
        for job in repeat.jobs
        for thread in job.threads
        if thread.end_ns - thread.begin_ns >= _LEAST_NS
    )
    return min(1.0, max(shares, default=0.0))


def _short(result: SuiteResult) -> Iterator[RunWarning]:
    """Warn of rates over little time: the program reads the clock every 200 µs."""
    short: dict[str, int] = {}  # ns, by configuration
    for name, repeat in result.in_order():
        windows = [job.window.duration_ns for job in repeat.jobs if job.kind in _RATED]
        if windows and min(windows) < _LEAST_WINDOW_NS:
            short[name] = min(*windows, short.get(name, _LEAST_WINDOW_NS))
    shortest = sorted(short, key=lambda name: short[name])[:_WORST]
    named = [f"{name} ({format_ns(short[name])})" for name in shortest]
    if short:
        yield RunWarning(
            code="short-measurements",
            problem="measurements are shorter than 10 ms",
            context=f"{counted(len(short), 'configuration')}, the shortest {'; '.join(named)}"
            f"{'; …' if len(short) > _WORST else ''}",
            hint="raise operations or duration",
        )


def _most_lost(repeat: Repeat) -> float:
    """Return the largest share of a thread's time in which it did not run."""
    ran = (
        (thread.cpu_ns, thread.end_ns - thread.begin_ns)
        for job in repeat.jobs
        for thread in job.threads
        if job.kind != FILE  # its threads wait for a device
    )
    return max((1 - cpu / wall for cpu, wall in ran if wall >= _LEAST_NS), default=0.0)


def _clock(result: SuiteResult) -> Iterator[RunWarning]:
    clocks = [repeat.core_hz for _, repeat in result.in_order() if repeat.core_hz > 0]
    if len(clocks) < 2:
        return
    middle = statistics.median(clocks)
    spread = (max(clocks) - min(clocks)) / middle
    if spread > _CLOCK:
        yield RunWarning(
            code="core-clock-changed",
            problem="the core clock changed between measurements",
            context=f"between {min(clocks) / 1e9:.2f} and {max(clocks) / 1e9:.2f} GHz",
            hint="fix it (frequency governor, turbo), or trust ratios within a block only",
        )


def _stamps(result: SuiteResult) -> Iterator[RunWarning]:
    step_ns = result.stamp_step_ns
    jobs = (job for _, repeat in result.in_order() for job in repeat.jobs)
    if step_ns > _STAMP_STEP_NS and any(j.latency_hdr and j.kind != "chase" for j in jobs):
        yield RunWarning(
            code="coarse-time-stamps",
            problem="time stamps of single operations are coarse",
            context=f"this processor's clock has steps of {step_ns:.1f} ns",
            hint="compare means, or percentiles that are several steps apart",
        )
