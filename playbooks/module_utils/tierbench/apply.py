"""Carry out steps: one function for each kind of step.

Order within a step: the intention is recorded durably before the first command.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import fstab
from .change_builder import Step
from .changes import daxctl_conf, host_file
from .commands import Commands, StepFailed
from .cxl import CXL, LIST, CxlRegion, parse_cxl, read_fabric, region_of_device
from .desired_state import DesiredState
from .devices import identity_on_record, udev_rules
from .filesystems import mkfs_argv
from .ipmctl import current_goal
from .linux import LIVE, Kernel
from .namespace_users import probe
from .ndctl import DaxDevice, Namespace, parse_daxctl
from .record import Record, remove_durably, save_record, write_durably
from .state import Files, State


@dataclass
class CommandRunner:
    """Context of a step: the state it was planned from, and the record.

    ``made``: UUIDs of namespaces that this run created and did not format yet.
    """

    state: State
    desired: DesiredState
    commands: Commands
    files: Files
    made: set[str] = field(default_factory=set)
    kernel: Kernel = LIVE

    @property
    def record(self) -> Record:
        return self.state.record

    def save(self) -> None:
        """Put the record on disk."""
        save_record(self.record, self.files.record)

    def must(self, step: Step, *argv: str) -> str:
        """Run a command of a step; StepFailed with its words."""
        return self.commands.must(argv, step.object, "inspect the host, then rerun").out

    def namespace(self, step: Step) -> Namespace:
        """Return our namespace in the step's region, by its real name."""
        region = step.args["region"]
        namespaces = [n for n in self.state.inventory.namespaces if n.region == region]
        wanted = [n for n in namespaces if n.mode == self.desired.namespace_mode and n.block]
        ours = [n for n in wanted if self.state.is_ours(n)] or wanted
        if len(ours) != 1:
            names = ", ".join(n.name for n in ours) or "none"
            raise StepFailed(region, f"expected one namespace in it, found {names}", "run --check")
        return ours[0]


def carry_out(step: Step, runner: CommandRunner) -> None:
    """Carry out one step; StepFailed where a command fails."""
    if step.destroys:
        _remember_before(step, runner)
    try:
        _STEPS.get(step.do, _run)(step, runner)
    except OSError as error:
        why = f"{step.do}: {error.strerror or error}"
        raise StepFailed(step.object, why, "fix that, then rerun") from error


#: What teardown.yml creates a namespace with.
_KEPT = ("mode", "raw_bytes", "label", "map", "sector_size", "align_bytes")


def _remember_before(step: Step, runner: CommandRunner) -> None:
    """Record a region before our first change, so that teardown.yml can restore it."""
    for region in runner.state.inventory.regions:
        theirs = runner.state.of_region(region)
        if region.name in runner.record.before or not {n.name for n in theirs} & set(step.destroys):
            continue
        runner.record.before[region.name] = {
            "labelled": region.labelled,
            "namespaces": [
                {name: getattr(each, name) for name in _KEPT}
                for each in theirs
                if not runner.state.is_ours(each)
            ],
        }
    runner.save()


def _run(step: Step, runner: CommandRunner) -> None:
    runner.must(step, *step.args["argv"])


# Namespaces ----------------------------------------------------------------------


def _create_namespace(step: Step, runner: CommandRunner) -> None:
    region = step.object
    if region not in runner.record.before:
        there = next(r for r in runner.state.inventory.regions if r.name == region)
        runner.record.before[region] = {"labelled": there.labelled, "namespaces": []}
    theirs = step.args.get("theirs")
    runner.record.creating = None if theirs else region
    runner.record.creating_for = None if theirs else runner.desired.serves
    runner.save()
    _make_namespace(step, runner)


def _make_namespace(step: Step, runner: CommandRunner) -> None:
    """Create or reconfigure a namespace, and record it as ours."""
    output = runner.must(step, *step.args["argv"])
    if step.args.get("theirs") or step.args.get("raw"):
        return
    try:
        made = json.loads(output)
        made = made[0] if isinstance(made, list) else made
        uuid, mode = made["uuid"], made["mode"]
        if not (isinstance(uuid, str) and isinstance(mode, str)):
            raise TypeError("uuid and mode are no texts")
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise StepFailed(
            step.object, f"cannot parse ndctl's output: {output!r}", "run --check"
        ) from error
    runner.record.made(uuid, mode, step.args.get("requested_bytes"), runner.desired.serves)
    runner.made.add(uuid)
    if not runner.desired.has_filesystem:
        runner.save()
        return
    # Earlier content of the region shows through at the same offsets: a dead file system, which
    # must not be taken for a live one.
    runner.record.making, runner.record.making_filesystem = uuid, None
    runner.save()
    runner.must(step, "wipefs", "--all", "--quiet", f"/dev/{made['blockdev']}")
    runner.record.making = None
    runner.save()


