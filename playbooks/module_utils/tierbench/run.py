"""One run: state → changes → confirmed? → one step → state → … → verified."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from . import cxl_regions
from .apply import CommandRunner, carry_out
from .change_builder import ChangeBuilder, Step
from .changes import Changes, our_tiers, plan_changes, selected_regions
from .commands import Commands, Refusal, Refused, StepFailed
from .cxl_regions import note_cxl_service
from .desired_state import DesiredState, parse_desired_state
from .devices import SHARED_MODE, expected_owner, ours, selected_devices
from .goals import requested_goal
from .linux import LIVE, Kernel, TierFacts, facts_of_devdax, facts_of_directory, facts_of_numa
from .ndctl import DaxDevice, Namespace, Region
from .record import Record, locked, save_record
from .regions import find_existing, note_service
from .state import Files, State, mount_point, read_state, vars_of
from .tools import absent_hardware, install_command, packages_of

#: More steps than any plan has: a plan that never ends is a fault of ours.
_MOST_STEPS = 1000
_DONE = "destroyed"


@dataclass(frozen=True)
class Consent:
    """Changes that the user allows this run to make."""

    confirm_destroy: bool = False
    destroy: Sequence[str] = ()
    several_hosts: bool = False
    change: bool = True
    verify_only: bool = False
    install_tools: bool = True


@dataclass
class Outcome:
    """The result, as the fact ``provisioning``."""

    mode: str
    steps: list[dict[str, Any]] = field(default_factory=list)
    destroy: list[str] = field(default_factory=list)
    confirmed: bool = False
    refusals: list[Refusal] = field(default_factory=list)
    failures: list[Refusal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    changed: bool = False
    #: Whether all is done that comes before a restart, and nothing was refused or went wrong.
    reboot_needed: bool = False
    missing_tools: list[str] = field(default_factory=list)
    missing_packages: list[str] = field(default_factory=list)
    #: Packages of missing tools that the playbook has installed, for this run to be possible.
    installed_packages: list[str] = field(default_factory=list)
    tiers: list[dict[str, Any]] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        document = vars_of(self)
        for key in ("refusals", "failures"):
            document[key] = [vars_of(each) for each in document[key]]
        return document


def run(
    given: Mapping[str, Any],
    consent: Consent,
    commands: Commands,
    files: Files,
    kernel: Kernel = LIVE,
    installed_packages: Sequence[str] = (),
) -> Outcome:
    """Apply the desired state as far as consented; no state of a host raises an error."""
    outcome = Outcome(str(given.get("mode", "")), installed_packages=list(installed_packages))
    try:
        desired = parse_desired_state(given)
        changing = consent.change and not consent.verify_only
        with locked(files.record) if changing else contextlib.nullcontext():
            _run(Host(desired, commands, files, kernel), consent, outcome)
    except (ValueError, TypeError) as error:
        outcome.refusals.append(Refusal("settings", str(error), "correct it and rerun"))
    except StepFailed as error:
        outcome.failures.append(error.refusal)
    except Refused as error:
        outcome.refusals.append(error.refusal)
    if installed_packages:
        step = _install_step(installed_packages, "tools were missing", commands)
        outcome.steps.insert(0, step.to_json(done=True))
        outcome.changed = True
    return outcome


@dataclass(frozen=True)
class Host:
    """Desired state of a host, and the means to reach it.

    ``made``: the namespaces that this run has created and not formatted. It is the only thing that
    is kept between two steps, since nothing on the host shows it.
    """

    desired: DesiredState
    commands: Commands
    files: Files
    kernel: Kernel
    made: set[str] = field(default_factory=set)

    def state(self) -> State:
        state = read_state(self.desired, self.commands, self.files, self.kernel)
        return replace(state, made=frozenset(self.made))


def _run(host: Host, consent: Consent, outcome: Outcome) -> None:
    state, desired = host.state(), host.desired
    outcome.missing_tools = list(state.missing_tools)
    outcome.missing_packages = packages_of(state.missing_tools, host.commands)
    if state.missing_tools:
        _report_missing_tools(outcome, host, consent)
        return
    changes = plan_changes(state, desired)
    _report(outcome, changes, state)
    outcome.refusals += changes.refusals
    unconfirmed = confirmation(changes, state, consent)
    outcome.confirmed = unconfirmed is None
    if consent.verify_only:
        if not changes.steps and not changes.refusals:
            outcome.failures += drift(state, desired, host.kernel)
        return
    if unconfirmed and consent.change:
        outcome.refusals.append(unconfirmed)
    if outcome.refusals or not consent.change:
        return
    try:
        _put_on_record(changes, state, host)
    except StepFailed as error:
        outcome.refusals.append(error.refusal)
        return
    state = _carry_out_all(changes, state, host, consent, outcome)
    outcome.state = state.to_json()
    if not outcome.reboot_needed and not outcome.failures:
        outcome.failures += drift(state, desired, host.kernel)
        outcome.tiers = [{"base": base, **tier} for base, tier in our_tiers(state)]
        if not outcome.failures:
            _close(state.record, desired, host.files)


def _report_missing_tools(outcome: Outcome, host: Host, consent: Consent) -> None:
    """Plan the installation of missing tools, or refuse what they cannot help or may not be."""
    names = ", ".join(outcome.missing_tools)
    install = install_command(outcome.missing_packages, host.commands)
    if absent := absent_hardware(host.desired, host.kernel):
        outcome.refusals.append(absent)
    elif outcome.installed_packages:
        why = f"still missing after {', '.join(outcome.installed_packages)} was installed: {names}"
        outcome.refusals.append(Refusal("tools", why, "install them from another source"))
    elif consent.verify_only:
        do = f"`apply` installs them; or {install}"
        outcome.refusals.append(Refusal("tools", f"missing: {names}", do))
    elif not consent.install_tools:
        do = f"{install}; or provisioning_install_tools=true: `apply` installs them"
        outcome.refusals.append(Refusal("tools", f"missing: {names}", do))
    else:
        step = _install_step(outcome.missing_packages, f"missing: {names}", host.commands)
        outcome.steps = [step.to_json()]
        outcome.notes = [
            "further steps are planned with these tools: `apply` installs them first; or"
            f" {install}, and plan again"
        ]


def _install_step(packages: Sequence[str], why: str, commands: Commands) -> Step:
    command = install_command(packages, commands)
    return Step("install-packages", ", ".join(packages), why, command)


def _report(outcome: Outcome, changes: Changes, state: State) -> None:
    outcome.steps = [step.to_json() for step in changes.steps]
    outcome.destroy = list(changes.destroys)
    outcome.notes = list(changes.notes)
    outcome.reboot_needed = _waits_for_restart(changes)
    outcome.state = state.to_json()
    outcome.tiers = [{"base": base, **tier} for base, tier in our_tiers(state)]


def _waits_for_restart(changes: Changes) -> bool:
    """Return whether the restart is all that is left to do: a plan may need one, and be refused."""
    return not changes.refusals and {step.do for step in changes.steps} == {"reboot"}


# Confirmation ----------------------------------------------------------------------


def confirmation(changes: Changes, state: State, consent: Consent) -> Refusal | None:
    """Why what the plan destroys is not confirmed; None where it is, or where it destroys nothing.

    The names must be those of the plan, all and no other. Names that were confirmed for a run which
    was cut off may remain in the list: the same command resumes.
    """
    names = set(changes.destroys)
    if not names:
        return None
    listed = ", ".join(sorted(names))
    exact = ",".join(f'"{name}"' for name in sorted(names))
    do = f'if their data may be destroyed: -e \'{{"confirm_destroy": true, "destroy": [{exact}]}}\''
    if consent.several_hosts and consent.destroy:
        do = "write destroy by host: {host1: [names], host2: []}"
        return Refusal(listed, "destroy is one list, and there are several hosts", do)
    if not consent.confirm_destroy:
        return Refusal(listed, "these would be destroyed, and confirm_destroy is not true", do)
    given = set(consent.destroy)
    if missing := names - given:
        why = f"these would be destroyed; destroy does not name {', '.join(sorted(missing))}"
        return Refusal(listed, why, do)
    if extra := given - names - set(state.record.approved):
        why = f"destroy names {', '.join(sorted(extra))}, which is not to be destroyed"
        return Refusal(", ".join(sorted(extra)), why, do)
    return None


# Steps -----------------------------------------------------------------------------


def _carry_out_all(
    changes: Changes, state: State, host: Host, consent: Consent, outcome: Outcome
) -> State:
    """Carry out the first step and plan again, until nothing is left; return the last state."""
    outcome.steps = [s.to_json(done=True) for s in changes.steps if s.do == "write-record"]
    outcome.changed, outcome.reboot_needed = bool(outcome.steps), False
    if changes.steps:
        state = host.state()
        changes = plan_changes(state, host.desired)
    came_up: list[tuple[Step, int]] = []
    for _ in range(_MOST_STEPS):
        if changes.refusals:
            outcome.failures += changes.refusals
            return state
        if not changes.steps or changes.steps[0].do == "reboot":
            break
        step = changes.steps[0]
        if (step, len(changes.steps)) in came_up:
            why = f"{step.do} succeeded without effect: {step.why}"
            raise StepFailed(step.object, why, "see dmesg")
        came_up.append((step, len(changes.steps)))
        # The first plan did not see what is on a region that was disabled.
        if step.destroys and (unconfirmed := confirmation(changes, state, consent)):
            outcome.failures.append(unconfirmed)
            return state
        _check_approved(step, state)
        try:
            carry_out(step, _runner(state, host))
        except StepFailed:
            outcome.changed = True
            outcome.steps += [each.to_json() for each in changes.steps]
            if step.do == "create-namespace":
                _note_uncreated(state, host)
            raise
        outcome.steps.append(step.to_json(done=True))
        outcome.changed = True
        _forget(step, state.record, host.files)
        state = host.state()
        changes = plan_changes(state, host.desired)
    outcome.steps += [each.to_json() for each in changes.steps]
    outcome.notes = list(dict.fromkeys([*outcome.notes, *changes.notes]))
    outcome.reboot_needed = _waits_for_restart(changes)
    return state


def _runner(state: State, host: Host) -> CommandRunner:
    return CommandRunner(state, host.desired, host.commands, host.files, host.made, host.kernel)


def _note_uncreated(before: State, host: Host) -> None:
    """Clear the record's mark if nothing was created: a later namespace there is not ours."""
    with contextlib.suppress(Refused):  # then the next run finds out
        after = host.state()
        new = {n.uuid for n in after.inventory.namespaces if n.region == after.record.creating}
        if after.record.creating and new <= {n.uuid for n in before.inventory.namespaces}:
            after.record.creating = after.record.creating_for = None
            save_record(after.record, host.files.record)


