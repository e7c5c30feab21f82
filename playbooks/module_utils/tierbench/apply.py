"""The steps of a plan, carried out one by one; each is a function named after what it does.

Order within a step: what we are about is on record, durably, before the first command.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import fstab
from .commands import Commands, StepFailed
from .devices import identity_on_record
from .draft import Step
from .filesystems import mkfs_argv
from .ipmctl import current_goal
from .ndctl import Namespace
from .nodes import udev_rules
from .plan import daxctl_conf
from .record import Record, remove_durably, save_record, write_durably
from .state import Files, State
from .tiers_of import host_file
from .use import probe
from .wish import Wish


@dataclass
class CommandRunner:
    """What a step works with: the state it was planned from, and the record to keep.

    ``made``: UUIDs of the namespaces that this run has made and not yet put a file system on.
    """

    state: State
    wish: Wish
    commands: Commands
    files: Files
    made: set[str] = field(default_factory=set)

    @property
    def record(self) -> Record:
        return self.state.record

    def save(self) -> None:
        """Put the record on disk."""
        save_record(self.record, self.files.record)

    def must(self, step: Step, *argv: str) -> str:
        """Run a command of a step; StepFailed with its words."""
        return self.commands.must(argv, step.object, "look at the host, then run this again").out

    def namespace(self, step: Step) -> Namespace:
        """The one of ours in the step's region, by now made: its real name, never a guess."""
        region = step.args["region"]
        found = [n for n in self.state.inventory.namespaces if n.region == region]
        wanted = [n for n in found if n.mode == self.wish.namespace_mode and n.block]
        ours = [n for n in wanted if self.state.is_ours(n)] or wanted
        if len(ours) != 1:
            names = ", ".join(n.name for n in ours) or "none"
            raise StepFailed(
                region, f"one namespace was expected in it, found {names}", "run --check"
            )
        return ours[0]


def carry_out(step: Step, hands: CommandRunner) -> None:
    """Do one step; StepFailed where the host says no."""
    if step.destroys:
        _remember_before(step, hands)
    try:
        _STEPS[step.do](step, hands)
    except OSError as error:
        why = f"{step.do}: {error.strerror or error}"
        raise StepFailed(step.object, why, "put that right, then run this again") from error


def _remember_before(step: Step, hands: CommandRunner) -> None:
    """What a region was before our first change of it, so that teardown.yml can go back."""
    for region in hands.state.inventory.regions:
        theirs = hands.state.of_region(region)
        if region.name in hands.record.before or not {n.name for n in theirs} & set(step.destroys):
            continue
        hands.record.before[region.name] = {
            "labelled": region.labelled,
            "namespaces": [
                {
                    "mode": n.mode,
                    "raw_bytes": n.raw_bytes,
                    "label": n.label,
                    "map": n.map,
                    "sector_size": n.sector_size,
                    "align_bytes": n.align_bytes,
                }
                for n in theirs
                if not hands.state.is_ours(n)
            ],
        }
    hands.save()


# Namespaces ----------------------------------------------------------------------


def _create_namespace(step: Step, hands: CommandRunner) -> None:
    region = step.object
    if region not in hands.record.before:
        there = next(r for r in hands.state.inventory.regions if r.name == region)
        hands.record.before[region] = {"labelled": there.labelled, "namespaces": []}
    theirs = step.args.get("theirs")
    hands.record.creating = None if theirs else region
    hands.record.creating_for = None if theirs else hands.wish.mode
    hands.save()
    _keep_uuid(step, hands, hands.must(step, *step.args["argv"]))


