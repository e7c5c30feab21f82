"""The harness's code on storage and memory in Linux, as a module imports it.

``ansible.cfg`` names the folder that has it among the paths of ``module_utils``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.tiers.linux.block import Stack, stack_of
    from harness.tiers.linux.ipmctl import resource_table
    from harness.tiers.linux.kernel import LIVE, Kernel
    from harness.tiers.linux.model import TierFacts
    from harness.tiers.linux.mounts import Mount, mounts
    from harness.tiers.linux.numa import dax_origin
    from harness.tiers.linux.pmem import namespace_of
    from harness.tiers.linux.probe import (
        facts_of_devdax,
        facts_of_directory,
        facts_of_numa,
        stacks_of,
    )
else:
    from ansible.module_utils.linux.block import Stack, stack_of
    from ansible.module_utils.linux.ipmctl import resource_table
    from ansible.module_utils.linux.kernel import LIVE, Kernel
    from ansible.module_utils.linux.model import TierFacts
    from ansible.module_utils.linux.mounts import Mount, mounts
    from ansible.module_utils.linux.numa import dax_origin
    from ansible.module_utils.linux.pmem import namespace_of
    from ansible.module_utils.linux.probe import (
        facts_of_devdax,
        facts_of_directory,
        facts_of_numa,
        stacks_of,
    )

__all__ = [
    "LIVE",
    "Kernel",
    "Mount",
    "Stack",
    "TierFacts",
    "dax_origin",
    "facts_of_devdax",
    "facts_of_directory",
    "facts_of_numa",
    "mounts",
    "namespace_of",
    "resource_table",
    "stack_of",
    "stacks_of",
]
