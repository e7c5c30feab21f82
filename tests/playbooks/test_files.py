"""The files of the host that are edited: only our lines, and every other byte stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from tierbench import fstab, hostfile
from tierbench.desired_state import DesiredState
from tierbench.memmap import choose, parameters, system_ram
from tierbench.record import Record, load_record, save_record

from harness.tiers.hostfile import load_host_file

PMEM = {"kind": "fsdax", "path": "/mnt/pmem0"}
MINE = """\
# the lab's server
schema: 1
data_dir: /srv/data   # on the array
tiers:
    # what we paid for
    ssd: {kind: block, path: /srv/ssd, price_per_gb: 0.12}
    cxl:
        kind: numa
        node: 2
"""


def tiers(tmp_path: Path, text: str | None) -> dict[str, str]:
    """Names and kinds as the harness itself reads the file."""
    path = tmp_path / "host.yml"
    path.write_text(text or "")
    return {claim.name: claim.kind for claim in load_host_file(path).claims}


def test_our_tiers_stand_beside_the_owners_and_go_without_a_trace(tmp_path: Path) -> None:
    text = hostfile.write(MINE, {"pmem": PMEM})
    assert tiers(tmp_path, text) == {"ssd": "block", "cxl": "numa", "pmem": "fsdax"}
    assert hostfile.write(text, {"pmem": PMEM}) == text
    assert hostfile.write(text, {}) == MINE
    alone = hostfile.write(None, {"pmem": PMEM})  # where there is no file, one is made
    assert tiers(tmp_path, alone) == {"pmem": "fsdax"}
    assert hostfile.write(alone, {}) is None
    with pytest.raises(ValueError, match="one line"):
        hostfile.write("schema: 1\ntiers: {ssd: {kind: block, path: /x}}\n", {"pmem": PMEM})


def test_names_stay_with_their_places_and_leave_the_owners_alone() -> None:
    wanted = [("pmem", PMEM), ("pmem", {"kind": "fsdax", "path": "/mnt/pmem1"})]
    assert list(hostfile.name_tiers(wanted, MINE)) == ["pmem", "pmem1"]
    # The second alone got the name pmem; it keeps it when the first comes.
    text = hostfile.write(MINE, {"pmem": wanted[1][1]}) or ""
    assert hostfile.name_tiers(wanted, text) == {"pmem1": PMEM, "pmem": wanted[1][1]}
    # A place that the owner named is his; a name of his is not taken for another place.
    theirs = MINE + "    pmem: {kind: fsdax, path: /mnt/pmem0, price_per_gb: 9.21}\n"
    assert list(hostfile.name_tiers(wanted, theirs)) == ["pmem1"]
    assert hostfile.name_tiers([("cxl", {"kind": "numa", "node": 2})], MINE) == {}


FSTAB = "# mine\nUUID=1 / ext4 rw 0 1\nUUID=2 /mnt/pmem0 xfs x-tierbench-not 0 2"


def test_fstab_keeps_every_other_line() -> None:
    line = fstab.our_line("77", "/mnt/pmem1", DesiredState("appdirect", filesystem="xfs"))
    assert line == "UUID=77 /mnt/pmem1 xfs noatime,dax,nofail,x-tierbench 0 2"
    text = fstab.with_line(FSTAB, line)
    assert text == f"{FSTAB}\n{line}\n"
    assert fstab.has_line(text, line)
    assert fstab.with_line(text, line) == text
    assert fstab.without_point(text, "/mnt/pmem1") == FSTAB + "\n"
    assert fstab.without_point(text, "/mnt/pmem0") == text
    assert fstab.foreign_line(text, "/mnt/pmem0") == "UUID=2 /mnt/pmem0 xfs x-tierbench-not 0 2"
    assert fstab.our_points(text) == ["/mnt/pmem1"]


def test_the_record_survives_and_a_blank_one_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "provisioning.json"
    assert load_record(path) == Record()
    made = {"mode": "fsdax", "requested_bytes": None, "serves": "appdirect"}
    record = Record(namespaces={"u": made}, making="u")
    save_record(record, path)
    assert load_record(path) == record
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["provisioning.json"]
    save_record(Record(), path)
    assert not path.exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 2}', '{"schema": 1, "else": 1}', "{}"])
def test_a_record_that_is_not_understood_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "provisioning.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"provisioning\.json"):
        load_record(path)


#: /proc/iomem of a machine of 32 GiB, shortened to its first columns.
IOMEM = """\
00000000-00000fff : Reserved
00001000-0009fbff : System RAM
00100000-7ffdefff : System RAM
  01000000-01ffffff : Kernel code
e0000000-efffffff : PCI MMCONFIG 0000 [bus 00-ff]
100000000-87fffffff : System RAM
"""
GIB = 1 << 30


def test_dram_is_set_aside_at_the_end_of_system_ram() -> None:
    assert choose(IOMEM, 4 * GIB, None) == "memmap=4G!30G"
    assert choose(IOMEM, 4 * GIB, 8 * GIB) == "memmap=4G!8G"
    assert parameters("quiet memmap=4G!30G memmap=1M$2M") == ["memmap=4G!30G"]


@pytest.mark.parametrize(
    ("iomem", "size", "start", "words"),
    [
        (IOMEM, 20 * GIB, None, "more than half"),
        (IOMEM, 4 * GIB, 32 * GIB, "do not lie in System RAM"),
        (IOMEM, 4 * GIB, 1 * GIB, "do not lie in System RAM above 4 GiB"),
        (IOMEM, 4 * GIB, 8 * GIB + 1, "at a whole GiB"),
        (IOMEM, GIB // 2, None, "no multiple of 1 GiB"),
        ("00000000-00000000 : System RAM\n", GIB, None, "shows no System RAM"),
        ("00100000-bfffffff : System RAM\n", GIB, None, "no stretch of System RAM above 4 GiB"),
    ],
)
def test_a_stretch_that_could_keep_the_host_from_starting_is_refused(iomem, size, start, words):
    with pytest.raises(ValueError, match=words):
        choose(iomem, size, start)
    assert system_ram(iomem) is not None
