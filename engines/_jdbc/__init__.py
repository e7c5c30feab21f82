"""Engines that speak SQL, inside the official YCSB client: through their JDBC drivers."""

from engines._jdbc.binding import ThroughJdbc, innodb_properties, postgres_properties

__all__ = ["ThroughJdbc", "innodb_properties", "postgres_properties"]
