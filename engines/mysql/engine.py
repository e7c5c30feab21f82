"""MySQL: see engines._innodb."""

from __future__ import annotations

from engines._innodb.engine import factory

ENGINE = factory("mysql")
