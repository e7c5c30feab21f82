#!/usr/bin/python
"""Ansible module: set what affects results on a host, with every old value on record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

if TYPE_CHECKING:
    from tierbench import commands, host_settings, record
else:
    from ansible.module_utils.tierbench import commands, host_settings, record


def main() -> None:
    """Set or restore the settings that Ansible names."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["set", "restored"], "default": "set"},
            "settings": {"type": "dict", "default": {}},
            "record": {"type": "path", "default": "/var/lib/harness/host-settings.json"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    host = host_settings.Host(module.params["root"])
    result: dict[str, Any] = {
        "changed": False,
        "steps": [],
        "missing": [],
        "refusals": [],
        "recorded": [],
    }
    try:
        _run(module, host, result)
    except commands.Refused as refused:
        result["refusals"], result["changed"] = [vars(refused.refusal)], False
        module.exit_json(**result)
    except OSError as error:
        result["changed"] = bool(result["steps"]) and not module.check_mode
        module.fail_json(msg=str(error), **result)
    module.exit_json(**result)


def _run(module: Any, host: host_settings.Host, result: dict[str, Any]) -> None:
    if module.check_mode:
        _plan_and_do(module, host, result)
        return
    with record.locked(Path(module.params["record"]), wait=True):
        _plan_and_do(module, host, result)


def _plan_and_do(module: Any, host: host_settings.Host, result: dict[str, Any]) -> None:
    """Fill ``result``; change the host unless in check mode."""
    values = host_settings.Record(module.params["record"], host)
    restoring = module.params["state"] == "restored"
    if restoring:
        changes = host_settings.plan_restore(values, host)
    else:
        chosen, missing = host_settings.find_settings(module.params["settings"], host)
        result["missing"] = [each.to_json() for each in missing]
        changes = host_settings.plan(chosen, host)
    result["steps"] = [change.to_json() for change in changes]
    result["changed"] = bool(changes)
    if not module.check_mode:
        if restoring:
            host_settings.restore(values, host)
        else:
            host_settings.apply(changes, values, host)
    shown = ("key", "what", "old", "new")
    result["recorded"] = [
        {name: getattr(entry, name) for name in shown} for entry in values.entries
    ]
    result["gone_with_the_boot"] = values.gone_with_the_boot


if __name__ == "__main__":
    main()
