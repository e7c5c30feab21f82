"""MySQL as an engine: see engines._innodb."""

from __future__ import annotations

from engines._innodb.engine import InnoDBFactory
from harness.engine import EngineFactory

ENGINE: EngineFactory = InnoDBFactory("mysql")
