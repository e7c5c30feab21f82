"""Models of devices: how long each file operation would take on a device that is not there.

``device.py`` reads a model, ``table.py`` writes it into the page of the I/O trace.
"""
