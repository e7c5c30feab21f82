"""The event loop, its counting and its ends, against a server that keeps exact time."""

import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from patience import PATIENCE_S, eventually

from harness import hdr, structs
from harness.drivers.loadgen.spec import LoadgenResult

MS, S = 10**6, 10**9
#: Longer than anybody would wait: a run of this length that ends has ended early.
FOR_EVER_NS = 600 * S


def spec_of(**changes):
    return {
        "schema": 1,
        "backend": "stub",
        "connection": {"service_us": 500},
        "workload": {"name": "ping", "params": {}},
        "statements": {"ping": "SELECT :terminal, :number"},
        "threads": 2,
        "connections": 4,
        "mode": {"kind": "closed"},
        "ramp_up_ns": 200 * MS,
        "duration_ns": 1 * S,
        "seed": 1,
        **changes,
    }


def open_loop(rate_per_s):
    return {"kind": "open", "rate_per_s": rate_per_s}


@pytest.fixture
def start(loadgen_build):
    """Start it on a spec; ended at the test's end."""
    started = []

    def starter(spec, wrapper=(), stdout=subprocess.PIPE, *, ends=True):
        argv = [*wrapper, loadgen_build / "loadgen", "-"]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=stdout,
                                   stderr=subprocess.PIPE, text=True)  # fmt: skip
        started.append(process)
        assert process.stdin is not None
        process.stdin.write(spec if isinstance(spec, str) else json.dumps(spec))
        process.stdin.flush()
        if ends:
            process.stdin.close()
            process.stdin = None
        return process

    yield starter
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def complete(start):
    """Run a spec that ends well; its result, valid by its schema."""

    def run(**changes):
        process = start(spec_of(**changes))
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, stderr) == (0, "")
        return valid(stdout, "complete")

    return run


def valid(stdout, status):
    result = json.loads(stdout)
    structs.convert(result, LoadgenResult, "loadgen's result")
    assert result["status"] == status
    return result


@pytest.fixture
def failed(start):
    """Run a spec that fails under way; its result."""

    def run(status="failed", **changes):
        process = start(spec_of(**{"duration_ns": FOR_EVER_NS, **changes}))
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        result = valid(stdout, status)
        assert stderr == f"loadgen: {result['error']}\n"
        return result

    return run


def counted(complete, operations=1000, **changes):
    """A run that ends with its operations, however long the machine stands still meanwhile."""
    return complete(operations=operations, duration_ns=None, ramp_up_ns=0, **changes)


def ping_of(result):
    ping = result["operations"]["ping"]
    return ping, hdr.decode(ping["latency_hdr"])


# What is counted ----------------------------------------------------------------


def test_an_open_loop_shows_a_stall_and_a_closed_one_says_that_it_cannot(complete):
    """200 ms without an answer each second: a fifth of what should have come waited."""
    stalling = {"service_us": 200, "stall_ms": 200, "stall_every_ms": 1000}
    shape = {"connection": stalling, "duration_ns": 4 * S, "ramp_up_ns": 1 * S}
    opened = complete(mode=open_loop(1000), **shape)
    # Of so many operations, four see a stall, be it of the server or of the whole machine.
    closed = counted(complete, 20_000, connection=stalling)
    assert ping_of(opened)[1].percentile(90) >= 50 * MS
    assert ping_of(closed)[1].percentile(90) < 50 * MS
    assert "coordinated omission" in closed["notes"]["loop"]
    assert "intended start" in opened["notes"]["loop"]


def test_the_histogram_is_one_of_the_hdrhistogram_library(complete):
    ping, ours = ping_of(complete(mode=open_loop(2000)))
    theirs = HdrHistogram.decode(ping["latency_hdr"])
    assert theirs.get_total_count() == ours.total == 2000
    for percent in (1, 50, 99, 99.9, 100):
        assert theirs.get_value_at_percentile(percent) == ours.percentile(percent)
    assert ours.percentile(1) >= 500_000  # service time: nothing is faster


def test_an_open_loop_offers_its_rate_exactly_and_nothing_of_the_ramp_up(complete):
    offered = {"mode": open_loop(1500), "ramp_up_ns": 700 * MS, "drain_ns": 60 * S}
    result = complete(threads=3, connections=9, **offered)
    ping, latency = ping_of(result)
    assert result["offered"]["count"] == latency.total == 1500
    assert ping["unfinished_count"] == 0


