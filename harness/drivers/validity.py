"""What makes the numbers of a driven window doubtful, whatever the workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.drivers.result import SERIES_NS, DriverResult, WindowCounters
from harness.engine import Engine, Listens, TellsDurability
from harness.host.confounders import Finding
from harness.units import format_ns

#: A client thread that computes for more than this share of the window has no time to wait.
_SATURATED = 0.9
#: How much of what was due at the window's end may wait in an open loop, as a share of what
#: was offered in it, before the rate counts as not kept.
_BACKLOG = 0.01
#: Operations without an answer that are reported: such a share is seen in a histogram's p99.9.
_UNANSWERED = 0.001
#: How far the first and last third of a window may be apart.
_STEADY = 0.1
#: Counters that are of so much more or less time than the window, as a share of it, are told.
_OFF = 0.05


@dataclass(frozen=True)
class Nouns:
    """How a workload calls what it does, and who asks for it."""

    operation: str
    user: str
    #: The option that says how many of them there are.
    users_option: str


def saturation(driven: DriverResult) -> Iterator[Finding]:
    """A client that had no time to wait for the server."""
    share = driven.busiest_thread_share
    if share is None and driven.client_cpu_ns is not None and driven.client_threads:
        share = driven.client_cpu_ns / (driven.client_threads * driven.window_ns)
    if share is not None and share > _SATURATED:
        yield Finding(
            what="client CPU",
            found=f"a client thread computed for {share:.0%} of the window: the client may "
            "have been the limit, not the server",
            do="give it more: -p client_threads=…, -p clients=…",
        )


def backlog(driven: DriverResult, nouns: Nouns) -> Iterator[Finding]:
    """A rate that was offered and not kept, in the ramp-up or in the window."""
    if driven.backlog_count is None or not driven.offered_count:
        return
    begin, end = driven.backlog_count
    most = max(1.0, _BACKLOG * driven.offered_count)
    if begin > most:
        where = "left out" if driven.backlog_left_out else "done in the window, before its own"
        yield Finding(
            what="backlog-at-window-start",
            found=f"{begin} {nouns.operation}s that were due in the ramp-up had not begun when the "
            f"window did, and were {where}: the engine did not keep the rate until then",
            do="raise --ramp-up, or lower --rate",
        )
    if end - (0 if driven.backlog_left_out else begin) > most:
        yield Finding(
            what="offered rate",
            found=f"{end} {nouns.operation}s that were due at the window's end had not begun "
            "yet: the engine did not keep up, and latencies grow with the length of the window",
            do=f"lower --rate, or raise {nouns.users_option}",
        )


def unanswered(driven: DriverResult, nouns: Nouns) -> Iterator[Finding]:
    """Percentiles that are ages of operations without an answer."""
    for name, one in driven.operations.items():
        share = one.answered_share if one.unfinished_count else 1.0
        if share == 0:
            found = f"not one {name} that began in the window was answered: it has no latencies"
        elif share < 1 - _UNANSWERED:
            found = (
                f"{1 - share:.1%} of {name} {nouns.operation}s had no answer when the client "
                "stopped waiting: they count with their age then, so percentiles above "
                f"p{100 * share:.3g} are less than the truth"
            )
        else:
            continue
        yield Finding(what="unanswered operations", found=found, do="lower --rate")


def trend(driven: DriverResult, nouns: Nouns) -> Iterator[Finding]:
    """A window whose end is another than its beginning."""
    whole = driven.window_ns // SERIES_NS  # a last interval that is cut off has fewer
    done = [sum(point["counts"].values()) for point in driven.series[:whole]]
    third = len(done) // 3
    if third < 3 or not sum(done[:third]):
        return
    change = sum(done[-third:]) / sum(done[:third]) - 1
    if abs(change) > _STEADY:
        yield Finding(
            what="steady state",
            found=f"the window's last third has {change:+.0%} {nouns.operation}s beside its first",
            do="raise --ramp-up, and let the window hold several checkpoints",
        )


def late_counters(driven: DriverResult, counted: WindowCounters) -> Iterator[Finding]:
    """Counters that were not read at the ends of the window."""
    off_ns = counted.off_ns(driven.window_ns)
    if driven.counters_late_ns is not None:
        found = (
            f"they were read {format_ns(driven.counters_late_ns)} from an end of it, as the "
            "client or the machine was busy, and are left out: processor time, input and output, "
            "and what the engine counts"
        )
    elif abs(off_ns) > _OFF * driven.window_ns:
        found = (
            f"they are of up to {format_ns(abs(off_ns))} {'more' if off_ns > 0 else 'less'} than "
            f"its {format_ns(driven.window_ns)}: processor time, input and output, and what the "
            "engine counts, may be off by as much"
        )
    else:
        return
    yield Finding(
        what="counters of the window",
        found=found,
        do="measure on a machine that does nothing else, or give it a longer --duration",
    )


def closed_loop(nouns: Nouns) -> Finding:
    """Of users that wait for their answer and do not think."""
    return Finding(
        what="waiting in a closed loop",
        found=f"a {nouns.user} asks for nothing while it waits, so a stall of the engine delays "
        f"one {nouns.operation} of each {nouns.user} and not all that would have come "
        "(coordinated omission)",
        do="offer a rate with --rate to see waiting in the latencies",
    )


def clients_elsewhere(hosts: Sequence[str], engine: Engine) -> Iterator[Finding]:
    """What is between the clients and the server is in every latency, and costs processors."""
    if not hosts:
        return
    there = engine.from_elsewhere() if isinstance(engine, Listens) else None
    if there is None:
        what, way = "ssh between clients and server", "through ssh tunnels to its private socket"
    else:
        what, way = "TLS between clients and server", f"by TLS on {there['host']}"
    yield Finding(
        what=what,
        found=f"the clients are on {', '.join(dict.fromkeys(hosts))} and reach the server {way}: a "
        "network and encryption are part of each latency, and encryption takes processor time of "
        "both sides",
        do="compare with runs whose clients came the same way",
    )


def lost_without_power(engine: Engine) -> Iterator[Finding]:
    """Rates with and without waiting for the device are not the same thing."""
    risks = engine.lost_without_power() if isinstance(engine, TellsDurability) else {}
    if risks:
        told = "; ".join(f"{setting}: {meaning}" for setting, meaning in risks.items())
        yield Finding(
            what="durable commits",
            found=f"a loss of power may take commits that were acknowledged ({told})",
            do="compare with runs of the same settings only, or leave them at their defaults",
        )


def unseeded(why: str) -> Iterator[Finding]:
    """A driver that takes no seed: ``why``, in a sentence without its full stop; empty: it does."""
    if why:
        yield Finding(
            what="seed",
            found=f"{why}: no two runs ask for the same",
            do="repeat it; compare medians of several runs",
        )
