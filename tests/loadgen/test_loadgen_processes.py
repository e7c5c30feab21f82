"""loadgen as the harness drives it: processes under the supervisor, callbacks, one result."""

import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from narrowed import present
from patience import PATIENCE_S
from scratch import open_directory

from harness import hdr, native_programs
from harness.drivers.loadgen.processes import drive
from harness.drivers.loadgen.spec import LoadgenSpec, LoopMode, journals, merged, split
from harness.drivers.result import Second, WindowCallbacks
from harness.errors import RunFailed, UsageError
from harness.native_programs import loadgen_program
from harness.supervise import silence
from harness.supervise.credentials import unprivileged
from harness.supervise.process import ProcessId, descendants
from harness.supervise.supervisor import Supervisor
from harness.workload import Clients

MS, S = 10**6, 10**9

SPEC = LoadgenSpec(
    backend="stub",
    connection={"service_us": 500, "password": "never-to-be-seen"},
    workload="ping",
    params={},
    statements={"ping": "SELECT :terminal"},
    threads=2,
    connections=5,
    mode=LoopMode(),
    ramp_up_ns=200 * MS,
    duration_ns=1 * S,
    seed=1,
)
#: As many operations, however long the machine stands still meanwhile.
COUNTED = replace(SPEC, operations=3000, duration_ns=None, ramp_up_ns=0)
OPEN = replace(SPEC, mode=LoopMode(rate_per_s=1000.0), terminals=10)
FOR_EVER = replace(SPEC, duration_ns=600 * S)


@pytest.fixture
def scratch():
    """A directory where the unprivileged user can work."""
    with open_directory() as path:
        if (user := unprivileged()) is not None:
            os.chown(path, user.uid, user.gid)
        yield path


@pytest.fixture
def clients(tmp_path, scratch, loadgen_build, monkeypatch):
    monkeypatch.setenv("HARNESS_NATIVE", str(loadgen_build))
    # The machine may stand still as several are started.
    monkeypatch.setattr("harness.drivers.loadgen.processes._TOGETHER_S", 15.0)
    with Supervisor(tmp_path / "state") as supervisor:
        yield Clients(supervisor, unprivileged(), scratch)


class Seen:
    """The callbacks in their order."""

    def __init__(self):
        self.calls: list[str] = []
        self.counts: list[Any] = []
        self.watch = WindowCallbacks(
            lambda: self.calls.append("measuring"),
            lambda: self.calls.append("measured"),
            self.counts.append,
        )


def loadgens(below=None):
    """The clients that run now, below this process or another."""
    return [stat.id for stat in descendants(below or os.getpid()) if name_of(stat) == "loadgen"]


def name_of(stat):
    try:
        return Path(f"/proc/{stat.id.pid}/comm").read_text().strip()
    except OSError:  # it has just ended
        return ""


def test_phases_are_reported_once_and_counts_only_grow(clients):
    seen = Seen()
    result = drive([COUNTED], clients, seen.watch)
    assert seen.calls == ["measuring", "measured"]
    done = [counts["ping"] for counts in seen.counts]
    assert done == sorted(done)
    assert done[-1] == result.operations["ping"].count == 3000
    assert loadgens() == []


