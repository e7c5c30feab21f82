"""Tiers: places where bytes live, their facts read from the kernel.

The package ``linux`` also runs on hosts, as part of the playbooks' modules
(``module_utils`` in playbooks/ansible.cfg), where no ``harness`` is installed: its modules import
one another relatively, and the standard library.
"""
