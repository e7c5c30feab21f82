"""The memory policy of a run, in force while its engine runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from harness.engine import MemoryPolicy
from harness.errors import UsageError
from harness.execution.environment import Environment
from harness.iotrace.page import LIBRARY
from harness.native_programs import find_native
from harness.supervise.linux import set_memory_policy
from harness.tiers.memory_policy import means_of, nearer_slower, weights_in_force
from harness.warnings import RunWarning


def check_memory_policy(
    policy: MemoryPolicy | None, engine: str, traced: bool, cpus: Collection[int] = ()
) -> tuple[RunWarning, ...]:
    """Warnings of a policy; UsageError where Linux or the engine cannot have it.

    ``traced``: whether libraries can be preloaded into the engine. ``cpus``: the engine's
    processors, empty for all.
    """
    if policy is None:
        return ()
    if refused := _refused(policy):
        raise UsageError(
            f"memory of {engine}", refused, "give the container the capability SYS_NICE"
        )
    means = means_of(policy)
    warnings = (*means.warnings, *nearer_slower(policy, cpus))
    if not means.preloaded:
        return warnings
    reason = ""
    if not traced:
        reason = f"no library can be preloaded into {engine}"
    elif find_native(LIBRARY) is None:
        reason = f"{LIBRARY} was not built: install the harness again (make setup)"
    if not reason:
        return warnings
    if policy.mode == "weighted":
        raise UsageError(
            f"weighted memory of {engine}",
            f"Linux interleaves by no such weights here, and {reason}",
            "use Linux 6.9 or later and root, or memory=interleave:…",
        )
    shared = RunWarning(
        "shared-memory-not-tiered",
        f"{engine}'s shared memory stays where it was allocated: Linux moves none without a policy "
        "of its own",
        reason,
        "compare with memory=preferred:TIER",
    )
    return (*warnings, shared)


def _refused(policy: MemoryPolicy) -> str:
    """Return why a policy cannot be set here, as in most containers; empty where it can."""
    with ThreadPoolExecutor(1) as thread:  # whose policy it is
        try:
            thread.submit(set_memory_policy, policy.mode, policy.nodes).result()
        except PermissionError as error:
            return str(error)
        except OSError:  # checked elsewhere, or a recorded host's nodes
            pass
    return ""


@contextmanager
def in_force(policy: MemoryPolicy, env: Environment) -> Iterator[MemoryPolicy]:
    """Set Linux as the policy needs it, until the end, however that comes.

    The policy as it is in force: with the weights that Linux has, or with the library.
    """
    means, journal = means_of(policy), env.supervisor.journal
    changed: list[int] = []
    try:
        for path, value in means.settings.items():
            changed.append(journal.change_setting(Path(path), value))
        library = find_native(LIBRARY) if means.preloaded else None
        if library is not None:
            with env.readable(library) as readable:
                yield replace(policy, library=readable)
        elif policy.mode == "weighted":
            yield replace(policy, weights=weights_in_force(policy))
        else:
            yield policy
    finally:
        for token in reversed(changed):
            journal.undo(token)


def policy_facts(policy: MemoryPolicy | None) -> dict[str, str]:
    """The entry of ``run_state``: how a policy that is not set_mempolicy(2) alone is in force."""
    if policy is None or policy.mode not in ("weighted", "tiered"):
        return {}
    nodes = ", ".join(map(str, policy.nodes))
    if policy.mode == "tiered":
        shared = "shared memory too" if policy.library else "no shared memory"
        return {"memory_policy": f"tiered on nodes {nodes}, {shared}"}
    by = "the preloaded library" if policy.library else "Linux"
    weights = ":".join(map(str, policy.weights))
    return {"memory_policy": f"nodes {nodes} by weights {weights}, by {by}"}