def _record_namespace(namespace: Namespace, runner: CommandRunner) -> None:
    """Record a namespace that an interrupted run created, or another user left to us, as ours."""
    if namespace.uuid and namespace.uuid not in runner.record.namespaces:
        size = runner.desired.size_bytes
        runner.record.made(namespace.uuid, str(namespace.mode), size, runner.desired.serves)


def _write_labels(step: Step, runner: CommandRunner) -> None:
    if step.object not in runner.record.before:  # nothing was there that this destroys
        runner.record.before[step.object] = {"labelled": False, "namespaces": []}
        runner.save()
    _labels(step, runner, "init-labels", "-f")
    if step.object in runner.record.zeroed:
        del runner.record.zeroed[step.object]
        runner.save()


def _zero_labels(step: Step, runner: CommandRunner) -> None:
    _labels(step, runner, "zero-labels")
    runner.record.zeroed[step.object] = runner.state.boot_id
    runner.save()


def _labels(step: Step, runner: CommandRunner, *words: str) -> None:
    """Write labels while the region is disabled; enable it in any case."""
    runner.must(step, "ndctl", "disable-region", step.object)
    try:
        runner.must(step, "ndctl", *words, *step.args["dimms"])
    finally:
        runner.must(step, "ndctl", "enable-region", step.object)


# Memory --------------------------------------------------------------------------


def _to_system_ram(step: Step, runner: CommandRunner) -> None:
    """Online as movable, so that it can be released; devices on no NVDIMM go on record."""
    device = next((each for each in runner.state.dax if each.name == step.object), None)
    region = None if device is None else _our_cxl_region(device, runner)
    if region is not None:
        runner.record.cxl[region]["serves"] = runner.desired.serves
        runner.save()
    elif device is not None and device.name in step.destroys:
        runner.record.dax[device.name] = identity_on_record(device)
        runner.save()
    runner.commands.run(["modprobe", "kmem"])  # built in on some kernels
    name = _dax_name(step, runner)
    zone = [] if runner.desired.movable else ["--no-movable"]
    runner.must(step, "daxctl", "reconfigure-device", "--mode=system-ram", *zone, name)
    _check_zone(name, runner)
    for namespace in runner.state.inventory.namespaces:
        if namespace.chardev == name and namespace.uuid:
            _record_namespace(namespace, runner)
            runner.record.namespaces[namespace.uuid]["serves"] = runner.desired.serves
            runner.save()


def _our_cxl_region(device: DaxDevice, runner: CommandRunner) -> str | None:
    """Identity of the CXL region of ours that a device is of."""
    state = runner.state
    regions = [each for each in state.fabric.regions if each.name == device.cxl_region]
    return next((state.fabric.identity(r) for r in regions if state.is_our_region(r)), None)


def _dax_name(step: Step, runner: CommandRunner) -> str:
    devices = [device.name for device in runner.state.dax]
    if step.object not in devices:
        raise StepFailed(
            step.object, f"DAX devices are {', '.join(devices) or 'none'}", "run --check"
        )
    return step.object


def _release_memory(step: Step, runner: CommandRunner) -> None:
    device = _dax_name(step, runner)
    before = next(each for each in runner.state.dax if each.name == device)
    # daxctl fails where all of it is offline.
    online = before.online_blocks or not before.total_blocks
    done = runner.commands.run(["daxctl", "offline-memory", device]) if online else None
    if done is not None and done.rc:
        raise StepFailed(
            device,
            f"daxctl offline-memory {device}: exit {done.rc}: {done.words[-600:]}",
            f"stop what uses the memory of node {before.target_node} (numastat -c lists processes);"
            " unmovable pages, as in memory that the kernel put online by itself"
            " (memhp_default_state), need a restart. Then rerun",
        )
    runner.must(step, "daxctl", "reconfigure-device", "--mode=devdax", device)