def _put_on_record(changes: Changes, state: State, host: Host) -> None:
    """Save, before the first step, what the namespaces serve and what this run may destroy (name
    and identity). StepFailed where the record cannot be written: nothing is done then.
    """
    record = state.record
    changed = note_service(state, selected_regions(state, host.desired), host.desired.serves)
    if host.desired.mode == "cxl":
        changed = note_cxl_service(state, host.desired.serves) or changed
    if changes.steps:
        named = state.identities()
        record.approved.update({name: named[name] for name in changes.destroys})
        changed = changed or bool(record.approved) or not record.blank
    if changed:
        save_record(record, host.files.record)


def _check_approved(step: Step, state: State) -> None:
    """A name may belong to another namespace by now: what goes is what was confirmed."""
    for name in step.destroys:
        identity = state.identities().get(name)
        if identity is None or state.record.approved.get(name) != identity:
            raise StepFailed(
                name, "it is no longer the namespace that was confirmed", "run --check again"
            )


def _forget(step: Step, record: Record, files: Files) -> None:
    """Record what has been destroyed: it can not be destroyed again under its old name."""
    if not step.destroys:
        return
    for name in step.destroys:
        record.approved[name] = _DONE
    save_record(record, files.record)


def _close(record: Record, desired: DesiredState, files: Files) -> None:
    """All is as wanted: nothing is under way any more, and after a teardown nothing is ours."""
    if desired.mode == "teardown" and desired.regions is None:
        record = Record(zeroed=record.zeroed)
    elif desired.mode == "teardown":
        for region in desired.regions or ():
            record.before.pop(region, None)
    record.approved = {}
    if files.record.exists():
        save_record(record, files.record)


