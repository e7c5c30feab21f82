"""POSIX access control lists, written without ``setfacl``."""

import os
import struct


def write_acl(path, tag, who, permissions, default=False):
    """Do as ``setfacl -m TAG:WHO:PERMISSIONS`` (with ``-d``), which may not be installed."""
    bits = sum(bit for letter, bit in zip("rwx", (4, 2, 1), strict=True) if letter in permissions)
    nothing = 2**32 - 1
    entries = [(1, 7, nothing), (4, 5, nothing), (0x10, 7, nothing), (0x20, 5, nothing)]
    entries += [({"user": 2, "group": 8}[tag], bits, who)]
    packed = [struct.pack("<HHI", *entry) for entry in sorted(entries)]
    name = f"system.posix_acl_{'default' if default else 'access'}"
    os.setxattr(path, name, struct.pack("<I", 2) + b"".join(packed))
