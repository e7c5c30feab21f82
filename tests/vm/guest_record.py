"""Runs inside the test machine: records the part of /sys and /proc that the probe reads.

The output is what tests/tiers/recordings/ keeps: ``{files: {path: text}, links:
{path: target}, dax: {directory: bool}, space: {directory: [size, free, block]}}``.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, "/opt/harness")

from harness.tiers.linux.kernel import LIVE

_ATTRIBUTES = {
    "mode", "holder", "namespace", "size", "align", "mappings", "mapping0", "mapping1",
    "persistence_domain", "numa_node", "target_node", "provider", "devtype", "id", "vendor",
    "device", "serial", "formats", "flags", "dev", "model", "rotational", "name", "partition",
}  # fmt: skip
_LINKS = {"driver", "device"}
_TREES = ("/sys/bus/nd/devices", "/sys/bus/dax/devices", "/sys/dev/block", "/sys/class/block")
_FILES = ("/proc/self/mountinfo", "/proc/meminfo", "/proc/cmdline", "/proc/cpuinfo")


def record_below(directory: Path, files: dict[str, str], links: dict[str, str]) -> None:
    for entry in directory.iterdir():
        if entry.is_symlink():
            if entry.name in _LINKS:
                links[str(entry)] = str(entry.readlink())
                files.setdefault(str(entry.resolve() / "uevent"), "")
        elif entry.is_dir() and entry.name not in ("power", "mq", "trace", "integrity", "bdi"):
            record_below(entry, files, links)
        elif entry.name in _ATTRIBUTES and (text := LIVE.read(entry)) is not None:
            files[str(entry)] = text


def main() -> None:
    files = {name: LIVE.read(name) or "" for name in _FILES}
    links: dict[str, str] = {}
    for tree in _TREES:
        for link in Path(tree).iterdir():
            links[str(link)] = str(link.readlink())
            record_below(link.resolve(), files, links)
    for node in Path("/sys/devices/system/node").glob("node*"):
        for name in ("meminfo", "cpulist", "distance"):
            files[str(node / name)] = LIVE.read(node / name) or ""
    directories = [Path(argument) for argument in sys.argv[1:]]
    spaces = {str(each): LIVE.space(each) for each in directories}
    recorded = {
        "files": files,
        "links": links,
        "dax": {str(each): LIVE.dax(each).dax for each in directories},
        "space": {
            name: [space.size_bytes, space.free_bytes, space.block_size_bytes]
            for name, space in spaces.items()
        },
    }
    print(json.dumps(recorded, indent=0, sort_keys=True))


main()
