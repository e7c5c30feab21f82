"""What all tests share: the engines that `make setup` installed, and who runs beside whom."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import paths

# Tests put their data elsewhere; the installed engines stay where set-up put them.
os.environ.setdefault("HARNESS_ENGINES", str(paths.engines_prefix()))

#: Side by side (``pytest -n 2``) one worker has all tests of a file, and of a group: those whose
#: path below ``tests`` begins so.
_GROUPS = {
    # What takes turns through the host's measuring lock anyway, and what asserts how much of
    # a file is cached, which a cold start beside it might drop.
    "measuring": (
        "cli/", "memory/", "drivers/test_hammerdb_real", "test_measuring",
        "test_memory_traffic",
    ),
    # What changes settings of the kernel.
    "settings": ("supervise/",),
    # What shares servers, data or builds over several files.
    "innodb": ("engines/test_innodb_",),
    "loadgen": ("loadgen/",),
    "tpch": ("workloads/tpch/",),
    "java": ("drivers/ycsb/",),
}  # fmt: skip
#: They take longest, and go first: what is left for the end should be short.
_FIRST = (
    *_GROUPS["measuring"], "vm/", "engines/test_innodb_", "workloads/", "loadgen/", "drivers/ycsb/",
    "engines/",
)  # fmt: skip


def _beginning(path: str, beginnings: Sequence[str]) -> int | None:
    """Which of them the path has."""
    return next((n for n, one in enumerate(beginnings) if path.startswith(one)), None)


def _group(node_id: str) -> str:
    path = node_id.split("::", maxsplit=1)[0].removeprefix("tests/")
    return next((g for g, own in _GROUPS.items() if _beginning(path, own) is not None), path)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A worker's tests in the order of ``_FIRST``; a process by itself runs them as they come."""
    if hasattr(config, "workerinput"):
        root = Path(__file__).parent

        def turn(item: pytest.Item) -> int:
            found = _beginning(str(item.path.relative_to(root)), _FIRST)
            return len(_FIRST) if found is None else found

        items.sort(key=turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups are handed out whole, in the order of their first tests."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    config.option.loadscopereorder = False
    return Groups(config, log)


_left_out: set[str] = set()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker has to say at the end."""
    _left_out.update(filter(None, [getattr(node, "workeroutput", {}).get("left_out")]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """For the workers, who have no terminal."""
    for line in sorted(_left_out):
        terminalreporter.write_line(line, yellow=True)
