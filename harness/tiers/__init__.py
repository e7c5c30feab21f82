"""Tiers: places where bytes live, their facts read from the kernel."""
