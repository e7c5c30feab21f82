"""One clock: a server that stands still leaves its hole at the same time in every series."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from patience import eventually
from toy_host import advance

from harness.host.threads import Thread
from harness.iotrace.page import LIBRARY, IoTrace
from harness.monitors import Monitor, MonitorContext
from harness.monitors.block import BlockMonitor
from harness.monitors.io import IoMonitor
from harness.monitors.perf import PerfMonitor
from harness.monitors.pressure import PressureMonitor
from harness.monitors.process import ProcessMonitor
from harness.monitors.vm import VmMonitor
from harness.monitors.waits import WaitMonitor
from harness.native_programs import find_native
from harness.supervise.process import process_identity
from harness.tiers.linux.kernel import Kernel
from harness.waits import Observation, WaitObserver

INTERVAL_S = 0.05
TOY_PERF = Path(__file__).with_name("toy_perf.py")
#: A counter of each series that moves only while the server works; of rates, that it is not 0.
MOVES: Mapping[str, str] = {
    "process": "cpu_ns",
    "block": "block_read_per_s[device=vda]",
    "pressure": "pressure_io_some_ns[of=host]",
    "vm": "vm_pgmajfault_count",
    "perf": "perf_cycles[of=host]",
    "io": "calls_count[operation=write,part=data,role=foreground]",
    "waits": "wait_cpu_ns",
}
#: Series of what happened since the previous sample; the others are cumulative.
SINCE_PREVIOUS = ("block", "perf")


class OneSession(WaitObserver):
    """The server as an engine with one session, which is always active."""

    def __init__(self, pid: int) -> None:
        self.events = {}
        self._thread = Thread(pid, pid)

    def observe(self) -> Sequence[Observation]:
        return [Observation("running", thread=self._thread)]


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[IoTrace]:
    library = find_native(LIBRARY)
    assert library is not None
    traced = IoTrace(library, directories={"data": tmp_path})
    yield traced
    traced.page.close()


@pytest.fixture
def server(tmp_path: Path, trace: IoTrace) -> Iterator[subprocess.Popen[bytes]]:
    advance(tmp_path, 0)
    program = Path(__file__).with_name("toy_host.py")
    page = trace.page.descriptor
    environment = {**os.environ, **trace.environment(page)}
    command = [sys.executable, str(program), str(tmp_path)]
    with subprocess.Popen(command, env=environment, pass_fds=[page]) as process:
        yield process
        process.kill()


@pytest.fixture
def monitors(server, tmp_path, ssd, trace, monkeypatch):
    """Monitors of a server that works: each has seen its counter move."""
    perf = tmp_path / "perf"
    perf.write_text(f'#!/bin/sh\nTOY_HOST={tmp_path} exec {TOY_PERF} "$@"\n')
    perf.chmod(0o755)
    sampled = (ProcessMonitor, BlockMonitor, PressureMonitor, VmMonitor)
    for kind in (*sampled, IoMonitor, WaitMonitor):
        monkeypatch.setattr(kind, "interval_s", INTERVAL_S)
    identity = process_identity(server.pid)
    assert identity is not None
    kernel = Kernel(tmp_path)
    context = MonitorContext(
        lambda: [identity],
        tiers=[ssd],
        io_trace=lambda: trace,
        waits=lambda: OneSession(server.pid),
    )
    monitors: list[Monitor] = [
        *(kind(context, kernel) for kind in sampled),
        PerfMonitor(context, kernel, INTERVAL_S, ("cycles",), str(perf)),
        IoMonitor(context),
        WaitMonitor(context),
    ]
    with ExitStack() as stack:
        for monitor in monitors:
            stack.callback(monitor.stop)
            monitor.start()
        assert eventually(lambda: all(_moved(monitor, _since(monitor, 0)) for monitor in monitors))
        yield monitors


def _since(monitor: Monitor, stamp: int) -> list[Mapping[str, Any]]:
    """Samples whose reading began after ``stamp``; of rates, also the previous one's."""
    series = monitor.series()
    samples = [s for s in series["samples"] if s["monotonic_ns"] - series["stamp_error_ns"] > stamp]
    return samples[1:] if monitor.name in SINCE_PREVIOUS else samples


def _moved(monitor: Monitor, samples: list[Mapping[str, Any]]) -> bool:
    counts = [sample[MOVES[monitor.name]] for sample in samples if MOVES[monitor.name] in sample]
    if monitor.name in SINCE_PREVIOUS:
        return any(counts)
    return len(set(counts)) > 1


def test_a_stopped_server_leaves_its_hole_at_the_same_time_in_every_series(server, monitors):
    os.kill(server.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WNOWAIT)
    stopped = time.monotonic_ns()
    time.sleep(1)
    assert eventually(lambda: all(len(_since(monitor, stopped)) > 3 for monitor in monitors))
    resumed = time.monotonic_ns()
    os.kill(server.pid, signal.SIGCONT)
    assert eventually(
        lambda: all(_moved(monitor, _since(monitor, resumed)) for monitor in monitors)
    )
    for monitor in monitors:
        hole = [s for s in _since(monitor, stopped) if s["monotonic_ns"] < resumed]
        del hole[-1]  # it may have been read from before until after
        assert len(hole) > 2, monitor.name
        assert not _moved(monitor, hole), monitor.name


def test_monitors_survive_a_killed_server(server, monitors):
    server.kill()
    server.wait()
    killed = time.monotonic_ns()
    assert eventually(lambda: all(len(_since(monitor, killed)) > 2 for monitor in monitors))
    for monitor in monitors:
        assert not _moved(monitor, _since(monitor, killed)), monitor.name
        assert not any("error" in sample for sample in monitor.series()["samples"]), monitor.name
        monitor.totals()