def _online_memory(step: Step, runner: CommandRunner) -> None:
    """daxctl-online-memory(1) fails with a warning of a race where all is online by now."""
    done = runner.commands.run(step.args["argv"])
    device = _device_now(step.object, runner)
    if device is None or device.online_blocks < device.total_blocks:
        why = f"{step.command}: exit {done.rc}: {done.words[-600:]}"
        raise StepFailed(step.object, why, "see dmesg, then rerun")
    _check_zone(step.object, runner)


def _device_now(name: str, runner: CommandRunner) -> DaxDevice | None:
    devices = parse_daxctl(runner.commands.run(["daxctl", "list", "-D"]).out)
    return next((each for each in devices if each.name == name), None)


def _check_zone(name: str, runner: CommandRunner) -> None:
    """Check the zone: another agent (udev, the kernel) may have put the memory online first."""
    device = _device_now(name, runner)
    if device is not None and device.movable is (not runner.desired.movable):
        raise StepFailed(
            name,
            "something else puts its memory online, in another zone than requested (movable is"
            f" {device.movable})",
            "switch that off (udev rules with memory/state, auto_online_blocks); teardown.yml, then"
            " rerun",
        )


# CXL regions ---------------------------------------------------------------------

_CXL_MODULES = ("cxl_mem", "cxl_pmem", "nd_pmem", "dax_pmem", "dax_cxl", "device_dax", "kmem")
_DEVICE_TIMEOUT_S = 30.0
#: Words of the tool, which may come with exit status 0, to what helps.
_CXL_HINTS = {
    "not supported yet": "install cxl 77 or later: 76.1 makes only persistent regions",
    "failed to commit decode": "see dmesg; 'Failed to synchronize CPU cache state' in a virtual"
    " machine: QEMU needs -cpu …,hypervisor=off",
    "No space left on device": "another region has that capacity: cxl list -MDRTi",
    "failed to set target": "name the devices in the order of their ports: -e cxl_memdevs=[…]",
}


def _create_cxl_region(step: Step, runner: CommandRunner) -> None:
    """Believe sysfs, not the exit status: 76.1 creates no volatile region and exits with 0."""
    identity, record = step.args["identity"], runner.record
    before = record.cxl.get(identity)
    entry: dict[str, str | None] = {
        "serves": runner.desired.serves,
        "uuid": before["uuid"] if before else None,
        "boot": runner.state.boot_id,
    }
    record.cxl[identity] = entry
    runner.save()
    runner.commands.run(["modprobe", "-a", *_CXL_MODULES])  # some are built in
    done = runner.commands.run(step.args["argv"])
    region = _cxl_regions_now(runner).get(identity)
    if region is None or not region.active:
        if region is None:
            del record.cxl[identity]
            if before:
                record.cxl[identity] = before
            runner.save()
        why = f"{step.command}: exit {done.rc}: {done.words[-600:]}"
        hints = [hint for words, hint in _CXL_HINTS.items() if words in done.words]
        raise StepFailed(step.object, f"no region: {why}", (hints or ["see dmesg, then rerun"])[0])
    entry["uuid"] = region.uuid
    runner.save()
    _wait_for_device(region, runner)


def _cxl_regions_now(runner: CommandRunner) -> dict[str, CxlRegion]:
    """The regions by their identity."""
    parsed = parse_cxl(runner.commands.run(LIST.split()).out)
    fabric = read_fabric(parsed, runner.commands, runner.kernel)
    return {fabric.identity(region): region for region in fabric.regions}


def _wait_for_device(region: CxlRegion, runner: CommandRunner) -> None:
    """udev loads the driver that makes the region's device."""
    runner.commands.run(["udevadm", "settle"])
    deadline = time.monotonic() + _DEVICE_TIMEOUT_S
    while not _has_device(region, runner.kernel):
        if time.monotonic() > deadline:
            raise StepFailed(
                region.name,
                "it came to be without a device",
                "modprobe dax_cxl (volatile), or cxl_pmem and nd_pmem; then rerun",
            )
        time.sleep(0.5)


def _has_device(region: CxlRegion, kernel: Kernel) -> bool:
    if region.type == "ram":
        devices = kernel.names("/sys/bus/dax/devices")
        return any(region_of_device(name, kernel) == region.name for name in devices)
    nd = "/sys/bus/nd/devices"
    starts = [kernel.read(f"{nd}/{name}/resource") for name in kernel.names(nd)]
    return kernel.read(f"{CXL}/{region.name}/resource") in starts


