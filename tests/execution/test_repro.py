"""Whether a stored run may be repeated here: another host's names programs and servers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import UsageError
from harness.execution.repro import repeat
from harness.store.runs import Store


class _Started(Exception):
    pass


def _start(*_: Any) -> Any:
    raise _Started


@pytest.mark.parametrize(
    ("imported", "same_host", "trusted", "outcome"),
    [
        (False, True, False, _Started),
        (True, True, False, UsageError),  # whatever its manifest says
        (False, False, False, UsageError),
        (True, False, True, _Started),
    ],
)
def test_another_hosts_run_is_repeated_only_if_it_is_trusted(
    tmp_path: Path, imported: bool, same_host: bool, trusted: bool, outcome: type[Exception]
) -> None:
    original: Any = SimpleNamespace(
        run_id="R", run={"spec_hash": ""}, manifest={"host": {"host_id": "here"}}, imported=imported
    )
    env: Any = SimpleNamespace(host={"host_id": "here" if same_host else "there"})
    with pytest.raises(outcome):
        repeat(original, _start, env, Store(tmp_path), 0.25, trusted)