def drift(state: State, desired: DesiredState, kernel: Kernel = LIVE) -> list[Refusal]:
    """Return the deviations from the desired state."""
    if desired.mode == "memory-mode":
        return _memory_mode(state, desired)
    if desired.mode == "teardown":
        return _teardown(state, desired)
    if desired.mode == "cxl":
        return _cxl(state, desired, kernel)
    refusals = []
    for region in selected_regions(state, desired):
        refusals += _region(state, region, desired, kernel)
    if desired.mode == "system-ram":
        for device in selected_devices(ChangeBuilder(state, desired)):
            refusals += _memory_node(state, device.name, kernel)
    return refusals


def _region(state: State, region: Region, desired: DesiredState, kernel: Kernel) -> list[Refusal]:
    namespace = find_existing(state, region, desired)
    if namespace is None:
        return [_other(region.name, f"no namespace in it is {desired.namespace_mode}")]
    if desired.has_filesystem:
        return _directory(region, namespace.name, desired, kernel)
    facts = _facts_of_device(namespace.chardev, kernel)
    if facts is None:
        return [_other(namespace.name, "the kernel has no DAX device of it")]
    if desired.serves == "devdax":
        if not facts.dax:
            return [_other(str(facts.device), f"no device to map: {facts.notes}")]
        return _node(state, namespace, desired)
    return _memory_node(state, str(namespace.chardev), kernel)


