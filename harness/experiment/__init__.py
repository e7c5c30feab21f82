"""Experiments: profiles expanded to runs, checked before anything is touched."""