@pytest.mark.parametrize("processes", [1, 2])
def test_each_second_has_its_rate_and_latencies(clients, processes):
    """The seconds' counts are those of the whole; latencies of processes are merged."""
    seconds: list[Second] = []
    spec = replace(OPEN, ramp_up_ns=0, duration_ns=3 * S)
    result = drive(split(spec, processes), clients, WindowCallbacks(on_second=seconds.append))
    ping = result.operations["ping"]
    histograms = [hdr.merge(map(hdr.decode, second.latency_hdrs)) for second in seconds]
    assert max(len(second.latency_hdrs) for second in seconds) == processes
    assert 0 < max(histogram.total for histogram in histograms) <= present(ping.count)
    assert (
        max(histogram.max for histogram in histograms)
        <= 1.01 * hdr.decode(present(ping.latency_hdr)).max
    )
    assert all(
        second.text("pings").startswith(f"{second.per_s:,.0f} pings/s") for second in seconds
    )


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, ramp_up_ns=0, duration_ns=1 * MS),
        COUNTED,
        replace(SPEC, task="load"),
        replace(SPEC, task="verify"),
    ],
    ids=["time", "operations", "load", "verify"],
)
def test_a_client_that_hangs_is_killed(clients, monkeypatch, spec):
    """It was stopped, say: the host's measuring lock is not held for ever."""
    monkeypatch.setenv(silence.VARIABLE, "measure=1,load=1")

    class Stopping:
        def spawn(self, *argv, **options):
            process = clients.processes.spawn(*argv, **options)
            process.signal(signal.SIGSTOP)
            return process

    with pytest.raises(RunFailed, match="hangs"):
        drive([spec], replace(clients, processes=cast(Any, Stopping())))
    assert loadgens() == []


def test_what_a_client_reports_last_is_read_before_its_result_counts(clients):
    """Progress and result are two streams, and the result may be there first."""
    reported: list[dict[str, int]] = []
    taken: list[Mapping[str, int]] = []

    class Slow:
        """Progress that arrives after the result."""

        def spawn(self, *argv, **options):
            process = clients.processes.spawn(*argv, **options)
            process.progress = self.late(process.progress, process)
            return process

        @staticmethod
        def late(lines, process):
            for line in lines:
                if b'"done"' in line:
                    process.wait(PATIENCE_S)
                    time.sleep(0.2)
                if b'"counts"' in line:
                    reported.append(json.loads(line)["counts"])
                yield line

    late = replace(clients, processes=cast(Any, Slow()))
    drive([COUNTED], late, WindowCallbacks(on_counts=taken.append))
    assert taken == reported


def test_several_processes_are_one_driver(clients):
    seen = Seen()
    specs = split(OPEN, 3)
    result = drive(specs, clients, seen.watch)
    assert seen.calls == ["measuring", "measured"]
    ping = result.operations["ping"]
    assert present(result.offered).count == hdr.decode(present(ping.latency_hdr)).total == 1000
    assert len(result.threads_cpu_ns) == sum(spec.threads for spec in specs)
    assert sum(point.counts["ping"] for point in result.series) == ping.count
    assert result.client_cpu_ns >= sum(result.threads_cpu_ns) * 0.9


def test_the_slowest_of_several_ends_a_window_of_operations(clients):
    """The server's processor time is read when all are done, and all are still connected."""
    quick, slow = split(COUNTED, 2)
    reported: list[int] = []
    before: list[int] = []
    running: list[ProcessId] = []

    def measured():
        running.extend(loadgens())
        before.extend(reported)

    watch = WindowCallbacks(on_measured=measured, on_counts=lambda n: reported.append(n["ping"]))
    result = drive([replace(quick, operations=20), slow], clients, watch)
    assert result.operations["ping"].count == 20 + present(slow.operations)
    assert len(running) == 2
    assert max(before) >= 20  # the first that was done said so before


def test_results_of_different_times_are_not_merged(clients):
    """Two hosts return such results if one was given another start."""
    specs = [replace(spec, duration_ns=100 * MS) for spec in split(SPEC, 2)]
    results = [drive([spec], clients) for spec in specs]
    with pytest.raises(RunFailed, match=r"windows began .* s apart"):
        merged(results)


