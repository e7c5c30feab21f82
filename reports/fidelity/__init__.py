"""One page per paper: its published numbers next to those of this host."""
