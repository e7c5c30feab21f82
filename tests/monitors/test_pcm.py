"""CXL traffic by Intel PCM, where no device has counters: its CSV, and a stand-in program."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import PATIENCE_S
from toy_host import write

from harness.monitors import MonitorContext
from harness.monitors._pcm import PcmTable, PcmTraffic
from harness.monitors.cxl import CxlMonitor
from harness.tiers.linux.kernel import Kernel

HERE = Path(__file__).parent
SAPPHIRE, GRANITE = (
    HERE / f"recordings/pcm-memory-{name}-rapids.csv" for name in ("sapphire", "granite")
)
MB = 1e6


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """A host with a CXL memory device that has no counters."""
    write(tmp_path, "sys/bus/cxl/devices/mem0/serial", "0x1")
    return Kernel(tmp_path)


@pytest.fixture
def pcm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of the stand-in."""
    home = tmp_path / "pcm"
    (home / "bin").mkdir(parents=True)
    shutil.copy(HERE / "toy_pcm.py", home / "bin/pcm-memory")
    (home / "bin/pcm-memory").chmod(0o755)
    shutil.copy(SAPPHIRE, home / "bin/recording")
    monkeypatch.setenv("PCM_HOME", str(home))
    return home / "bin"


def wait(until: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def figures(text: str) -> list[dict[str, float]]:
    table = PcmTable()
    return [found[1] for line in text.splitlines() if (found := table.read(line)) is not None]


# The CSV -------------------------------------------------------------------------


def test_sapphire_rapids_counts_writes_by_port_and_reads_of_the_host() -> None:
    first, second = figures(SAPPHIRE.read_text())
    assert first == {
        "cxl_write_bytes[port=0,socket=0]": 1024.0 * MB,
        "cxl_write_bytes[port=1,socket=0]": 512.5 * MB,
        "cxl_write_bytes[port=0,socket=1]": 0.0,
        "cxl_read_bytes[of=host]": 8192.25 * MB,
    }
    assert second["cxl_read_bytes[of=host]"] == 16384.5 * MB


def test_granite_rapids_counts_both_by_port() -> None:
    (found,) = figures(GRANITE.read_text())
    assert found["cxl_read_bytes[port=0,socket=0]"] == 4096.0 * MB
    assert found["cxl_write_bytes[port=0,socket=0]"] == 1024.0 * MB
    assert found["cxl_read_bytes[port=1,socket=0]"] == 0.0
    assert len(found) == 4


def test_times_are_in_milliseconds_of_utc() -> None:
    table = PcmTable()
    at = [found[0] for line in GRANITE.read_text().splitlines() if (found := table.read(line))]
    assert at == [1_780_513_833_007_000_000]


@pytest.mark.parametrize("damage", ["", "\0", "nan", "-1.00", "x", "\n"])
def test_a_line_that_lacks_a_figure_is_left_out(damage: str) -> None:
    assert figures(SAPPHIRE.read_text().replace(" 1024.00", damage, 1)) == [
        figures(SAPPHIRE.read_text())[1]
    ]


@pytest.mark.parametrize("text", ["", ",", "Date,Time,Mem Read (MB/s)\n2026-06-03,19:10:33.007,1"])
def test_other_texts_have_no_figures(text: str) -> None:
    assert all(found == {} for found in figures(text))


# The monitor ---------------------------------------------------------------------


def test_pcm_counts_from_its_first_line_to_its_last(kernel: Kernel, pcm: Path) -> None:
    monitor = CxlMonitor(MonitorContext(), kernel)
    assert monitor.preflight() is None
    before = time.monotonic_ns()
    monitor.start()
    wait(lambda: len(monitor.series()["samples"]) >= 2)
    assert monitor.totals() == {}
    monitor.stop()
    after = time.monotonic_ns()
    series = monitor.series()
    first, *_, last = series["samples"]
    assert before < first["monotonic_ns"] < last["monotonic_ns"] < after
    assert series["stamp_error_ns"] > 0
    seconds = (last["monotonic_ns"] - first["monotonic_ns"]) / 1e9
    found = {metric.name: metric for metric in monitor.metrics() if metric.labels != {}}
    reads = found["phase_cxl_read_bytes"]
    assert reads.labels == {"of": "host"}
    assert reads.value == pytest.approx(8192.25 * MB * seconds)
    assert not monitor.warnings()


def test_a_killed_pcm_leaves_its_samples_and_a_warning(kernel: Kernel, pcm: Path) -> None:
    monitor = CxlMonitor(MonitorContext(), kernel)
    monitor._pcm = traffic = PcmTraffic(pcm.parent, interval_s=0.1)
    monitor.start()
    wait(lambda: len(monitor.series()["samples"]) >= 2)
    assert traffic._process is not None
    traffic._process.kill()
    traffic._process.wait()
    monitor.stop()
    assert monitor.series()["samples"]
    assert [warning.code for warning in monitor.warnings()] == ["monitor-failed"]
    assert not monitor.metrics(), "a part of the phase is not the phase"


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
def test_root_runs_no_pcm_that_another_user_can_exchange(kernel: Kernel, pcm: Path) -> None:
    pcm.chmod(0o777)
    problem = CxlMonitor(MonitorContext(), kernel).preflight()
    assert problem and str(pcm) in problem.context


def test_pcm_never_runs_with_memory_traffic(kernel: Kernel, pcm: Path) -> None:
    context = MonitorContext(monitors={"cxl", "memory-traffic"})
    problem = CxlMonitor(context, kernel).preflight()
    assert problem and problem.hint == "--no-monitor memory-traffic"


def test_a_pcm_that_cannot_count_says_why(
    kernel: Kernel, pcm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def context() -> str:
        problem = CxlMonitor(MonitorContext(), kernel).preflight()
        assert problem and problem.code == "cxl-not-counted" and "PCM_HOME" in problem.hint
        return problem.context

    text = SAPPHIRE.read_text().replace("CXL", "DDR")
    (pcm / "recording").write_text(text)
    assert "no CXL port" in context()
    (pcm / "no-rights").touch()
    assert "as root user" in context()
    monkeypatch.setenv("PCM_HOME", str(pcm / "elsewhere"))
    assert "elsewhere" in context()
    monkeypatch.delenv("PCM_HOME")
    assert "no counters of the device" in context()
