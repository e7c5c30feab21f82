"""HammerDB as recorded, always; and the real one where HAMMERDB_HOME names it.

It is in no package registry, so that not every machine can have it: the tests that need it
are deselected there, which the end of the test run says.
"""

import os
from pathlib import Path

import pytest
from lab import open_lab

from harness.drivers.hammerdb.installation import HammerDb, find
from harness.workload import Clients

RECORDINGS = Path(__file__).with_name("recordings")
_deselected: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "hammerdb: needs HammerDB at HAMMERDB_HOME")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("HAMMERDB_HOME"):
        return
    real = [item for item in items if item.get_closest_marker("hammerdb")]
    if real:
        config.hook.pytest_deselected(items=real)
        items[:] = [item for item in items if item not in real]
        _deselected.extend(item.nodeid for item in real)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _deselected:
        terminalreporter.write_line(_left_out(), yellow=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _deselected and hasattr(session.config, "workeroutput"):  # said by who started us
        session.config.workeroutput["left_out"] = _left_out()


def _left_out() -> str:
    return (
        f"{len(_deselected)} tests of the real HammerDB deselected: HAMMERDB_HOME is not set "
        "(it is in no registry; docs/hammerdb.md says how to get it)"
    )


def _recording(name: str) -> str:
    return (RECORDINGS / name).read_text()


@pytest.fixture
def recording():
    return _recording


@pytest.fixture
def lab():
    with open_lab() as lab:
        yield lab


@pytest.fixture
def started(lab):
    """Make and start an engine; killed at the end."""
    engines = []

    def start(name: str):
        engine = lab.started(name)
        engines.append(engine)
        return engine

    yield start
    for engine in engines:
        engine.kill()


@pytest.fixture
def clients(lab):
    return Clients(lab.supervisor, lab.credentials, lab.directory("c"))


@pytest.fixture
def replay(lab, monkeypatch):
    """An installation that says what was recorded, whatever it is asked, and then ``does``."""

    def make(name: str, does: str = "exit 0", version: str = "v4.12", before: str = "") -> HammerDb:
        home = lab.root / "home"
        (home / "bin").mkdir(parents=True)
        (home / "words").write_text(_recording(name))
        (home / "hammerdbcli").write_text(f'set hdb_version "{version}"\n')
        tclsh = home / "bin" / ("tclsh8.6" if version < "v5" else "tclsh9.0")
        tclsh.write_text(f"#!/bin/sh\n{before}\ncat {home}/words\n{does}\n")
        tclsh.chmod(0o755)
        monkeypatch.setenv("HAMMERDB_HOME", str(home))
        return find()

    return make