def _directory(region: Region, name: str, desired: DesiredState, kernel: Kernel) -> list[Refusal]:
    point = mount_point(desired, region)
    try:
        facts = facts_of_directory(point, kernel)
    except OSError as error:
        return [_other(point, str(error))]
    fsdax = "fsdax" if desired.dax else "fs-nodax"
    kind = "sector" if desired.mode == "sector" else fsdax
    if facts.mount_point != point or facts.namespace != name:
        return [_other(point, f"it is on {facts.device}, not on {name}")]
    if facts.kind != kind:
        return [_other(point, f"the kernel says {facts.kind} (statx DAX: {facts.dax}), not {kind}")]
    if facts.filesystem != desired.filesystem:
        return [_other(point, f"it has {facts.filesystem}, not {desired.filesystem}")]
    if facts.block_size_bytes != desired.block_size:
        deviation = f"its blocks have {facts.block_size_bytes} bytes, not {desired.block_size}"
        return [_other(point, deviation)]
    return []


def _node(state: State, namespace: Namespace, desired: DesiredState) -> list[Refusal]:
    """Check the device's owner, if one is expected."""
    owner, name = expected_owner(state, namespace, desired), str(namespace.chardev)
    if owner is None or state.nodes.get(name) == (*owner, SHARED_MODE):
        return []
    return [_other(f"/dev/{name}", f"user, group and mode are {state.nodes.get(name)}")]


def _facts_of_device(chardev: str | None, kernel: Kernel) -> TierFacts | None:
    try:
        return facts_of_devdax(chardev or "none", kernel)
    except OSError:
        return None


def _memory_node(state: State, name: str, kernel: Kernel) -> list[Refusal]:
    device = next((each for each in state.dax if each.name == name), None)
    if device is None or device.mode != "system-ram" or device.target_node is None:
        return [_other(name, f"daxctl says {device.mode if device else 'there is none'}")]
    try:
        facts = facts_of_numa(device.target_node, kernel)
    except LookupError as error:
        return [_other(name, str(error))]
    if not facts.size_bytes:
        return [_other(f"node {device.target_node}", "it has no memory")]
    return []


def _cxl(state: State, desired: DesiredState, kernel: Kernel) -> list[Refusal]:
    """Compare with sysfs: regions, drivers, nodes and the zones of their memory."""
    refusals = []
    for group, region in cxl_regions.selected_regions(ChangeBuilder(state, desired)):
        name = ", ".join(device.name for device in group)
        if region is None or not region.active:
            refusals.append(_other(name, "no committed region is over it"))
            continue
        nd_region = state.nd_region_of(region)
        if region.type == "pmem" and nd_region is None:
            refusals.append(_other(region.name, "ndctl does not list it"))
        elif nd_region is not None:
            refusals += _region(state, nd_region, desired, kernel)
        for device in state.dax_of(region):
            refusals += _cxl_device(state, device, desired, kernel)
        if region.type == "ram" and not state.dax_of(region):
            refusals.append(_other(region.name, "it has no DAX device"))
    return refusals


def _cxl_device(
    state: State, device: DaxDevice, desired: DesiredState, kernel: Kernel
) -> list[Refusal]:
    if desired.serves == "devdax":
        facts = _facts_of_device(device.name, kernel)
        if facts is None or not facts.dax:
            return [_other(device.name, "no device to map")]
        return []
    if refusals := _memory_node(state, device.name, kernel):
        return refusals
    if device.movable is (not desired.movable):
        return [_other(device.name, f"daxctl says movable is {device.movable}")]
    return []


def _memory_mode(state: State, desired: DesiredState) -> list[Refusal]:
    goals = state.goals
    if goals and requested_goal(desired).is_met(goals):
        return []
    deviation = f"{goals.volatile_bytes} bytes are memory" if goals else "ipmctl was not run"
    return [_other("goal", deviation)]


def _teardown(state: State, desired: DesiredState) -> list[Refusal]:
    refusals = []
    regions = [region.name for region in selected_regions(state, desired)]
    for namespace in state.inventory.namespaces:
        if namespace.region in regions and state.is_ours(namespace):
            refusals.append(_other(namespace.name, "it is ours and still there"))
    if desired.regions is None:
        refusals += [_other(each.name, "it is still memory") for each in ours(state)]
        refusals += [
            _other(each.name, "it is ours and still there")
            for each in state.fabric.regions
            if state.is_our_region(each)
        ]
    return refusals


def _other(object: str, deviation: str) -> Refusal:
    return Refusal(object, f"deviates: {deviation}", "run the playbook with --check")
