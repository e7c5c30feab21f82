#!/usr/bin/python
"""Ansible module: read persistent memory, plan, act on what is confirmed, verify."""

from __future__ import annotations

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
            "install_tools": {"type": "bool", "default": True},
            "installed_packages": {"type": "list", "elements": "str", "default": []},
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
        install_tools=params["install_tools"],
    )
    files = Files(record=Path(params["record"]), host_file=Path(params["host_file"]))
    installed = params["installed_packages"]
    outcome = run(
        params["desired_state"], consent, Commands(), files, installed_packages=installed
    ).to_json()
    module.exit_json(changed=outcome["changed"], ansible_facts={"provisioning": outcome})


if __name__ == "__main__":
    main()
