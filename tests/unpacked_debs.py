"""Servers of Debian that are unpacked and never installed: an installed one starts a service.

They lie next to the pinned engines, under names that no run looks for.
"""

import fcntl
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import paths
from harness.install.debs import Apt
from harness.install.prefix import publish, run_client, work_directory


def unpacked(
    label: str, packages: Callable[[Apt], Sequence[str]], finish: Callable[[Path], None]
) -> Path:
    """The folder of ``label``'s packages; there as a whole or not at all.

    ``packages``: their names, as this release has them. ``finish``: changes and tries the tree.
    """
    release = platform.freedesktop_os_release()
    cache = paths.engines_prefix() / "unpacked-for-tests"
    target = cache / f"{label}-{release['ID']}-{release['VERSION_ID']}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # one downloads, whoever else runs tests waits
        if not target.is_dir():
            with work_directory(cache, target.name) as work:
                codename = release["VERSION_CODENAME"]
                apt = Apt(work, (codename, f"{codename}-security"), f"{label} of Debian")
                apt.download([*packages(apt)])
                tree = work / "tree"
                tree.mkdir()
                for package in work.glob("*.deb"):
                    words = ["dpkg-deb", "--extract", str(package), str(tree)]
                    run_client(f"unpack {package.name}", words, work, "install dpkg")
                finish(tree)
                publish(tree, target)
    return target
