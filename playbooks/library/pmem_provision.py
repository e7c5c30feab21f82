#!/usr/bin/python
"""Ansible module: read persistent memory, plan, act on what is confirmed, verify."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: pmem_provision
short_description: Provision persistent memory, one verified step at a time
description:
  - Reads the host's state (ndctl, daxctl, ipmctl, blkid, kernel), plans changes, carries them out.
  - Destroys only what O(destroy) names, only with O(confirm_destroy); what is mounted, in use,
    has a foreign label or a foreign file system is refused even so.
  - A file system is made without that only on a namespace that the same run has made.
  - In check mode, and with O(verify_only), nothing is changed.
options:
  desired_state:
    description: C(mode) and that mode's settings, as the roles document them.
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
    description: Whether O(destroy) is one list for several hosts, which is refused.
    type: bool
    default: false
  verify_only:
    description: Change nothing; the steps are the deviations.
    type: bool
    default: false
  host_file:
    description: File of the host's tiers.
    type: path
    default: /etc/harness/host.yml
  record:
    description: File that lists the earlier state and the objects created.
    type: path
    default: /var/lib/harness/provisioning.json
author:
  - The tierbench developers
"""

EXAMPLES = r"""
- name: Ensure one fsdax namespace a region, with ext4 and DAX
  pmem_provision:
    desired_state: {mode: appdirect, regions: all, filesystem: ext4, dax: true}
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
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule

if TYPE_CHECKING:
    from tierbench.commands import Commands
    from tierbench.run import Consent, run
    from tierbench.state import Files
else:
    from ansible.module_utils.tierbench.commands import Commands
    from ansible.module_utils.tierbench.run import Consent, run
    from ansible.module_utils.tierbench.state import Files


def main() -> None:
    """Run and report everything; the role ``verdict`` fails the play where needed."""
    module = AnsibleModule(
        argument_spec={
            "desired_state": {"type": "dict", "required": True},
            "confirm_destroy": {"type": "bool", "default": False},
            "destroy": {"type": "list", "elements": "str", "default": []},
            "several_hosts": {"type": "bool", "default": False},
            "verify_only": {"type": "bool", "default": False},
            "host_file": {"type": "path", "default": "/etc/harness/host.yml"},
            "record": {"type": "path", "default": "/var/lib/harness/provisioning.json"},
        },
        supports_check_mode=True,
    )
    params = module.params
    consent = Consent(
        confirm_destroy=params["confirm_destroy"],
        destroy=tuple(params["destroy"]),
        several_hosts=params["several_hosts"],
        change=not module.check_mode,
        verify_only=params["verify_only"],
    )
    files = Files(record=Path(params["record"]), host_file=Path(params["host_file"]))
    outcome = run(params["desired_state"], consent, Commands(), files).to_json()
    module.exit_json(changed=outcome["changed"], ansible_facts={"provisioning": outcome})


if __name__ == "__main__":
    main()
