"""What if a device were faster: planted delays as an experiment (docs/what-if.md)."""
