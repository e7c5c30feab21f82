"""The playbooks' own code, importable as a module on the target imports it."""

import sys
from pathlib import Path

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
sys.path.insert(0, str(PLAYBOOKS / "module_utils"))