@pytest.mark.parametrize(("first_start", "begun"), [(0.0, 1), (0.5, 0)])
def test_several_open_loops_can_take_turns(complete, first_start, begun):
    """At one start a second the first comes half a second late, behind this window."""
    mode = {**open_loop(1), "first_start": first_start}
    result = complete(mode=mode, ramp_up_ns=0, duration_ns=400 * MS)
    assert result["offered"]["count"] == begun


def test_the_series_adds_up_to_the_count_and_covers_the_window(complete):
    result = complete(series_interval_ns=100 * MS, duration_ns=1050 * MS)
    ping, latency = ping_of(result)
    assert len(result["series"]) == 11
    starts = [point["monotonic_ns"] for point in result["series"]]
    assert starts == [result["started_monotonic_ns"] + i * 100 * MS for i in range(11)]
    assert sum(point["counts"]["ping"] for point in result["series"]) == ping["count"]
    # Those under way at the window's two ends are in one of the two only.
    assert abs(latency.total - ping["count"]) <= 4


def test_latencies_over_time_are_those_of_the_series(complete):
    result = complete(series_interval_ns=100 * MS, duration_ns=1050 * MS, intervals_per_histogram=4)
    begin = result["started_monotonic_ns"]
    stamps = [point["monotonic_ns"] for point in result["latencies"]]
    assert stamps == [begin, begin + 400 * MS, begin + 800 * MS]
    counts = [point["counts"]["ping"] for point in result["series"]]
    for at, point in enumerate(result["latencies"]):
        ours = hdr.decode(point["hdr"]["ping"])
        theirs = HdrHistogram.decode(point["hdr"]["ping"])
        assert theirs.get_total_count() == ours.total == sum(counts[4 * at : 4 * at + 4])
        for percent in (1, 50, 99, 100):
            assert theirs.get_value_at_percentile(percent) == ours.percentile(percent)
        assert ours.percentile(1) >= 500_000 * 127 // 128  # service time


def test_an_overloaded_server_makes_the_backlog_and_the_latency_grow(complete):
    slow = {"service_us": 20_000}
    result = complete(connection=slow, mode=open_loop(1000), drain_ns=100 * MS)
    ping, latency = ping_of(result)
    offered = result["offered"]
    assert offered["count"] == latency.total == 1000
    assert ping["count"] <= 200  # four connections, 50 answers a second each
    assert ping["unfinished_count"] > 500
    assert offered["backlog_end"] > offered["backlog_begin"] + 500
    assert offered["in_flight_end"] == 4
    # The oldest of those that never began had waited for nearly all of the window.
    assert latency.percentile(50) > 100 * MS


@pytest.mark.parametrize("terminals", [4, 100])
def test_the_queue_of_the_ramp_up_is_no_part_of_the_window(complete, terminals):
    """The server answers half of what is offered: at the end of the ramp-up a second waits."""
    slow = {"service_us": 10_000}  # of four connections: 400 answers a second at most
    lasts = {"ramp_up_ns": 2 * S, "duration_ns": 2 * S, "drain_ns": 0}
    result = complete(connection=slow, terminals=terminals, mode=open_loop(800), **lasts)
    ping, latency = ping_of(result)
    offered = result["offered"]
    assert offered["backlog_begin"] >= 2 * (800 - 400) - 8
    assert offered["count"] == latency.total == 1600
    assert 0 < ping["count"] <= 800
    assert ping["count"] + offered["backlog_end"] <= 1600
    # Behind the queue of the ramp-up the first would have waited for a second.
    assert latency.percentile(0.1) < 1 * S


@pytest.mark.parametrize("threads", [1, 4])
def test_a_start_goes_to_any_free_terminal(complete, threads):
    """One of four loops hangs for good; the starts that come are the others'."""
    hangs = {"service_us": 100, "hang_connection": 3}
    result = complete(connection=hangs, threads=threads, mode=open_loop(1000), drain_ns=1 * S)
    assert ping_of(result)[0]["unfinished_count"] < 100


def test_what_never_ends_is_unfinished_and_in_the_histogram_with_its_age(complete):
    result = complete(connection={"service_us": 1000, "hang_after": 50}, drain_ns=300 * MS)
    ping, latency = ping_of(result)
    assert ping["unfinished_count"] in range(5)  # four connections; some may hang from the ramp-up
    lasts = {"drain_ns": 300 * MS, "ramp_up_ns": 0, "duration_ns": 3 * S}
    hangs = {"service_us": 1000, "hang_after": 10}
    ping, latency = ping_of(complete(connection=hangs, stall_timeout_ns=FOR_EVER_NS, **lasts))
    assert ping["count"] == 4 * 9
    assert ping["unfinished_count"] == 4
    assert latency.total == 4 * 10
    assert latency.max >= 300 * MS


