"""The host: its facts, its memory mode, and what about it nobody controls."""
