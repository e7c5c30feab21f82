"""Tiers: places where bytes live, their facts read from the kernel.

``kernel``, ``mounts``, ``block``, ``pmem``, ``numa``, ``model`` and ``probe`` are also what the
playbooks ask a host with (playbooks/module_utils/tierbench/tiers is a link here), where no
``harness`` is installed: they import one another relatively, and the standard library.
"""
