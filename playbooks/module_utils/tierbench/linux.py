"""The harness's code on storage and memory in Linux, as a module imports it.

``ansible.cfg`` names the folder that has it among the paths of ``module_utils``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.tiers.linux import block, ext4, kernel, model, mounts, numa, pmem, probe
else:
    from ansible.module_utils.linux import block, ext4, kernel, model, mounts, numa, pmem, probe

LIVE = kernel.LIVE
EXT4_EAGER = ext4.EAGER
Kernel = kernel.Kernel
Mount = mounts.Mount
Stack = block.Stack
TierFacts = model.TierFacts
all_mounts = mounts.mounts
dax_origin = numa.dax_origin
facts_of_devdax = probe.facts_of_devdax
facts_of_directory = probe.facts_of_directory
facts_of_numa = probe.facts_of_numa
memory_nodes = numa.nodes
namespace_of = pmem.namespace_of
resource_table = pmem.resource_table
stack_of = block.stack_of
stacks_of = probe.stacks_of
