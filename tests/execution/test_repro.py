"""Whether a stored run may be repeated here: another host's names programs and servers."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import UsageError
from harness.execution.repro import check_repeatable


@pytest.mark.parametrize(
    ("imported", "same_host", "trusted", "refused"),
    [
        (False, True, False, False),
        (True, True, False, True),  # whatever its manifest says
        (False, False, False, True),
        (True, False, True, False),
    ],
)
def test_another_hosts_run_is_repeated_only_if_it_is_trusted(imported, same_host, trusted, refused):
    original: Any = SimpleNamespace(
        run_id="R",
        run={"spec_hash": ""},
        manifest=SimpleNamespace(host={"host_id": "here"}),
        imported=imported,
    )
    env: Any = SimpleNamespace(host={"host_id": "here" if same_host else "there"})
    with pytest.raises(UsageError) if refused else nullcontext():
        check_repeatable(original, env, 0.25, trusted)
