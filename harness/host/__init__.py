"""The host: its facts, memory mode and settings that affect results."""
