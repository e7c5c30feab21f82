"""Engines: one folder each."""
