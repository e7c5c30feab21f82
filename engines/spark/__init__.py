"""Spark SQL: a driver process of ours, alone or with the executors of a cluster."""
