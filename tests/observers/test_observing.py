"""Driving observers, with stand-ins that check their command lines and behave like the programs.

A toy workload does operations, of which a stand-in counts those that it observes.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import registry
from harness.errors import RunFailed, UsageError
from harness.execution.observing import Observing, check_observers
from harness.supervise import undo, workdirs
from harness.supervise.credentials import unprivileged
from harness.supervise.supervisor import Supervisor
from harness.supervise.user_files import Credentials

HERE = Path(__file__).parent
#: Of each program: the variable that names its installation, where it is there, and its stand-in.
PROGRAMS = {
    "vtune": ("VTUNE_HOME", "bin64/vtune", "fake_vtune.py"),
    "toplev": ("PMU_TOOLS_HOME", "toplev.py", "fake_toplev.py"),
    "bpftrace": ("BPFTRACE_HOME", "bin/bpftrace", "fake_bpftrace.py"),
}
OBSERVERS = list(registry.observers())
OTHERS = [name for name in OBSERVERS if not name.startswith("vtune:")]


@dataclass(frozen=True)
class Toy:
    """A host with the programs, and a workload on it."""

    root: Path
    supervisor: Supervisor

    def folder(self, name: str) -> Path:
        """Return the path of the observer's program."""
        variable, program, _ = PROGRAMS[name.partition(":")[0]]
        return (self.root / variable / program).parent

    def observing(self, name: str, user: Credentials | None = None) -> Observing:
        return Observing(
            registry.observers()[name],
            self.supervisor,
            self.supervisor.journal,
            user,
            partial(workdirs.temporary, credentials=user),
            self.root / "observers/x",
        )

    def work(self, name: str, count: int) -> None:
        """Do that many operations: a byte each."""
        with (self.folder(name) / "operations").open("a") as done:
            done.write("." * count)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Toy]:
    """A directory where the servers' user may run the programs; no setting of this host changes."""
    with workdirs.temporary() as root:
        root.chmod(0o755)
        for variable, program, stand_in in PROGRAMS.values():
            installed = root / variable / program
            installed.parent.mkdir(parents=True)
            shutil.copy(HERE / stand_in, installed)
            shutil.copy(HERE / "stand_in.py", installed.parent)
            installed.chmod(0o755)
            monkeypatch.setenv(variable, str(root / variable))
        monkeypatch.setattr(undo, "COUNTER_SETTINGS", ())
        with Supervisor(root / "state") as supervisor:
            yield Toy(root, supervisor)


def figures(observer: Observing) -> dict[str, float | None]:
    return {str(metric.labels["path"]): metric.value for metric in observer.result()}


@pytest.mark.parametrize("name", ["vtune:memory-access", "vtune:performance-snapshot"])
def test_vtune_observes_queries_and_windows_alone(name: str, toy: Toy) -> None:
    observer = toy.observing(name)
    with observer.running():
        toy.work(name, 1000)  # a cold start, or the ramp-up
        for _ in range(2):
            observer.begin()
            toy.work(name, 3)
            observer.end()
            toy.work(name, 100)
        assert not (observer.tree / "raw").exists()
    values = figures(observer)
    assert values["Toy Operations"] == 6
    assert values["Memory Bound / DRAM Bound"] == 70.7
    assert observer.warnings == []
    by_process = {path: value for path, value in values.items() if path.startswith("Processes")}
    events = "INST_RETIRED.ANY"
    assert by_process == (
        {f"Processes / toy-engine / {events}": 6000, f"Processes / toy-client / {events}": 7}
        if name == "vtune:memory-access"
        else {}
    )


def test_queries_at_the_same_time_are_observed_until_the_last_ends(toy: Toy) -> None:
    name = "vtune:hotspots"
    observer = toy.observing(name)
    with observer.running():
        observer.end()  # nothing has begun
        observer.begin()
        observer.begin()
        observer.end()
        toy.work(name, 5)
        observer.end()
        toy.work(name, 100)
    assert figures(observer)["Toy Operations"] == 5


def test_a_collection_that_cannot_be_paused_observes_all_and_says_so(toy: Toy) -> None:
    name = "vtune:hotspots"
    (toy.folder(name) / "no-pause").touch()
    observer = toy.observing(name)
    with observer.running():
        toy.work(name, 10)
        observer.begin()
        toy.work(name, 3)
        observer.end()
    assert figures(observer)["Toy Operations"] == 13
    assert [warning.code for warning in observer.warnings] == ["observed-start-up"]


