"""Engines that speak SQL, inside the official YCSB client: through their JDBC drivers."""
