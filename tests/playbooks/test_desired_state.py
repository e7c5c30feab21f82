"""Settings of a desired state, as files and command lines give them."""

from __future__ import annotations

import pytest
from tierbench.desired_state import parse_desired_state


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mode": "appdirect", "regions": "pmem0"}, "'pmem0' is no region's name"),
        ({"mode": "appdirect", "dax": "perhaps"}, "true or false"),
        ({"mode": "appdirect", "mount_root": "mnt"}, "an absolute folder"),
        ({"mode": "appdirect", "owner": "a b; rm"}, "user, or user:group"),
        ({"mode": "memory-mode", "memory_mode_percent": 120}, "from 0 to 100"),
        ({"mode": "appdirect", "block_size": 1024}, "DAX needs blocks of a page"),
        ({"mode": "appdirect", "filesytem": "xfs"}, "no such setting"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        parse_desired_state(given)
    assert words in str(raised.value)