def test_a_collection_that_was_never_resumed_is_an_error(toy: Toy) -> None:
    with pytest.raises(RunFailed), toy.observing("vtune:hotspots").running():
        pass


@pytest.mark.parametrize("name", OTHERS)
def test_the_others_observe_from_their_start_to_ctrl_c(name: str, toy: Toy) -> None:
    toy.work(name, 1000)
    observer = toy.observing(name)
    with observer.running():
        observer.begin()
        toy.work(name, 3)
        observer.end()
    toy.work(name, 100)
    values = figures(observer)
    assert {path: value for path, value in values.items() if "oy" in path} == {
        "toplev": {"Backend_Bound / Toy_Bound": 3},
        "bpftrace:files": {
            "calls / toy / operations / vfs_write": 3,
            "bytes / toy / operations / vfs_write": 3,
        },
    }[name]
    assert observer.warnings == []


def test_programs_of_others_are_opened_as_the_servers_user(toy: Toy) -> None:
    user = unprivileged()
    observer = toy.observing("vtune:hotspots", user)
    with observer.running():
        observer.begin()
        observer.end()
    assert figures(observer)["Toy User"] == (user.uid if user else os.geteuid())
    assert {path.stat().st_uid for path in observer.folder.rglob("*")} == {os.geteuid()}
    assert [warning.code for warning in observer.warnings] == (
        ["observer-reads-programs"] if user else []
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
def test_a_report_that_is_a_link_is_not_followed(toy: Toy) -> None:
    secret = toy.root / "secret"
    secret.write_text("Hierarchy Level,Metric Name,Metric Value\n0,Secret,7\n")
    secret.chmod(0o600)
    (toy.folder("vtune:hotspots") / "link").write_text(str(secret))
    observer = toy.observing("vtune:hotspots", unprivileged())
    with observer.running():
        observer.begin()
        observer.end()
    with pytest.raises(RunFailed):
        observer.result()
    assert not (observer.tree / "summary.csv").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
def test_a_program_that_the_servers_user_cannot_read_is_refused_beforehand(toy: Toy) -> None:
    spec: Any = SimpleNamespace(observe=["vtune:hotspots"], placement={})
    check_observers(spec)
    toy.folder("vtune:hotspots").chmod(0o700)
    with pytest.raises(UsageError):
        check_observers(spec)


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
@pytest.mark.parametrize("name", OBSERVERS)
def test_root_runs_no_program_that_another_user_can_exchange(name, toy, monkeypatch):
    observer, home = registry.observers()[name], toy.root / "home"
    home.mkdir(mode=0o755)
    monkeypatch.setenv("HOME", str(home))
    observer.program()
    for folder in (toy.folder(name), home):
        folder.chmod(0o777)
        with pytest.raises(UsageError):
            observer.program()
        folder.chmod(0o755)


def test_toplev_reports_nodes_below_their_thresholds_too(toy: Toy) -> None:
    observer = toy.observing("toplev")
    with observer.running():
        pass
    assert figures(observer)["Frontend_Bound"] == 1.5


@pytest.mark.parametrize("name", OBSERVERS)
def test_missing_rights_are_an_error_with_the_program_s_words(name: str, toy: Toy) -> None:
    (toy.folder(name) / "no-rights").touch()
    observer = toy.observing(name)
    with pytest.raises(RunFailed) as failed:
        with observer.running():
            observer.begin()
        observer.result()  # of a program that began: perf, which toplev starts, had no rights
    words = ("insufficient rights", "elevated privileges", "is limited", "CAP_BPF")
    assert any(word in failed.value.context for word in words)


def test_a_result_that_was_not_collected_is_an_error(toy: Toy) -> None:
    observer = toy.observing("vtune:hotspots")
    observer.tree.mkdir(parents=True)
    with pytest.raises(RunFailed):
        observer.result()


def test_settings_that_a_killed_program_has_changed_are_put_back(toy, monkeypatch):
    setting = toy.root / "nmi_watchdog"
    setting.write_text("1\n")
    for name in ("COUNTER_SETTINGS", "SETTINGS"):
        monkeypatch.setattr(undo, name, (str(toy.root / "nmi_*"),))
    observer = toy.observing("toplev")
    with observer.running():
        setting.write_text("0\n")
    assert setting.read_text() == "1\n"
