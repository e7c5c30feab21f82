"""Hand-written sysfs trees of hosts with CXL memory.

The paths are those of QEMU's CXL devices under Linux 6.1 and 6.12; the figures are invented.
"""

from pathlib import Path

from recorded_kernel import write

GIB = 1 << 30
ROOT_PORT, DEVICE = "0000:0c:00.0", "0000:0d:00.0"
SWITCH = ("0000:0d:00.0", "0000:0e:00.0")
BEHIND_SWITCH = "0000:0f:00.0"
CXL_ROOT = "/sys/devices/platform/ACPI0017:00/root0"
DECODER = f"{CXL_ROOT}/decoder0.0"
#: Of the root decoder in these trees.
WINDOW_START = 0x1_9000_0000
#: CXL's DVSECs for GPF of a port and of a device.
GPF_PORT, GPF_DEVICE = 4, 5
BLOCK_BYTES = 128 << 20


def link(root: Path, name: str, target: str) -> None:
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    (root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
    path.symlink_to(root / target.lstrip("/"))


def node(
    root: Path,
    number: int,
    memory_bytes: int = GIB,
    cpus: str = "",
    distances: str = "10 20",
    zones: tuple[str, ...] = ("Normal",),
) -> None:
    """A node of invented size, half of it free, in equal zones."""
    folder = f"/sys/devices/system/node/node{number}"
    kib = memory_bytes >> 10
    meminfo = f"Node {number} MemTotal: {kib} kB\nNode {number} MemFree: {kib // 2} kB\n"
    write(root, f"{folder}/meminfo", meminfo)
    write(root, f"{folder}/cpulist", cpus)
    write(root, f"{folder}/distance", distances)
    zoneinfo = root / "proc/zoneinfo"
    zoneinfo.parent.mkdir(parents=True, exist_ok=True)
    pages = (memory_bytes >> 12) // max(1, len(zones))
    with zoneinfo.open("a") as file:
        for zone in ("DMA", "Normal", "Movable", "Device"):
            managed = pages if zone in zones else 0
            file.write(
                f"Node {number}, zone {zone:>8}\n  pages free     {managed // 2}\n"
                f"        managed  {managed}\n"
            )


def promise(root: Path, number: int, latency_ns: int, mb_per_s: int, near: int = 0) -> None:
    """HMAT's figures of a node, for both classes of access."""
    for access in ("access0", "access1"):
        folder = f"/sys/devices/system/node/node{number}/{access}/initiators"
        for direction in ("read", "write"):
            write(root, f"{folder}/{direction}_latency", f"{latency_ns}\n")
            write(root, f"{folder}/{direction}_bandwidth", f"{mb_per_s}\n")
        link(root, f"{folder}/node{near}", f"/sys/devices/system/node/node{near}")


def blocks(root: Path, number: int | None, first: int, online: int, offline: int = 0) -> None:
    """Blocks of memory of a node, from the block ``first`` on."""
    write(root, "/sys/devices/system/memory/block_size_bytes", f"{BLOCK_BYTES:x}\n")
    for at in range(online + offline):
        block = f"/sys/devices/system/memory/memory{first + at}"
        write(root, f"{block}/state", "online\n" if at < online else "offline\n")
        if number is not None:
            here = f"/sys/devices/system/node/node{number}"
            link(root, f"{block}/node{number}", here)
            link(root, f"{here}/memory{first + at}", block)


def dax(root: Path, name: str, sysfs: str, target_node: int, driver: str = "device_dax") -> None:
    """A DAX device at a place in the device tree."""
    for attribute, text in (
        ("size", f"{GIB}"), ("align", "2097152"), ("target_node", f"{target_node}"),
        ("numa_node", "0"),
    ):  # fmt: skip
        write(root, f"{sysfs}/{attribute}", text)
    link(root, f"{sysfs}/driver", f"/sys/bus/dax/drivers/{driver}")
    link(root, f"/sys/bus/dax/devices/{name}", sysfs)


def memory_device(
    root: Path,
    ram_bytes: int = 0,
    pmem_bytes: int = 0,
    pci: tuple[str, ...] = (ROOT_PORT, DEVICE),
    gpf: bool | None = True,
    switch_gpf: bool = True,
) -> None:
    """mem0, with its endpoint; ``gpf`` None: the configuration space cannot be read in full."""
    mem = f"/sys/devices/pci0000:0c/{'/'.join(pci)}/mem0"
    write(root, f"{mem}/serial", "0x1")
    write(root, f"{mem}/numa_node", "0")
    write(root, f"{mem}/firmware_version", "BWFW VERSION 00")
    write(root, f"{mem}/ram/size", f"{ram_bytes:#x}")
    write(root, f"{mem}/pmem/size", f"{pmem_bytes:#x}")
    link(root, f"{mem}/driver", "/sys/bus/cxl/drivers/cxl_mem")
    link(root, "/sys/bus/cxl/devices/mem0", mem)
    endpoint = f"{CXL_ROOT}/port1/endpoint2"
    write(root, f"{endpoint}/decoder2.0/mode", "ram" if ram_bytes else "pmem")
    link(root, f"{endpoint}/uport", mem)
    link(root, "/sys/bus/cxl/devices/decoder2.0", f"{endpoint}/decoder2.0")
    for address in pci[1:-1]:
        config(root, address, (GPF_PORT,) if switch_gpf else ())
    config(root, pci[-1], () if gpf is False else (GPF_DEVICE,), whole=gpf is not None)


def config(root: Path, address: str, dvsecs: tuple[int, ...], whole: bool = True) -> None:
    """The configuration space of a PCI function with these DVSECs of CXL's, after another one."""
    space = bytearray(4096)
    at = 0x100
    for vendor, number in ((0x8086, GPF_DEVICE), *((0x1E98, number) for number in dvsecs)):
        following = at + 0x40
        space[at : at + 4] = (0x23 | 1 << 16 | following << 20).to_bytes(4, "little")
        space[at + 4 : at + 6] = vendor.to_bytes(2, "little")
        space[at + 8 : at + 10] = number.to_bytes(2, "little")
        at = following
    path = root / f"sys/bus/pci/devices/{address}/config"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(space if whole else space[:64])


def window(root: Path, size_bytes: int = 4 * GIB) -> None:
    """The root decoder of a window for all kinds of CXL memory."""
    write(root, f"{DECODER}/devtype", "cxl_decoder_root")
    write(root, f"{DECODER}/start", f"{WINDOW_START:#x}")
    write(root, f"{DECODER}/size", f"{size_bytes:#x}")
    for capable in ("cap_ram", "cap_pmem"):
        write(root, f"{DECODER}/{capable}", "1")
    link(root, "/sys/bus/cxl/devices/decoder0.0", DECODER)


def _region(root: Path) -> str:
    region = f"{DECODER}/region0"
    write(root, f"{region}/size", f"{GIB:#x}")
    write(root, f"{region}/interleave_ways", "1")
    write(root, f"{region}/target0", "decoder2.0")
    link(root, "/sys/bus/cxl/devices/region0", region)
    return region


def volatile(root: Path, driver: str = "kmem", target_node: int = 1) -> None:
    """A volatile region on mem0 and its DAX device, as Linux 6.12 has them."""
    window(root)
    memory_device(root, ram_bytes=GIB)
    region = _region(root)
    write(root, f"{region}/mode", "ram")
    dax(root, "dax0.0", f"{region}/dax_region0/dax0.0", target_node, driver)


def persistent(root: Path, driver: str = "device_dax", **device: object) -> None:
    """A persistent region on mem0 and a devdax namespace, as Linux 6.1 has them."""
    window(root)
    memory_device(root, pmem_bytes=GIB, **device)  # type: ignore[arg-type]
    region = _region(root)
    write(root, f"{region}/pmem_region0/devtype", "cxl_pmem_region")
    bus = f"{CXL_ROOT}/nvdimm-bridge0/ndbus0"
    write(root, f"{bus}/provider", "CXL")
    write(root, f"{bus}/nmem0/devtype", "nvdimm")
    link(root, "/sys/bus/nd/devices/nmem0", f"{bus}/nmem0")
    nd_region = f"{bus}/region0"
    for attribute, text in (
        ("mappings", "1"), ("mapping0", f"nmem0,0,{GIB},0"), ("size", f"{GIB}"),
        ("persistence_domain", "memory_controller"), ("numa_node", "0"), ("devtype", "nd_pmem"),
        ("namespace0.0/size", f"{GIB}"), ("dax0.0/namespace", "namespace0.0"),
    ):  # fmt: skip
        write(root, f"{nd_region}/{attribute}", text)
    link(root, "/sys/bus/nd/devices/region0", nd_region)
    dax(root, "dax0.0", f"{nd_region}/dax0.0/dax0.0", 1, driver)
