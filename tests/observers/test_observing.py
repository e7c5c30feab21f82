"""Driving an observer, with a stand-in that checks its command line and behaves like VTune."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import registry
from harness.errors import RunFailed, UsageError
from harness.execution.observing import Observing
from harness.supervise.supervisor import Supervisor


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "vtune/bin64"
    folder.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("fake_vtune.py"), folder / "vtune")
    (folder / "vtune").chmod(0o755)
    monkeypatch.setenv("VTUNE_HOME", str(folder.parent))
    return folder


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "state") as supervisor:
        yield supervisor


def observing(name: str, supervisor: Supervisor, root: Path) -> Observing:
    return Observing(registry.observers()[name], supervisor, root / "observers/x")


VTUNE = [name for name in registry.observers() if name.startswith("vtune:")]


@pytest.mark.parametrize("name", VTUNE)
def test_it_is_started_stopped_finalised_and_read(
    name: str, installed: Path, supervisor: Supervisor, tmp_path: Path
) -> None:
    one = observing(name, supervisor, tmp_path)
    with one.running():
        assert not (one.tree / "raw").exists()
    assert (one.tree / "raw").exists()
    found = {metric.labels["path"]: metric.value for metric in one.result()}
    assert found == {"Elapsed Time": 2.5, "Memory Bound": 76.2, "Memory Bound / DRAM Bound": 70.7}


def test_missing_rights_are_an_error_with_the_program_s_words(
    installed: Path, supervisor: Supervisor, tmp_path: Path
) -> None:
    (installed / "no-rights").touch()
    with (
        pytest.raises(RunFailed) as failed,
        observing("vtune:memory-access", supervisor, tmp_path).running(),
    ):
        pytest.fail("it did not start")
    assert "insufficient rights" in failed.value.context


def test_a_result_that_was_not_collected_is_an_error(
    installed: Path, supervisor: Supervisor, tmp_path: Path
) -> None:
    one = observing("vtune:hotspots", supervisor, tmp_path)
    one.tree.mkdir(parents=True)
    with pytest.raises(RunFailed):
        one.result()


@pytest.mark.parametrize("name", registry.observers())
def test_a_program_that_is_not_installed_is_a_usage_error(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    homes = ("VTUNE_HOME", "PERFSPECT_HOME", "PMU_TOOLS_HOME", "BPFTRACE_HOME")
    observer = registry.observers()[name]
    for home in (None, str(tmp_path)):
        for variable in homes:
            monkeypatch.delenv(variable, raising=False)
            if home:
                monkeypatch.setenv(variable, home)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(UsageError) as refused:
            observer.program()
        assert refused.value.hint
