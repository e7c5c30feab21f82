"""MariaDB as an engine: see harness.engines._innodb."""

from __future__ import annotations

from harness.engine import EngineFactory
from harness.engines._innodb.engine import InnoDBFactory

ENGINE: EngineFactory = InnoDBFactory("mariadb")
