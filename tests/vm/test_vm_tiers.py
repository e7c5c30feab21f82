"""The probe and the verification on real namespaces, file systems and nodes.

QEMU's NVDIMMs run the kernel's own libnvdimm, ext4, xfs, device-dax and kmem code.
"""

from typing import Any

import pytest
from vm_guest import probe

pytestmark = pytest.mark.vm

#: Claims that the kernel grants or denies, verified in one call (calls cost seconds).
CLAIMS: list[dict[str, Any]] = [
    {"name": "ext4_dax", "kind": "fsdax", "path": "/mnt/ext4-dax"},
    {"name": "nodax", "kind": "fsdax", "path": "/mnt/ext4-nodax", "source": "host.yml:7"},
    {"name": "trap", "kind": "fsdax", "path": "/mnt/xfs-on-sector", "source": "host.yml:12"},
    {"name": "raw", "kind": "fsdax", "path": "/mnt/ext4-on-raw"},
    {"name": "as_disk", "kind": "block", "path": "/mnt/ext4-dax"},
    {"name": "want_nodax", "kind": "fs-nodax", "path": "/mnt/xfs-dax"},
    {"name": "unmounted", "kind": "fsdax", "path": "/mnt/unmounted"},
    {"name": "read_only", "kind": "fsdax", "path": "/mnt/read-only"},
    {"name": "missing", "kind": "fsdax", "path": "/mnt/nowhere"},
    {"name": "closed", "kind": "block", "path": "/root"},
    {"name": "dax_device", "kind": "devdax", "device": "/dev/dax1.4"},
    {"name": "dax_taken", "kind": "devdax", "device": "/dev/dax1.5"},
    {"name": "dax_absent", "kind": "devdax", "device": "/dev/dax9.9"},
    {"name": "system_ram", "kind": "numa", "nodes": [3]},
    {"name": "empty_node", "kind": "numa", "nodes": [2]},
]
#: Of directories: kind, mode of the namespace, DAX.
KINDS: dict[str, tuple[str, str | None, bool]] = {
    "/mnt/ext4-dax": ("fsdax", "fsdax", True),
    "/mnt/xfs-dax": ("fsdax", "fsdax", True),
    "/mnt/xfs-on-sector": ("sector", "sector", False),
    "/mnt/ext4-on-sector": ("sector", "sector", False),
    "/mnt/ext4-nodax": ("fs-nodax", "fsdax", False),
    "/mnt/ext4-on-raw": ("fs-nodax", "raw", False),
    "/mnt/dax-inode/plain": ("fs-nodax", "fsdax", False),
    "/mnt/dax-inode/flagged": ("fsdax", "fsdax", True),
    "/mnt/with blank": ("fsdax", "fsdax", True),
    "/": ("block", None, False),
}
PLACES = [*KINDS, "/dev/dax1.4", "node:3"]


@pytest.fixture(scope="module")
def answer(provisioned_vm):
    return probe(provisioned_vm, places=PLACES, claims=CLAIMS)


def test_blank_labels_come_up_as_raw_namespaces(blank_machine):
    assert blank_machine["namespaces"] == {"namespace0.0": "raw", "namespace1.0": "raw"}
    assert not [name for name in blank_machine["discovered"] if name.startswith("pmem")]


@pytest.mark.parametrize("place", KINDS)
def test_the_kind_is_what_namespace_and_statx_say(answer, place):
    facts = answer["places"][place]
    assert (facts["kind"], facts["namespace_mode"], facts["dax"]) == KINDS[place]


def test_facts_of_a_dax_file_system_reach_down_to_the_nvdimm(answer):
    expected = {
        "filesystem": "ext4", "device": "/dev/pmem0", "device_model": "nmem0 (8680-56341200)",
        "namespace": "namespace0.0", "namespace_alignment_bytes": 2 << 20,
        "persistence_domain": "memory_controller", "interleave_ways": 1, "numa_node": 0,
    }  # fmt: skip
    facts = answer["places"]["/mnt/ext4-dax"]
    assert {name: facts[name] for name in expected} == expected


def test_facts_of_a_dax_device_and_of_its_memory_as_a_node(answer):
    device = answer["places"]["/dev/dax1.4"]
    assert (device["kind"], device["namespace"]) == ("devdax", "namespace1.4")
    assert device["size_bytes"] > 0
    node = answer["places"]["node:3"]
    assert node["size_bytes"] == 3 * (128 << 20)  # whole memory blocks of a 502 MiB device
    assert "system-ram" in node["device_model"]
    assert node["memory_kind"] == "pmem"