def test_retries_are_counted_by_code_and_the_operation_once(complete):
    result = counted(complete, 3000, connection={"service_us": 200, "retry_every": 3})
    ping, _ = ping_of(result)
    assert result["errors"] == {"40001": ping["retried_count"]}
    # Every third call is undone: half as many retries as operations.
    assert ping["retried_count"] == pytest.approx(ping["count"] / 2, rel=0.1)


@pytest.mark.parametrize("answer", ["skipped", "done", "rolled_back"])
def test_what_an_answer_says_is_counted_apart(complete, answer):
    ping, latency = ping_of(
        counted(complete, connection={"service_us": 500, "answers": {"ping": [answer]}})
    )
    finished = ping["rolled_back_count" if answer == "rolled_back" else "count"]
    assert finished == ping["count"] + ping["rolled_back_count"]
    assert ping["skipped_count"] == (ping["count"] if answer == "skipped" else 0)
    assert abs(finished - latency.total) <= 4 < latency.total


def test_waiting_for_a_connection_counts(complete):
    """Four terminals share one connection: each waits for three others, of 5 ms at least."""
    few = {"threads": 1, "connections": 1, "connection": {"service_us": 5000}}
    alone = ping_of(counted(complete, 100, **few))[1]
    shared = ping_of(counted(complete, 100, terminals=4, **few))[1]
    assert alone.percentile(1) >= 5 * MS
    assert shared.percentile(50) >= 0.99 * 4 * 5 * MS


def test_an_embedded_engine_does_not_keep_the_clock_out(complete):
    assert ping_of(complete(connection={"embedded": True}))[0]["count"] > 0


def test_the_journal_has_every_operation_once_and_in_order(complete, tmp_path):
    journal = tmp_path / "journal"
    ping, _ = ping_of(counted(complete, 4000, journal=str(journal)))
    by_terminal: dict[str, list[int]] = {}
    for line in journal.read_text().splitlines():
        _, terminal, number = line.split()
        by_terminal.setdefault(terminal, []).append(int(number))
    assert set(by_terminal) == {"0", "1", "2", "3"}
    for numbers in by_terminal.values():
        assert numbers == list(range(1, len(numbers) + 1))
    assert sum(map(len, by_terminal.values())) >= ping["count"]
    assert journal.stat().st_mode & 0o777 == 0o600


# How it ends --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connection", "reason"),
    [
        ({"lose_after": 20}, r"ping of terminal \d on connection \d: 08006: the stub has gone"),
        ({"refuse_after": 20}, r"ping of terminal \d on connection \d: 42601: the stub does not"),
        ({"answers": {"ping": ["wrong"]}}, r"ping of terminal \d on .*: the answer is 'wrong'"),
        ({"refuse_connection": True}, r"connection \d of 4: connection refused by the stub"),
        ({"retry_every": 1}, r"40001: undone and tried again 1000 times"),
    ],
)
def test_what_goes_wrong_ends_the_run_at_once_with_its_reason(failed, connection, reason):
    assert re.search(reason, failed(connection=connection)["error"])


@pytest.mark.parametrize(
    ("status", "connection", "words"),
    [
        ("stalled", {"service_us": 100, "hang_after": 20}, "no answer from the server to 4 calls"),
        ("failed", {"hang_connecting": True}, "the server accepted no connection"),
    ],
)
def test_a_server_that_does_not_answer_ends_the_run(failed, status, connection, words):
    result = failed(status, connection=connection, stall_timeout_ns=300 * MS)
    assert words in result["error"]


def test_a_stall_that_ends_in_time_is_no_failure(complete):
    stalling = {"service_us": 100, "stall_ms": 300, "stall_every_ms": 1000}
    # Four connections: they take 1.5 s at least.
    result = counted(complete, 60_000, connection=stalling, stall_timeout_ns=1800 * MS)
    assert ping_of(result)[0]["count"] == 60_000