def _destroy_cxl_region(step: Step, runner: CommandRunner) -> None:
    """``cxl`` exits with 0, too, where it has destroyed nothing."""
    argvs = [["cxl", verb, step.object] for verb in ("disable-region", "destroy-region")]
    words = "; ".join(f"{' '.join(argv)}: {runner.commands.run(argv).words}" for argv in argvs)
    if step.args["identity"] in _cxl_regions_now(runner):
        raise StepFailed(step.object, f"it is still there: {words[-600:]}", "see dmesg, then rerun")
    if step.args["forget"]:
        runner.record.cxl.pop(step.args["identity"], None)
        runner.save()


# File systems --------------------------------------------------------------------


def _make_filesystem(step: Step, runner: CommandRunner) -> None:
    """Record the file system's UUID before mkfs: after an interruption, it distinguishes a finished
    file system of ours from an older one that shows through.
    """
    namespace, record = runner.namespace(step), runner.record
    device = f"/dev/{namespace.block}"
    if step.object != device:
        raise StepFailed(
            step.object, f"the namespace of {namespace.region} is {device}", "run --check"
        )
    _record_namespace(namespace, runner)
    made = str(uuid.uuid4())
    point = f"{runner.desired.mount_root.rstrip('/')}/pmem{_region_number(namespace)}"
    record.making, record.making_filesystem = namespace.uuid, made
    record.creating = record.creating_for = None
    record.filesystems[made] = {"point": point, "block_size": runner.desired.block_size}
    runner.save()
    runner.made.discard(str(namespace.uuid))
    runner.must(step, *mkfs_argv(device, runner.desired, made, force=bool(step.args.get("force"))))
    record.making = record.making_filesystem = None
    for gone in [u for u, each in record.filesystems.items() if each["point"] == point]:
        if gone != made:
            del record.filesystems[gone]
    runner.save()
    content = probe(device, runner.commands)
    if content.uuid != made or content.type != runner.desired.filesystem:
        raise StepFailed(
            device, f"blkid finds {content.type or content.why} on it after mkfs", "run --check"
        )


def _region_number(namespace: Namespace) -> str:
    return namespace.region.replace("region", "")


def _mount(step: Step, runner: CommandRunner) -> None:
    point = Path(step.object)
    if not point.exists():
        if step.object not in runner.record.folders:
            runner.record.folders.append(step.object)
            runner.save()
        point.mkdir(parents=True, mode=0o755)
    namespace, record = runner.namespace(step), runner.record
    device, options = f"/dev/{namespace.block}", step.args["options"]
    unfinished = record.making is not None and record.making == namespace.uuid
    do = "see dmesg, then rerun"
    if unfinished:
        do = f"creating its file system was interrupted: wipefs -a {device}, then rerun"
    content = runner.state.users_of(namespace).content
    if content.uuid and content.uuid not in record.filesystems:  # the record was lost
        size = content.block_size or runner.desired.block_size
        record.filesystems[content.uuid] = {"point": step.object, "block_size": size}
        runner.save()
    mount = ["mount", "-t", step.args["filesystem"], "-o", options, device, step.object]
    runner.commands.must(mount, step.object, do)
    if unfinished:  # it was whole
        record.making = record.making_filesystem = None
        runner.save()


def _write_fstab(step: Step, runner: CommandRunner) -> None:
    namespace = runner.namespace(step)
    uuid = runner.state.users_of(namespace).content.uuid
    if uuid is None:
        raise StepFailed(step.object, f"/dev/{namespace.block} has no UUID", "run --check")
    line = fstab.our_line(uuid, step.object, runner.desired)
    _change_fstab(runner, fstab.with_line(runner.state.fstab, line))


def _remove_fstab(step: Step, runner: CommandRunner) -> None:
    _change_fstab(runner, fstab.without_point(runner.state.fstab, step.object))


def _change_fstab(runner: CommandRunner, text: str) -> None:
    """Write fstab and reload systemd, which generates mount units from it."""
    write_durably(runner.files.fstab, text, 0o644)
    if Path("/run/systemd/system").is_dir():
        runner.commands.run(["systemctl", "daemon-reload"])


