"""The playbooks' own code, importable as a module on the target imports it."""

import sys
from pathlib import Path

import ansible.module_utils

import harness
from harness.paths import data_folder

sys.path.insert(0, str(data_folder("playbooks") / "module_utils"))
ansible.module_utils.__path__.append(str(Path(harness.__file__).parent / "tiers"))
