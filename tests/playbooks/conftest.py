"""The playbooks' own code, importable as a module on the target imports it."""

import sys
from pathlib import Path

import ansible.module_utils

ROOT = Path(__file__).parents[2]
PLAYBOOKS = ROOT / "playbooks"
sys.path.insert(0, str(PLAYBOOKS / "module_utils"))
ansible.module_utils.__path__.append(str(ROOT / "harness" / "tiers"))
