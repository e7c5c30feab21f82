"""What every managed server takes: how long to wait, told before anything is made."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import UsageError
from harness.registry import engine

SERVERS = ("postgres", "mysql", "mariadb")


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("option", ["start_timeout_s", "stop_timeout_s"])
@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", None])
def test_a_timeout_that_is_none_is_refused_before_anything_is_made(
    lab: Any, name: str, option: str, value: str | None
) -> None:
    assert option in engine(name).options
    with pytest.raises(UsageError, match=f"{option}={value}") as caught:
        lab.engine(name, options={option: value})
    assert f"{option}=60" in caught.value.hint
    assert not any((lab.root / "1-s").iterdir())
