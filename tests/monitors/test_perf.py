"""perf: what it prints, and a real perf that counts software events, stalls and dies."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from narrowed import present
from patience import eventually
from toy_host import write

from harness.monitors import MonitorContext, _perf_stat
from harness.monitors._perf_stat import counts
from harness.monitors.perf import CHOICES, EVENTS, PerfMonitor
from harness.tiers.linux.kernel import Kernel

RECORDING = Path(__file__).parent / "recordings/perf-6.1-virtual-machine.jsonl"
SOFTWARE = ("task-clock", "context-switches")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="system-wide counters are root's")


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """One that has a PMU of its processors."""
    write(tmp_path, "sys/bus/event_source/devices/cpu/type", "4")
    return Kernel(tmp_path)


def test_what_perf_prints_is_numbers_in_strings() -> None:
    values = [(count.event, count.value) for count in counts(RECORDING.read_text())]
    assert [event for event, _ in values[:3]] == ["task-clock", "context-switches", "cycles"]
    clock, switches, cycles = (value for _, value in values[:3])
    assert 0.9e9 < present(clock) < 1.1e9, "two processors for half a second, in ns"
    assert present(switches).is_integer()
    assert cycles is None, "not supported: not 0"


@pytest.mark.parametrize("text", ["", "Events disabled", "[]", "{", '{"event": "cycles"}', "7"])
def test_other_lines_are_no_rows(text: str) -> None:
    assert list(counts(text)) == []


def printed(kernel: Kernel, *events: str, running: float = 100.0) -> PerfMonitor:
    """A monitor whose perf has counted these events, 7 of each."""
    monitor = PerfMonitor(MonitorContext(), kernel)
    for event in events:
        row = {"interval": 1.0, "counter-value": "7.0", "event": event, "pcnt-running": running}
        monitor.perf.receive(json.dumps(row), 2_000_000_000)
    return monitor


def test_an_event_that_shared_its_counter_is_reported(kernel: Kernel) -> None:
    monitor = printed(kernel, "cycles", running=62.5)
    assert monitor.series()["running_share"] == {"cycles": 0.625}
    (warning,) = monitor.warnings()
    assert (warning.code, warning.context) == ("perf-multiplexed", "cycles for 62%")


#: A perf whose tables have the events in ``KNOWN``, on a processor that cannot count ``NOT``.
PERF = """#!/usr/bin/env python3
import json, sys
KNOWN, NOT = {known!r}, {not_counted!r}
events = sys.argv[sys.argv.index("-e") + 1].split(",")
unknown = [event for event in events if "activity" in event and event not in KNOWN]
if unknown:
    sys.exit(f"event syntax error: '{{unknown[0]}}'")
for event in events:
    value = "<not supported>" if event in NOT else "1.000000"
    row = {{"counter-value": value, "event": event, "pcnt-running": 100.0}}
    print(json.dumps(row), file=sys.stderr)
"""
SKYLAKE, NEWER, CACHES = CHOICES


@pytest.mark.parametrize(
    ("events", "unsupported", "counted"),
    [
        (SKYLAKE, (), SKYLAKE),
        (NEWER, (), NEWER),
        (SKYLAKE, SKYLAKE, CACHES),  # a virtual machine that hides them
        ((), (), CACHES),
        ((), CACHES, CACHES),
    ],
)
def test_stalls_by_cache_are_counted_where_perf_knows_them(
    tmp_path, kernel, events, unsupported, counted
):
    program = tmp_path / "perf"
    program.write_text(PERF.format(known=events, not_counted=unsupported))
    program.chmod(0o755)
    monitor = PerfMonitor(MonitorContext(), kernel, program=str(program))
    assert monitor.preflight() is None
    assert monitor._events == (*EVENTS, *counted)


def test_the_cores_of_a_hybrid_processor_are_counted_apart(kernel: Kernel) -> None:
    monitor = printed(kernel, "cpu_core/cycles/", "cpu_atom/cycles/", "page-faults")
    (sample,) = monitor.series()["samples"]
    assert sample.keys() - {"monotonic_ns"} == {
        "perf_cycles[of=host,pmu=cpu_core]",
        "perf_cycles[of=host,pmu=cpu_atom]",
        "perf_page_faults[of=host]",
    }


def test_both_forms_of_an_event_have_one_name(kernel: Kernel) -> None:
    names = []
    for choice in (SKYLAKE, NEWER):
        (sample,) = printed(kernel, *choice).series()["samples"]
        names.append([name for name in sample if name != "monotonic_ns"])
    assert names[0] == names[1]
    assert names[0][-2:] == ["perf_stalls_l3_miss[of=host]", "perf_bound_on_stores[of=host]"]


@as_root
def test_counts_of_a_real_perf_are_on_the_run_s_clock(kernel: Kernel) -> None:
    monitor = PerfMonitor(MonitorContext(), kernel, 0.1, SOFTWARE)
    assert monitor.preflight() is None
    before = time.monotonic_ns()
    monitor.start()
    assert eventually(lambda: len(monitor.series()["samples"]) >= 3)
    monitor.stop()
    after = time.monotonic_ns()
    series = monitor.series()
    stamps = [sample["monotonic_ns"] for sample in series["samples"]]
    assert before < stamps[0] and stamps == sorted(stamps) and stamps[-1] < after
    assert 0 < series["stamp_error_ns"] < after - before
    assert all(sample["perf_task_clock[of=host]"] > 0 for sample in series["samples"])
    assert monitor.warnings() == []


@as_root
def test_a_killed_perf_leaves_its_samples_and_a_warning(kernel: Kernel) -> None:
    monitor = PerfMonitor(MonitorContext(), kernel, 0.1, SOFTWARE)
    monitor.start()
    assert eventually(lambda: monitor.series()["samples"])
    process = present(monitor.perf.process)
    process.kill()
    assert eventually(lambda: process.poll() is not None)
    monitor.stop()
    assert monitor.series()["samples"]
    assert [warning.code for warning in monitor.warnings()] == ["monitor-failed"]


def test_a_perf_that_does_not_begin_to_count_is_not_waited_for(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "perf"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setattr(_perf_stat, "PATIENCE_S", 0.2)
    monitor = PerfMonitor(MonitorContext(), kernel, program=str(program))
    with pytest.raises(RuntimeError, match="did not begin"):
        monitor.start()
    process = present(monitor.perf.process)
    monitor.stop()
    assert process.poll() is not None


@as_root
def test_a_killed_harness_leaves_no_perf(kernel: Kernel) -> None:
    program = (
        "import sys, time; from pathlib import Path; from harness.monitors import MonitorContext;"
        "from harness.monitors.perf import PerfMonitor; from harness.tiers.linux.kernel import"
        " Kernel; m = PerfMonitor(MonitorContext(), Kernel(Path(sys.argv[1])), 0.1,"
        " ('task-clock',)); m.start(); print(m.perf.process.pid, flush=True); time.sleep(600)"
    )
    argv = [sys.executable, "-c", program, str(kernel.root)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as harness:
        counting = Path(f"/proc/{int(present(harness.stdout).readline())}")
        harness.send_signal(signal.SIGKILL)
    assert eventually(lambda: state(counting) in ("Z", None))


def state(process: Path) -> str | None:
    """Return the state in a folder of /proc; None if the process has ended at any time."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None
