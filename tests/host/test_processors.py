"""Processors: how they are named, what they stand for here, and whether they were kept to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from patience import PATIENCE_S

from harness.errors import UsageError
from harness.host.processors import affinity_check, format_cpus, resolve_cpus
from harness.supervise.process import process_identity
from harness.supervise.supervisor import Supervisor
from harness.tiers.linux.kernel import Kernel


@pytest.fixture
def two_sockets(tmp_path: Path) -> Kernel:
    """A sysfs tree as Documentation/ABI/stable/sysfs-devices-system-cpu has it.

    Two sockets of two cores with two threads each; processor 7 is offline.
    """
    base = tmp_path / "sys/devices/system"
    for cpu in range(8):
        folder = base / f"cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{cpu // 2 % 2}\n")
    (base / "cpu/online").write_text("0-6\n")
    for node, cpus in enumerate(("0-1,4-5", "2-3,6-7", "")):
        (base / f"node/node{node}").mkdir(parents=True)
        (base / f"node/node{node}/cpulist").write_text(f"{cpus}\n")
    return Kernel(tmp_path)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("socket:0", "0-1,4-5"), ("socket:1", "2-3,6"), ("node:1", "2-3,6"), ("1-2", "1-2")],
)
def test_a_socket_is_its_processors_that_are_online(two_sockets, text, cpus):
    assert format_cpus(resolve_cpus(text, two_sockets, range(7))) == cpus


@pytest.mark.parametrize(
    ("text", "found"),
    [("7", "7 cannot be used"), ("socket:2", "no such socket"), ("node:2", "no such node"),
     ("node:9", "no such node")],
)  # fmt: skip
def test_processors_that_are_not_there_are_refused(two_sockets, text, found):
    with pytest.raises(UsageError, match=found):
        resolve_cpus(text, two_sockets, range(7))


def test_the_socket_of_the_data_is_that_of_their_tiers_node(two_sockets: Kernel) -> None:
    """A node without processors, and none at all, are of socket 0."""
    found = {
        node: format_cpus(resolve_cpus("socket:data", two_sockets, range(7), node))
        for node in (0, 1, 2, None)
    }
    assert found == {0: "0-1,4-5", 1: "2-3,6", 2: "0-1,4-5", None: "0-1,4-5"}


def test_a_cpuset_narrows_a_socket(two_sockets: Kernel) -> None:
    assert resolve_cpus("socket:0", two_sockets, {1, 2, 3}) == (1,)
    with pytest.raises(UsageError, match="no processor that may be used"):
        resolve_cpus("socket:0", two_sockets, {2})


def test_a_supervised_process_and_its_children_stay_on_their_processors(tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    with Supervisor(tmp_path / "state") as supervisor:
        start = supervisor.capped_by(None, (last,)).spawn
        log = tmp_path / "log"
        start(["sh", "-c", "grep Cpus_allowed_list /proc/self/status"], log=log).wait(PATIENCE_S)
        assert log.read_text().split() == ["Cpus_allowed_list:", str(last)]
        held = process_identity(start(["sleep", "60"]).pid)
        free = process_identity(supervisor.spawn(["sleep", "60"]).pid)
        assert held and free
        assert affinity_check((last,), [held]).status == "passed"
        assert affinity_check((last + 1,), [held, free]).status == "failed"
        if len(os.sched_getaffinity(0)) > 1:
            assert affinity_check((last,), [held, free]).status == "failed"
    assert affinity_check((last,), [held]).status == "unknown"
