"""The native client as a driver."""