def test_a_standstill_of_the_client_s_own_host_is_no_stall_of_the_server(start):
    """A machine that stops and goes on: of the four seconds of an answer it sees one go by."""
    process = start(
        spec_of(threads=1, connections=1, operations=1, duration_ns=None, ramp_up_ns=0,
                connection={"service_us": 4_000_000}, stall_timeout_ns=2 * S)
    )  # fmt: skip
    while process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    stdout, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, "")
    assert ping_of(json.loads(stdout))[0]["count"] == 1


def test_terminals_that_think_for_long_are_no_stall(complete):
    thinking = {"workload": {"name": "ping", "params": {"think_ns": 1500 * MS}},
                "mode": {"kind": "closed", "think_time": True}}  # fmt: skip
    result = complete(stall_timeout_ns=1 * S, ramp_up_ns=0, duration_ns=4 * S, **thinking)
    assert ping_of(result)[0]["count"] > 0


def test_a_journal_that_cannot_be_written_ends_the_run(failed):
    assert "journal /dev/full: No space left" in failed(journal="/dev/full")["error"]
    assert "journal /no/such/file: No such" in failed(journal="/no/such/file")["error"]


def test_processes_start_together(start):
    at = time.time_ns() + 4 * S  # by when both are ready, also on a busy machine
    several = [start(spec_of(start_at_realtime_ns=at, ramp_up_ns=0)) for _ in range(2)]
    results = [json.loads(process.communicate(timeout=PATIENCE_S)[0]) for process in several]
    begins = [result["started_monotonic_ns"] for result in results]
    offsets = [r["clock"]["realtime_ns"] - r["clock"]["monotonic_ns"] for r in results]
    # Both mean the same moment, as far as the wall clock was not set in between.
    assert abs((begins[0] + offsets[0]) - (begins[1] + offsets[1])) < 100 * MS


def test_a_result_that_cannot_be_written_is_a_failure(start):
    with Path("/dev/full").open("w") as full:
        process = start(spec_of(duration_ns=100 * MS), stdout=full)
        _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert stderr.endswith(f": {os.strerror(errno.ENOSPC)}\n")


def test_a_result_behind_progress_on_one_pipe_waits_for_its_reader(start):
    """A client host does the same. Progress never waits, and both are ends of one open file."""
    reader, writer = os.pipe()
    capacity = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    spec = spec_of(duration_ns=300 * MS, ramp_up_ns=0, series_interval_ns=1 * MS)
    process = start(spec, ["/bin/sh", "-c", 'exec "$0" "$@" 3>&1'], writer)
    os.close(writer)
    with pytest.raises(subprocess.TimeoutExpired):  # nobody reads yet
        process.wait(timeout=2)
    with os.fdopen(reader, "rb") as output:
        lines = output.read().splitlines()
    assert process.wait(PATIENCE_S) == 0
    *progress, result = map(json.loads, lines)
    assert len(lines[-1]) > capacity
    assert progress[0]["event"] == "connected"
    assert valid(json.dumps(result), "complete")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_without_a_result(start, tmp_path, number):
    journal = tmp_path / "journal"
    process = start(spec_of(duration_ns=FOR_EVER_NS, journal=str(journal)))
    assert eventually(lambda: journal.exists() and journal.stat().st_size)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout) == (128 + number, "")
    assert re.fullmatch(rf"loadgen: .* signal {int(number)}\n", stderr)
    assert journal.read_text().endswith("\n")


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        ("", "the spec"),
        ("[]", "the spec"),
        ('{"schema": 1, "schema": 1}', "the spec"),
        (spec_of(threads=0), "threads"),
        (spec_of(backend="oracle"), "backend"),
        (spec_of(workload={"name": "tpcx", "params": {}}), "workload.name"),
    ],
)
def test_a_spec_that_cannot_be_run_is_a_usage_error(start, spec, key):
    process = start(spec)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout) == (2, "")
    assert stderr.startswith(f"loadgen: {key}: ")


def test_connections_stay_until_stdin_ends(start):
    """A server's process reports its processor time only as long as it is there."""
    process = start(spec_of(duration_ns=100 * MS, ramp_up_ns=0), ends=False)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)
    stdout, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert json.loads(stdout)["status"] == "complete"


# Parts that need no event loop -------------------------------------------------

TESTS = sorted(path.stem for path in Path(__file__).parents[2].glob("loadgen/tests/test_*.c"))


@pytest.mark.parametrize("name", TESTS)
def test_every_check_holds(loadgen_build, name):
    done = subprocess.run([loadgen_build / name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