def test_xfs_took_dax_always_on_a_sector_namespace_and_the_claim_is_refused(answer):
    error = answer["claims"]["trap"]["error"]
    assert error["problem"].startswith("tier 'trap' in host.yml:12")
    assert error["problem"].endswith("fsdax at /mnt/xfs-on-sector")
    assert "sector namespace namespace0.2 (/dev/pmem0.2s)" in error["context"]
    assert "no DAX" in error["context"]
    assert "create-namespace -f -e namespace0.2 -m fsdax" in error["hint"]


@pytest.mark.parametrize(
    ("claim", "problem", "do"),
    [
        ("nodax", "statx reports no DAX", "mount -o dax /dev/pmem1 /mnt/ext4-nodax"),
        ("raw", "on raw namespace namespace1.1", "a raw namespace has no DAX"),
        ("as_disk", "ext4 on fsdax namespace namespace0.0", "set kind: fsdax"),
        ("want_nodax", "statx reports DAX", "-o dax=never"),
        ("unmounted", "ext4 on /dev/nvme0n1", "nothing is mounted at /mnt/unmounted"),
        ("read_only", "is read-only", "remount,rw"),
        ("missing", "no such directory", "mkdir -p /mnt/nowhere"),
        ("closed", "the engines' user 'engines' may not enter /root", "chmod o+x /root"),
        ("dax_taken", "driver kmem", "--mode=devdax dax1.5"),
        ("dax_absent", "no DAX device dax9.9", "/dev/dax1.4"),
        ("empty_node", "the kernel has no node 2", "nodes here: 0, 1, 3"),
    ],
)
def test_what_the_kernel_denies_is_refused_with_its_reason(answer, claim, problem, do):
    error = answer["claims"][claim]["error"]
    assert error["type"] in ("UsageError", "WrongKindError")
    assert problem in error["context"]
    assert do in error["hint"]


@pytest.mark.parametrize("claim", ["ext4_dax", "dax_device", "system_ram"])
def test_what_the_kernel_confirms_is_a_tier(answer, claim):
    tier = answer["claims"][claim]
    assert "error" not in tier and (tier["emulates"], tier["warnings"]) == (None, [])


def test_discovery_names_tiers_by_their_verified_kind(answer):
    kinds = {name: tier["kind"] for name, tier in answer["discovered"].items()}
    assert kinds == {"ssd": "block", "devdax": "devdax"} | {
        name: kind
        for kind, names in (
            ("fsdax", "pmem pmem1"),
            ("sector", "pmem_sector pmem_sector1"),
            ("fs-nodax", "pmem_nodax pmem_nodax1 pmem_nodax2"),
            ("numa", "dram dram1 farmem"),
        )
        for name in names.split()
    }
    how = answer["discovered"]["farmem"]["facts"]["notes"]
    assert any("named farmem" in note and "no CPUs" in note for note in how)


def test_host_mode_and_facts(answer):
    host = answer["host"]
    assert host["mode"] == "AppDirect"
    assert "region0" in host["mode_evidence"]
    domains = dict.fromkeys(("region0", "region1"), "memory_controller")
    assert host["persistence_domains"] == domains
    assert host["cpu"]["sockets"] == 2 and "QEMU" in host["virtualised"]
    assert [node["node"] for node in host["numa_nodes"]] == [0, 1, 3]
    assert {module["source"] for module in host["dimms"]} == {"nvdimm", "smbios"}


def test_the_probe_leaves_nothing_behind(answer, provisioned_vm):
    assert answer["places"]
    listing = provisioned_vm.run(
        "find /mnt /root /var/lib -name '.harness*'; ls /var/lib/tiers || true"
    )
    assert listing == ""


def test_memory_of_a_bound_process_is_found_on_its_node(provisioned_vm):
    program = (
        "import os, sys; sys.path.insert(0, '/opt/harness');"
        "from harness.tiers.linux.numa import residency;"
        "block = bytearray(64 << 20);"
        "print(residency([os.getpid()]).shares().get(int(sys.argv[1]), 0))"
    )
    bound = float(provisioned_vm.run(f'numactl --membind=3 python3 -c "{program}" 3'))
    roaming = float(provisioned_vm.run(f'numactl --membind=0 python3 -c "{program}" 3'))
    assert bound > 0.9
    assert roaming < 0.1
