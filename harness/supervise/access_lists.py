"""Access control lists of files (acl(5)), as Linux stores them in extended attributes.

<linux/posix_acl_xattr.h>: a version, then entries.
"""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

ACL, DEFAULT_ACL = "system.posix_acl_access", "system.posix_acl_default"
_ACL_ENTRY = struct.Struct("<HHI")
_ACL_HEADER_BYTES = 4
WRITE = 2
USER, GROUP_OBJ, GROUP, _ACL_MASK, OTHER = 0x02, 0x04, 0x08, 0x10, 0x20


def access_list(descriptor: int, name: str) -> list[tuple[int, int, int]] | None:
    """Tag, permissions (within the mask) and id of each entry; None where there is no list.

    Through /proc: a descriptor that needs no right to read is not accepted by fgetxattr(2).
    """
    try:
        content = os.getxattr(f"/proc/self/fd/{descriptor}", name)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return None
        raise
    entries: list[tuple[int, int, int]] = list(_ACL_ENTRY.iter_unpack(content[_ACL_HEADER_BYTES:]))
    mask = next((permissions for tag, permissions, _ in entries if tag == _ACL_MASK), 7)
    masked = (USER, GROUP_OBJ, GROUP)
    return [(tag, bits & mask if tag in masked else bits, who) for tag, bits, who in entries]


def drop_acl(path: Path) -> None:
    """Remove the access control lists of a file or directory of our own."""
    for name in (ACL, DEFAULT_ACL):
        try:
            os.removexattr(path, name, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.ENOTSUP):
                raise