def _remove_folder(step: Step, runner: CommandRunner) -> None:
    """Remove a directory of ours if it is empty."""
    with contextlib.suppress(OSError):
        Path(step.object).rmdir()
    runner.record.folders.remove(step.object)
    runner.save()


def _set_owner(step: Step, runner: CommandRunner) -> None:
    uid, gid = step.args["ids"]
    os.chown(step.object, uid, gid)


# The host ------------------------------------------------------------------------


def _write_daxctl_conf(step: Step, runner: CommandRunner) -> None:
    _replace(runner.files.daxctl_conf, daxctl_conf(runner.state))


def _own_device(step: Step, runner: CommandRunner) -> None:
    """Change the node now; the udev rule does so when the kernel creates it again."""
    uid, gid = step.args["ids"]
    runner.must(step, "chown", f"{uid}:{gid}", step.object)
    runner.must(step, "chmod", f"{step.args['mode']:o}", step.object)


def _write_udev_rules(step: Step, runner: CommandRunner) -> None:
    _replace(runner.files.udev_rules, udev_rules(runner.state, runner.desired))
    runner.commands.run(["udevadm", "control", "--reload"])  # none where no udev runs


def _write_host_file(step: Step, runner: CommandRunner) -> None:
    if runner.state.host_file is None:
        runner.record.host_file_made = True
        runner.save()
    text = host_file(runner.state)
    disk = runner.files.disk_tier
    if text and str(disk) in text and not disk.exists():
        runner.record.folders.append(str(disk))
        runner.save()
        disk.mkdir(parents=True, mode=0o755)
    _replace(runner.files.host_file, text)


def _replace(path: Path, text: str | None) -> None:
    if text is None:
        remove_durably(path)
    else:
        write_durably(path, text, 0o644)


def _create_goal(step: Step, runner: CommandRunner) -> None:
    goals = runner.state.goals
    if (
        runner.record.goal_before is None
        and goals is not None
        and runner.desired.mode != "teardown"
    ):
        runner.record.goal_before = current_goal(goals)
        runner.save()
    runner.record.requested_goal, runner.record.goal_boot = step.args["goal"], None
    runner.save()
    runner.must(step, *step.args["argv"])
    runner.record.goal_boot = runner.state.boot_id
    runner.save()


def _set_memmap(step: Step, runner: CommandRunner) -> None:
    parameter = step.args["parameter"]
    runner.record.memmap, runner.record.memmap_done = parameter, False
    runner.save()
    line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {parameter}"\n'
    _tell_boot_loader(step, runner, f"--args={parameter}", line)
    runner.record.memmap_done = True
    runner.save()


def _remove_memmap(step: Step, runner: CommandRunner) -> None:
    runner.record.memmap_done = False  # from here on the boot loader may have lost it
    runner.save()
    _tell_boot_loader(step, runner, f"--remove-args={step.args['parameter']}", None)
    runner.record.memmap = None
    runner.save()


def _tell_boot_loader(step: Step, runner: CommandRunner, option: str, text: str | None) -> None:
    """Change the kernel's parameters: an option of grubby, or our file of update-grub."""
    if runner.state.boot_loader == "grubby":
        runner.must(step, "grubby", "--update-kernel=ALL", option)
    else:
        _replace(runner.files.grub, text)
        runner.must(step, "update-grub")


_STEPS: dict[str, Callable[[Step, CommandRunner], None]] = {
    "write-record": lambda step, runner: runner.save(),  # as completed by state.py
    "create-namespace": _create_namespace,
    "reconfigure-namespace": _make_namespace,
    "write-labels": _write_labels,
    "zero-labels": _zero_labels,
    "to-system-ram": _to_system_ram,
    "release-memory": _release_memory,
    "online-memory": _online_memory,
    "create-cxl-region": _create_cxl_region,
    "destroy-cxl-region": _destroy_cxl_region,
    "make-filesystem": _make_filesystem,
    "mount": _mount,
    "write-fstab": _write_fstab,
    "remove-fstab": _remove_fstab,
    "remove-folder": _remove_folder,
    "own": _set_owner,
    "own-device": _own_device,
    "write-udev-rules": _write_udev_rules,
    "write-daxctl-conf": _write_daxctl_conf,
    "write-host-file": _write_host_file,
    "create-goal": _create_goal,
    "set-memmap": _set_memmap,
    "remove-memmap": _remove_memmap,
}