def test_a_split_gives_everything_away_once():
    offered = replace(OPEN, journal="/scratch/journal")
    specs = [spec.to_json() for spec in split(offered, 3)]
    assert [spec["connections"] for spec in specs] == [2, 2, 1]
    assert [spec["threads"] for spec in specs] == [2, 2, 1]
    seats = [range(s["first_terminal"], s["first_terminal"] + s["terminals"]) for s in specs]
    assert [number for some in seats for number in some] == list(range(10))
    assert {spec["all_terminals"] for spec in specs} == {10}
    assert sum(spec["mode"]["rate_per_s"] for spec in specs) == pytest.approx(1000)
    assert [spec["mode"]["first_start"] for spec in specs] == pytest.approx([0, 1 / 3, 2 / 3])
    assert len({spec["mode"]["rate_per_s"] for spec in specs}) == 1
    assert {spec["mode"]["processes"] for spec in specs} == {3}
    paths = [Path(spec["journal"]) for spec in specs]
    assert paths == journals(Path("/scratch/journal"), 3)
    assert len(set(paths)) == 3
    assert split(SPEC, 1)[0].first_terminal == 0


def test_processes_with_a_rate_have_one_queue(clients):
    """One of them is slow: the other one takes the starts that it has no free connection for."""
    spec = replace(
        OPEN,
        threads=1,
        connections=2,
        terminals=2,
        mode=LoopMode(50),
        duration_ns=None,
        operations=50,
    )
    quick, slow = split(spec, 2)
    slow = replace(slow, connection={"service_us": 400_000})
    result = drive([quick, slow], clients)
    ping = result.operations["ping"]
    latency = hdr.decode(present(ping.latency_hdr))
    assert latency.total == present(result.offered).count == 50
    # Of a queue each, the slow one would be offered 25 starts, each of which takes 400 ms at least.
    assert latency.percentile(75) < 400 * MS


def test_a_failure_has_the_servers_words_and_ends_the_others(clients):
    first, second = split(FOR_EVER, 2)
    with pytest.raises(RunFailed, match="08006: the stub has gone away"):
        drive([first, replace(second, connection={"lose_after": 20})], clients)
    assert loadgens() == []


def test_a_client_that_is_killed_is_a_failure(clients):
    def kill():
        for client in loadgens():
            os.kill(client.pid, 9)

    with pytest.raises(RunFailed, match="signal 9"):
        drive([FOR_EVER], clients, WindowCallbacks(on_measuring=kill))


@pytest.mark.parametrize("error", [RuntimeError("counters"), KeyboardInterrupt()])
def test_what_a_callback_raises_ends_the_client(clients, error):
    def fail():
        assert len(loadgens()) == 1
        raise error

    with pytest.raises(type(error)):
        drive([FOR_EVER], clients, WindowCallbacks(on_measuring=fail))
    assert loadgens() == []


def test_passwords_are_in_no_process_list(clients):
    lines = []

    def look():
        for client in loadgens():
            proc = Path(f"/proc/{client.pid}")
            lines.append(proc.joinpath("cmdline").read_bytes())
            lines.append(proc.joinpath("environ").read_bytes())

    drive([SPEC], clients, WindowCallbacks(on_measuring=look))
    assert len(lines) == 2
    assert b"never-to-be-seen" not in b"".join(lines)


def test_clients_are_the_unprivileged_user_wherever_the_harness_lies(clients):
    """The build is in a directory that only its owner may enter: a copy is executed."""
    users: list[int] = []

    def look() -> None:
        users.extend(Path(f"/proc/{client.pid}").stat().st_uid for client in loadgens())

    drive([SPEC], clients, WindowCallbacks(on_measuring=look))
    expected = clients.credentials.uid if clients.credentials else os.geteuid()
    assert users == [expected]


def test_a_client_built_for_another_harness_is_refused(tmp_path, monkeypatch, loadgen_build):
    """After an update of the sources alone, it might wait for what nobody sends."""
    for name in ("loadgen", "loadgen_stub.so", "loadgen.json"):
        shutil.copy(loadgen_build / name, tmp_path)
    monkeypatch.setattr(native_programs, "native_folders", lambda: [tmp_path])
    assert loadgen_program("stub") == tmp_path / "loadgen"
    (tmp_path / "loadgen.json").write_text('{"interface": 1, "packages": {}}')
    with pytest.raises(UsageError, match="interface 1, this one has"):
        loadgen_program("stub")
