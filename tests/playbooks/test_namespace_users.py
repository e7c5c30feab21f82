"""Who holds a namespace, by what the kernel's files say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tierbench.commands import Commands, Done
from tierbench.linux import Kernel
from tierbench.namespace_users import namespace_users
from tierbench.ndctl import Namespace


class NothingThere(Commands):
    """blkid finds nothing, whatever it is asked."""

    def run(self, argv: Sequence[str]) -> Done:
        return Done(2, "", "")


def test_a_loop_device_over_a_namespace_is_seen(tmp_path: Path) -> None:
    """Nothing else tells of it: it leaves the namespace's device open to others."""
    loop = tmp_path / "sys/block/loop3/loop"
    loop.mkdir(parents=True)
    (loop / "backing_file").write_text("/dev/pmem7\n")
    spaces = tuple(
        Namespace(f"namespace{n}.0", f"region{n}", "raw", 1 << 30, 1 << 30, None, block=f"pmem{n}")
        for n in (7, 8)
    )
    found = namespace_users(spaces, NothingThere(), Kernel(tmp_path))
    assert found["namespace7.0"].others == ("/dev/loop3 loops over it",)
    assert found["namespace8.0"].others == ()