def _keep_uuid(step: Step, hands: CommandRunner, told: str) -> None:
    """What ndctl says it made goes on record as ours."""
    if step.args.get("theirs") or step.args.get("raw"):
        return
    try:
        made = json.loads(told)
        made = made[0] if isinstance(made, list) else made
        uuid, mode = made["uuid"], made["mode"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise StepFailed(
            step.object, f"ndctl's answer is not understood: {told!r}", "run --check"
        ) from error
    hands.record.made(uuid, mode, step.args.get("asked_bytes"), hands.wish.mode)
    hands.made.add(uuid)
    if not hands.wish.has_filesystem:
        hands.save()
        return
    # What was on the region before shows through again where offsets are the same: a dead file
    # system, which nobody may take for a live one.
    hands.record.making, hands.record.making_filesystem = uuid, None
    hands.save()
    hands.must(step, "wipefs", "--all", "--quiet", f"/dev/{made['blockdev']}")
    hands.record.making = None
    hands.save()


def _keep(namespace: Namespace, hands: CommandRunner) -> None:
    """One that a run which was cut off made, or that somebody else left to us, is ours by now."""
    if namespace.uuid and namespace.uuid not in hands.record.namespaces:
        size = hands.wish.size_bytes
        hands.record.made(namespace.uuid, str(namespace.mode), size, hands.wish.mode)


def _reconfigure_namespace(step: Step, hands: CommandRunner) -> None:
    _keep_uuid(step, hands, hands.must(step, *step.args["argv"]))


def _destroy_namespace(step: Step, hands: CommandRunner) -> None:
    hands.must(step, "ndctl", "destroy-namespace", "-f", step.object)


def _write_labels(step: Step, hands: CommandRunner) -> None:
    if step.object not in hands.record.before:  # nothing was there that this destroys
        hands.record.before[step.object] = {"labelled": False, "namespaces": []}
        hands.save()
    _labels(step, hands, "init-labels", "-f")
    if step.object in hands.record.zeroed:
        del hands.record.zeroed[step.object]
        hands.save()


def _zero_labels(step: Step, hands: CommandRunner) -> None:
    _labels(step, hands, "zero-labels")
    hands.record.zeroed[step.object] = hands.state.boot_id
    hands.save()


def _labels(step: Step, hands: CommandRunner, *words: str) -> None:
    """A region is disabled for as long as its labels are written, whatever comes of it."""
    hands.must(step, "ndctl", "disable-region", step.object)
    try:
        hands.must(step, "ndctl", *words, *step.args["dimms"])
    finally:
        hands.must(step, "ndctl", "enable-region", step.object)


def _enable_region(step: Step, hands: CommandRunner) -> None:
    hands.must(step, "ndctl", "enable-region", step.object)


# Memory --------------------------------------------------------------------------


def _to_system_ram(step: Step, hands: CommandRunner) -> None:
    """Movable, so that it can be given back. Which of them are memory by us goes on record."""
    device = next((each for each in hands.state.dax if each.name in step.destroys), None)
    if device is not None:
        hands.record.dax[device.name] = identity_on_record(device)
        hands.save()
    hands.commands.run(["modprobe", "kmem"])  # built in on some kernels
    name = _dax_name(step, hands)
    hands.must(step, "daxctl", "reconfigure-device", "--mode=system-ram", name)
    for namespace in hands.state.inventory.namespaces:
        if namespace.chardev == name and namespace.uuid:
            _keep(namespace, hands)
            hands.record.namespaces[namespace.uuid]["serves"] = hands.wish.mode
            hands.save()


def _dax_name(step: Step, hands: CommandRunner) -> str:
    known = [device.name for device in hands.state.dax]
    if step.object not in known:
        raise StepFailed(
            step.object, f"DAX devices are {', '.join(known) or 'none'}", "run --check"
        )
    return step.object


def _online_memory(step: Step, hands: CommandRunner) -> None:
    hands.must(step, "daxctl", "online-memory", _dax_name(step, hands))


def _release_memory(step: Step, hands: CommandRunner) -> None:
    device = _dax_name(step, hands)
    done = hands.commands.run(["daxctl", "offline-memory", device])
    if done.rc:
        node = next(each.target_node for each in hands.state.dax if each.name == device)
        raise StepFailed(
            device,
            f"daxctl offline-memory {device}: exit {done.rc}: {done.words[-600:]}",
            f"what the memory of node {node} is used for must end first (numastat -c names"
            " processes); what cannot be moved leaves it with a restart. Then run this again",
        )
    hands.must(step, "daxctl", "reconfigure-device", "--mode=devdax", device)


# File systems --------------------------------------------------------------------


def _make_filesystem(step: Step, hands: CommandRunner) -> None:
    """Record the file system's UUID before mkfs: after an interruption anywhere, a finished file
    system of ours is told apart from an older one that shows through.
    """
    namespace, record = hands.namespace(step), hands.record
    device = f"/dev/{namespace.block}"
    if step.object != device:
        raise StepFailed(
            step.object, f"the namespace of {namespace.region} is {device}", "run --check"
        )
    _keep(namespace, hands)
    made = str(uuid.uuid4())
    point = f"{hands.wish.mount_root.rstrip('/')}/pmem{_region_number(namespace)}"
    record.making, record.making_filesystem = namespace.uuid, made
    record.creating = record.creating_for = None
    record.filesystems[made] = {"point": point, "block_size": hands.wish.block_size}
    hands.save()
    hands.made.discard(str(namespace.uuid))
    hands.must(step, *mkfs_argv(device, hands.wish, made, force=bool(step.args.get("force"))))
    record.making = record.making_filesystem = None
    for gone in [u for u, each in record.filesystems.items() if each["point"] == point]:
        if gone != made:
            del record.filesystems[gone]
    hands.save()
    found = probe(device, hands.commands)
    if found.uuid != made or found.type != hands.wish.filesystem:
        raise StepFailed(
            device, f"blkid finds {found.type or found.why} on it after mkfs", "run --check"
        )


def _region_number(namespace: Namespace) -> str:
    return namespace.region.replace("region", "")


def _mount(step: Step, hands: CommandRunner) -> None:
    point = Path(step.object)
    if not point.exists():
        if step.object not in hands.record.folders:
            hands.record.folders.append(step.object)
            hands.save()
        point.mkdir(parents=True, mode=0o755)
    namespace, record = hands.namespace(step), hands.record
    device, options = f"/dev/{namespace.block}", step.args["options"]
    unfinished = record.making is not None and record.making == namespace.uuid
    do = "look at dmesg, then run this again"
    if unfinished:
        do = f"making its file system was cut off: wipefs -a {device}, then run this again"
    content = hands.state.use(namespace).content
    if content.uuid and content.uuid not in record.filesystems:  # the record was lost
        size = content.block_size or hands.wish.block_size
        record.filesystems[content.uuid] = {"point": step.object, "block_size": size}
        hands.save()
    mount = ["mount", "-t", step.args["filesystem"], "-o", options, device, step.object]
    hands.commands.must(mount, step.object, do)
    if unfinished:  # it was whole
        record.making = record.making_filesystem = None
        hands.save()


def _unmount(step: Step, hands: CommandRunner) -> None:
    hands.must(step, "umount", step.object)


def _write_fstab(step: Step, hands: CommandRunner) -> None:
    namespace = hands.namespace(step)
    uuid = hands.state.use(namespace).content.uuid
    if uuid is None:
        raise StepFailed(step.object, f"/dev/{namespace.block} has no UUID", "run --check")
    line = fstab.our_line(uuid, step.object, hands.wish)
    _change_fstab(hands, fstab.with_line(hands.state.fstab, line))


def _remove_fstab(step: Step, hands: CommandRunner) -> None:
    _change_fstab(hands, fstab.without_point(hands.state.fstab, step.object))


def _change_fstab(hands: CommandRunner, text: str) -> None:
    """And tell systemd, which makes its mount units from it."""
    write_durably(hands.files.fstab, text, 0o644)
    if Path("/run/systemd/system").is_dir():
        hands.commands.run(["systemctl", "daemon-reload"])


def _remove_folder(step: Step, hands: CommandRunner) -> None:
    """Ours, and only while it is empty: what somebody put there stays."""
    with contextlib.suppress(OSError):
        Path(step.object).rmdir()
    hands.record.folders.remove(step.object)
    hands.save()


def _own(step: Step, hands: CommandRunner) -> None:
    uid, gid = step.args["ids"]
    os.chown(step.object, uid, gid)


# The host ------------------------------------------------------------------------


def _write_daxctl_conf(step: Step, hands: CommandRunner) -> None:
    _replace(hands.files.daxctl_conf, daxctl_conf(hands.state))


def _own_device(step: Step, hands: CommandRunner) -> None:
    """Now; the rule is for the next time that the kernel makes the node."""
    uid, gid = step.args["ids"]
    hands.must(step, "chown", f"{uid}:{gid}", step.object)
    hands.must(step, "chmod", f"{step.args['mode']:o}", step.object)


def _write_udev_rules(step: Step, hands: CommandRunner) -> None:
    _replace(hands.files.udev_rules, udev_rules(hands.state, hands.wish))
    hands.commands.run(["udevadm", "control", "--reload"])  # none where no udev runs


def _write_host_file(step: Step, hands: CommandRunner) -> None:
    if hands.state.host_file is None:
        hands.record.host_file_made = True
        hands.save()
    text = host_file(hands.state)
    disk = hands.files.disk_tier
    if text and str(disk) in text and not disk.exists():
        hands.record.folders.append(str(disk))
        hands.save()
        disk.mkdir(parents=True, mode=0o755)
    _replace(hands.files.host_file, text)


def _replace(path: Path, text: str | None) -> None:
    if text is None:
        remove_durably(path)
    else:
        write_durably(path, text, 0o644)


def _create_goal(step: Step, hands: CommandRunner) -> None:
    goals = hands.state.goals
    if hands.record.goal_before is None and goals is not None and hands.wish.mode != "teardown":
        hands.record.goal_before = current_goal(goals)
        hands.save()
    hands.record.goal_asked, hands.record.goal_boot = step.args["asked"], None
    hands.save()
    hands.must(step, *step.args["argv"])
    hands.record.goal_boot = hands.state.boot_id
    hands.save()


def _set_memmap(step: Step, hands: CommandRunner) -> None:
    hands.record.memmap, hands.record.memmap_done = step.args["parameter"], False
    hands.save()
    if hands.state.boot_loader == "grubby":
        hands.must(step, "grubby", "--update-kernel=ALL", f"--args={step.args['parameter']}")
    else:
        line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {step.args["parameter"]}"\n'
        write_durably(hands.files.grub, line, 0o644)
        hands.must(step, "update-grub")
    hands.record.memmap_done = True
    hands.save()


def _remove_memmap(step: Step, hands: CommandRunner) -> None:
    hands.record.memmap_done = False  # from here on the boot loader may not have it any more
    hands.save()
    if hands.state.boot_loader == "grubby":
        hands.must(step, "grubby", "--update-kernel=ALL", f"--remove-args={step.args['parameter']}")
    else:
        remove_durably(hands.files.grub)
        hands.must(step, "update-grub")
    hands.record.memmap = None
    hands.save()


def _write_record(step: Step, hands: CommandRunner) -> None:
    """Save the record as losses.py has completed it."""
    hands.save()


_STEPS: dict[str, Callable[[Step, CommandRunner], None]] = {
    "write-record": _write_record,
    "create-namespace": _create_namespace,
    "reconfigure-namespace": _reconfigure_namespace,
    "destroy-namespace": _destroy_namespace,
    "write-labels": _write_labels,
    "zero-labels": _zero_labels,
    "enable-region": _enable_region,
    "to-system-ram": _to_system_ram,
    "online-memory": _online_memory,
    "release-memory": _release_memory,
    "make-filesystem": _make_filesystem,
    "mount": _mount,
    "unmount": _unmount,
    "write-fstab": _write_fstab,
    "remove-fstab": _remove_fstab,
    "remove-folder": _remove_folder,
    "own": _own,
    "own-device": _own_device,
    "write-udev-rules": _write_udev_rules,
    "write-daxctl-conf": _write_daxctl_conf,
    "write-host-file": _write_host_file,
    "create-goal": _create_goal,
    "set-memmap": _set_memmap,
    "remove-memmap": _remove_memmap,
}
