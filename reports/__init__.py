"""Comparison, statistics, charts and reports over finished runs."""
