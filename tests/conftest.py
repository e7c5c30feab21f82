"""Fixtures of all tests: the engines that `make setup` installed, and the tests' groups."""

import atexit
import ctypes
import gc
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from native_build import SANITIZED, build
from scratch import (
    open_directory,
    remove_abandoned,
    remove_session_directory,
    session_directory,
)
from unpacked_postgres import options_with_tls

from harness import paths
from harness.store import run_store

# Tests put their data elsewhere; the installed engines stay where set-up put them.
os.environ.setdefault("HARNESS_ENGINES", str(paths.engines_prefix()))

# Hundreds of commands would compile every module again where this environment forbids them to keep
# what they have compiled: a third of the time that they start in.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Each worker would import trio, which has a plugin for Hypothesis.
os.environ["HYPOTHESIS_NO_PLUGINS"] = "1"


#: What is undone as this process ends.
_AT_EXIT = ExitStack()
atexit.register(_AT_EXIT.close)
_AT_EXIT.callback(remove_session_directory)


#: Code that is compiled with less care and not verified: what tests start of Java ends long before
#: the best code would pay.
_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)


def brief_java() -> None:
    """A ``java`` and a ``javac`` first on the PATH that have these options. (An option in the
    environment would not reach servers.) What is compiled is shared by all workers
    (javac_once.sh).
    """
    folder = _AT_EXIT.enter_context(open_directory())
    if (java := shutil.which("java")) is not None:
        _write_program(folder / "java", shlex.join(["exec", java, *_JAVA_OPTIONS]) + ' "$@"')
    if (javac := shutil.which("javac")) is not None:
        classes = session_directory() / "classes"
        classes.mkdir(exist_ok=True)
        classes.chmod(0o1777)
        real = shlex.join([javac, *(f"-J{option}" for option in _JAVA_OPTIONS)])
        text = Path(__file__).with_name("javac_once.sh").read_text("utf-8")
        _write_program(folder / "javac", f"real={shlex.quote(real)} made={classes}\n{text}")
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


