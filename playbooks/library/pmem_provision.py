#!/usr/bin/python
"""Ansible module: read persistent memory, plan, act on what is confirmed, verify."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: pmem_provision
short_description: Provision persistent memory, one verified step at a time
description:
  - Reads what the host has (ndctl, daxctl, ipmctl, blkid, kernel), plans, and carries the plan out.
  - Destroys only what O(destroy) names, and only with O(confirm_destroy); what is mounted, in use,
    named by somebody else, or holds a file system that is not ours is refused even so.
  - A file system is made without that only on a namespace that the same run has made.
  - In check mode, and with O(verify_only), nothing is changed.
options:
  wish:
    description: What is wanted; C(mode) and that mode's settings, as the roles document them.
    type: dict
    required: true
  confirm_destroy:
    description: Whether what O(destroy) names may be destroyed.
    type: bool
    default: false
  destroy:
    description: The exact names of what the plan destroys.
    type: list
    elements: str
    default: []
  several_hosts:
    description: Whether O(destroy) was written for more than one host, which is refused.
    type: bool
    default: false
  verify_only:
    description: Change nothing; what is planned is what deviates.
    type: bool
    default: false
  host_file:
    description: File of the host's tiers.
    type: path
    default: /etc/harness/host.yml
  record:
    description: File of what was there before and of what we made.
    type: path
    default: /var/lib/harness/provisioning.json
author:
  - The tierbench developers
"""

EXAMPLES = r"""
- name: Ensure one fsdax namespace a region, with ext4 and DAX
  pmem_provision:
    wish: {mode: appdirect, regions: all, filesystem: ext4, dax: true}
    confirm_destroy: true
    destroy: [namespace0.0]
"""

RETURN = r"""
ansible_facts:
  description: >-
    C(provisioning): mode; steps, each with do, object, why, command, destroys (names) and done;
    destroy (names of all that the plan destroys) and confirmed; refusals and failures, each with
    object, why, do; notes; changed; reboot_needed; missing_tools and missing_packages; tiers (what
    the host file says of ours); state (regions, namespaces, mounts as read last).
  returned: always
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.tierbench.commands import Commands
from ansible.module_utils.tierbench.run import Consent, run
from ansible.module_utils.tierbench.state import Files


def main() -> None:
    """Run, and tell everything: what is refused or failed is judged by the role ``verdict``."""
    module = AnsibleModule(
        argument_spec={
            "wish": {"type": "dict", "required": True},
            "confirm_destroy": {"type": "bool", "default": False},
            "destroy": {"type": "list", "elements": "str", "default": []},
            "several_hosts": {"type": "bool", "default": False},
            "verify_only": {"type": "bool", "default": False},
            "host_file": {"type": "path", "default": "/etc/harness/host.yml"},
            "record": {"type": "path", "default": "/var/lib/harness/provisioning.json"},
        },
        supports_check_mode=True,
    )
    asked = module.params
    leave = Consent(
        confirm_destroy=asked["confirm_destroy"],
        destroy=tuple(asked["destroy"]),
        several_hosts=asked["several_hosts"],
        change=not module.check_mode,
        verify_only=asked["verify_only"],
    )
    files = Files(record=Path(asked["record"]), host_file=Path(asked["host_file"]))
    outcome = run(asked["wish"], leave, Commands(), files).to_json()
    module.exit_json(changed=outcome["changed"], ansible_facts={"provisioning": outcome})


if __name__ == "__main__":
    main()
