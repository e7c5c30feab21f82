"""What all tests share: the engines that `make setup` installed."""

from __future__ import annotations

import os

from harness import paths

# Tests put their data elsewhere; the installed engines stay where set-up put them.
os.environ.setdefault("HARNESS_ENGINES", str(paths.engines_prefix()))
