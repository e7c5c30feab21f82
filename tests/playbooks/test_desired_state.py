"""Settings of a desired state, as files and command lines give them."""

from __future__ import annotations

import pytest
from tierbench.desired_state import parse_desired_state


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mode": "fsdax"}, "mode 'fsdax': one of appdirect"),
        ({"mode": "appdirect", "regions": "pmem0"}, "'pmem0' is no region's name"),
        ({"mode": "appdirect", "filesystem": "btrfs"}, "one of ext4, xfs"),
        ({"mode": "appdirect", "size_bytes": "3 apples"}, "a whole number, or one with KiB"),
        ({"mode": "appdirect", "dax": "perhaps"}, "true or false"),
        ({"mode": "appdirect", "mount_root": "mnt"}, "an absolute folder"),
        ({"mode": "appdirect", "owner": "a b; rm"}, "user, or user:group"),
        ({"mode": "memory-mode", "memory_mode_percent": 120}, "from 0 to 100"),
        ({"mode": "appdirect", "dax": False, "block_size": 512}, "one of 1024, 2048, 4096"),
        ({"mode": "appdirect", "block_size": 1024}, "DAX needs blocks of a page"),
        ({"mode": "sector", "block_size": 1024}, "must be >= pmem_sector_size, 4096"),
        ({"mode": "appdirect", "filesytem": "xfs"}, "no such setting"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        parse_desired_state(given)
    assert words in str(raised.value)


def test_words_of_a_command_line_are_numbers_and_truths() -> None:
    desired = parse_desired_state(
        {"mode": "appdirect", "regions": "region0,region1", "dax": "false", "size_bytes": "768MiB",
         "owner": "", "dimms": "2"}
    )  # fmt: skip
    assert desired.regions == ("region0", "region1")
    assert (desired.dax, desired.size_bytes, desired.owner, desired.dimms) == (
        False,
        805306368,
        None,
        2,
    )