def _write_program(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


remove_abandoned()
brief_java()

#: Tests started in the background of a script would ignore Ctrl-C, and so would every child.
signal.signal(signal.SIGINT, signal.default_int_handler)

_CLONE_NEWNS = 0x20000


def own_mounts() -> None:
    """A /dev/shm, /run/lock and work directories of this process and its children, if it may mount.

    Other programs of the host, and the tests of another worker, have theirs: no test sees,
    fills or removes anything of them, and no run waits for another worker's.
    """
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(_CLONE_NEWNS) != 0:
        return
    subprocess.run(["mount", "--make-rslave", "/"], check=False)
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if line.startswith("/dev/zram"):  # a copy of the mount, which would keep the disk busy
            subprocess.run(["umount", line.split()[1]], check=False)
    places = [("/dev/shm", 1777), ("/run/lock", 1777)]
    places += [("/run/tierbench", 755), ("/var/lib/tierbench/run", 755)]
    for folder, mode in places:
        Path(folder).mkdir(mode=0o755, parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", folder]
        subprocess.run(command, check=False)


own_mounts()

#: Side by side (``pytest -n 6``) one worker has all tests of a file, or of a group: of those
#: whose path below ``tests`` begins so, the longest beginning deciding. They start in this order,
#: what takes longest first; files without a group come last.
_GROUPS = {
    # What shares servers, data or builds over several files.
    "vm": ("vm/",),
    "windows": ("cli/test_io_trace", "cli/test_flushes", "cli/test_htap", "cli/test_instances"),
    "cli": ("cli/",),
    "queries": ("cli/test_own_queries",),
    "verify": ("cli/test_engines_verify",),
    "driven": ("cli/test_tpcc", "cli/test_ycsb", "cli/test_stopped"),
    "clients": ("cli/test_client_hosts", "cli/test_paper", "cli/test_resume"),
    "benchmarks": ("benchmarks/",),
    "loadgen": ("loadgen/",),
    "endings": ("cli/test_endings",),
    "java": ("drivers/ycsb/",),
    "spark": ("engines/test_own_data", "engines/test_spark"),
    **{
        f"vm-{name}": (f"vm/full/test_vm_{name}",)
        for name in ("modes", "micro", "traps", "power_loss", "emulated")
    },
    "control": ("reports/test_control_characters",),
    "experiment": ("playbooks/test_experiment_role",),
    "microbench": ("microbench/",),
    "tpch": ("workloads/tpch/",),
    "roles": ("playbooks/test_roles",),
    "innodb": ("engines/test_innodb_",),
    **{
        name: (f"engines/test_{name}",)
        for name in (
            "knobs",
            "tpcc_loadgen",
            "hostile_user",
            "ycsb_loadgen",
            "tpcc_procedures",
            "lifecycle",
        )
    },
    "packaging": ("test_packaging",),
    "micro": ("cli/test_micro",),
    "tpcc": ("workloads/tpcc/",),
    "browser": ("reports/test_browser",),
    "refused": ("cli/test_bad_input",),
    # What changes settings of the kernel.
    "settings": ("supervise/",),
    # What drops the page cache, and what counts on it.
    "page_cache": (
        "host/test_page_cache",
        "host/test_cgroup",
        "iotrace/test_counted_calls",
        "micro/test_fio",
        "micro/test_page_cache",
    ),
}
_BEGINNINGS = {
    beginning: group for group, beginnings in _GROUPS.items() for beginning in beginnings
}

#: Paths below ``tests`` that begin so need an engine or its data, the virtual machine, a compiler,
#: a browser, hosts, or many processes: their tests are marked ``system``, which `make check` leaves
#: out.
_SYSTEM = (
    "benchmarks/", "cli/", "vm/", "engines/", "loadgen/", "microbench/", "drivers/ycsb/",
    "test_doc_examples", "test_packaging", "drivers/test_hammerdb_real", "drivers/test_replay",
    "drivers/test_script_clients", "iotrace/test_intervals",
    "iotrace/test_counted_calls", "iotrace/test_modelled_", "iotrace/test_planted_delays",
    "micro/test_fio", "observers/test_observing", "playbooks/test_experiment_role",
    "playbooks/test_every_place", "playbooks/test_roles", "reports/test_browser",
    "reports/test_control_characters", "reports/test_every_kind_of_run",
    "reports/test_site_browser", "rewrite/", "store/test_rescue", "supervise/test_kill_nine",
    "supervise/test_silence", "supervise/test_supervisor", "workloads/htap/test_htap_queries",
    "workloads/test_parameters", "workloads/tpcc/test_tpcc_conditions",
    "workloads/ycsb/test_ycsb_checks", "workloads/tpch/test_refresh",
    "workloads/tpch/test_tpch_answers", "workloads/tpch/test_tpch_run",
)  # fmt: skip


def _path(node_id: str) -> str:
    return node_id.split("::", maxsplit=1)[0].removeprefix("tests/")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make check` does not even import the files whose tests it leaves out."""
    path = str(collection_path.relative_to(Path(__file__).parent))
    return (config.option.markexpr == "not system" and path.startswith(_SYSTEM)) or None


def _group(node_id: str) -> str:
    path = _path(node_id)
    matches = [beginning for beginning in _BEGINNINGS if path.startswith(beginning)]
    return _BEGINNINGS[max(matches, key=len)] if matches else path


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A worker's tests in the groups' order; a process by itself runs them as they come."""
    items[:] = [item for item in items if SANITIZED or not item.get_closest_marker("sanitizers")]
    for item in items:
        of_browser = "browser" in getattr(item, "fixturenames", ())
        if of_browser or _path(item.nodeid).startswith(_SYSTEM):
            item.add_marker("system")
    if hasattr(config, "workerinput"):
        turns = {group: turn for turn, group in enumerate(_GROUPS)}
        items.sort(key=lambda item: turns.get(_group(item.nodeid), len(turns)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups are handed out whole, in the order of their first tests."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no annotations
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    config.option.loadscopereorder = False
    return Groups(config, log)


#: What these tests store need not survive a loss of power, and is in memory: to make and remove
#: files on a disk, and to wait for the device, took most of their time.
_IN_MEMORY = (
    "drivers/", "experiment/", "models/", "monitors/", "paper/", "reports/", "selftest/",
    "store/", "workloads/",
)  # fmt: skip
_fsync, _RESERVED_BYTES = os.fsync, run_store.RESERVED_BYTES


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Also for the fixtures of a test. What a run reserves would be taken of a tmpfs at once."""
    in_memory = _path(item.nodeid).startswith(_IN_MEMORY)
    setattr(os, "fsync", (lambda _: None) if in_memory else _fsync)  # noqa: B010
    run_store.RESERVED_BYTES = 1 << 16 if in_memory else _RESERVED_BYTES


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """In memory where the test needs no disk."""
    if not _path(request.node.nodeid).startswith(_IN_MEMORY):
        yield request.getfixturevalue("tmp_path")
        return
    with TemporaryDirectory(prefix="pytest-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that servers' users can enter."""
    with open_directory() as folder:
        yield folder


@pytest.fixture(scope="session")
def listening_options() -> dict[str, dict[str, str]]:
    """Options by engine for a server that can listen; PostgreSQL's pinned build has no TLS."""
    return {"postgres": options_with_tls(), "mysql": {}, "mariadb": {}}


@pytest.fixture(scope="session")
def released_loadgen() -> Path:
    """The native client as it is installed, with the stub and the store of its tests next to it."""
    return build("loadgen") / "loadgen"


def pytest_collection() -> None:
    """Look for no garbage among thousands of tests that all stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Never look through the collected tests and their modules again, and seldom for garbage: a
    twentieth of the time went into that."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    gc.enable()


# After pytest's own search for garbage: modules free what they count, so that none reports a leak.
_AT_EXIT.callback(gc.unfreeze)


_left_out: set[str] = set()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect a worker's messages at the end."""
    _left_out.update(filter(None, [getattr(node, "workeroutput", {}).get("left_out")]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """For the workers, who have no terminal."""
    for line in sorted(_left_out):
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of commands are read whole; tests of the width set their own."""
    monkeypatch.setenv("COLUMNS", "10000")
