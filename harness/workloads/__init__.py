"""Workloads: one folder each."""
