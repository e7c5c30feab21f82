"""Open a database with a RocksDB library and some options; a program of its own.

::

    python probe.py < {"library": "…/librocksdb.so", "options": "write_buffer_size=1048576;…",
                       "row_cache_bytes": 0, "folder": "…", "user": [65534, 65534]}
    {"error": "", "log": "…", "options_file": "…", "block_cache_bytes": 33554432}

The library opens an empty database in ``folder``, which belongs to that user. Its log there
contains the version and the size of the row cache; its OPTIONS file contains the options that it
uses, except for the size of the block cache, which is a property (null: none, or not opened). It
needs the standard library only. It is a separate process because a library that does not fit this
machine may crash it, and unprivileged (``user``: numeric user and group, if the harness is root)
because the user may name any library.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

_POINTER = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_CAPACITY = b"rocksdb.block-cache-capacity"
#: Functions of <rocksdb/c.h>: result and arguments.
_FUNCTIONS = {
    "rocksdb_options_create": (_POINTER, ()),
    "rocksdb_options_destroy": (None, (_POINTER,)),
    "rocksdb_options_set_create_if_missing": (None, (_POINTER, ctypes.c_ubyte)),
    "rocksdb_get_options_from_string": (
        None,
        (_POINTER, _TEXT, _POINTER, ctypes.POINTER(_TEXT)),
    ),
    "rocksdb_open": (_POINTER, (_POINTER, _TEXT, ctypes.POINTER(_TEXT))),
    "rocksdb_property_int": (ctypes.c_int, (_POINTER, _TEXT, ctypes.POINTER(ctypes.c_uint64))),
    "rocksdb_close": (None, (_POINTER,)),
}
#: The same, for a row cache.
_ROW_CACHE_FUNCTIONS = {
    "rocksdb_cache_create_lru": (_POINTER, (ctypes.c_size_t,)),
    "rocksdb_cache_destroy": (None, (_POINTER,)),
    "rocksdb_options_set_row_cache": (None, (_POINTER, _POINTER)),
}


def main() -> int:
    """Read one request from stdin, write its answer to stdout."""
    request = json.load(sys.stdin)
    if request["user"]:
        user, group = request["user"]
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    folder, cache = request["folder"], None
    try:
        error, cache = _open(request, folder)
    except (OSError, AttributeError) as missing:  # no library, or without the C interface
        error = str(missing)
    print(
        json.dumps(
            {
                "error": error,
                "log": _text(folder, "LOG"),
                "options_file": _text(folder, "OPTIONS-*"),
                "block_cache_bytes": cache,
            }
        )
    )
    return 0


def _open(request: dict[str, Any], folder: str) -> tuple[str, int | None]:
    """Open and close a database; returns RocksDB's error ("": none) and the block cache's size."""
    rocksdb = ctypes.CDLL(request["library"])
    options, rows = request["options"], request["row_cache_bytes"]
    missing = [name for name in _ROW_CACHE_FUNCTIONS if not hasattr(rocksdb, name)]
    if rows and missing:
        return f"row_cache: {request['library']} has no function {missing[0]}", None
    for name, (returned, taken) in {**_FUNCTIONS, **(_ROW_CACHE_FUNCTIONS if rows else {})}.items():
        function = getattr(rocksdb, name)
        function.restype, function.argtypes = returned, taken
    error, size, cache = ctypes.c_char_p(), ctypes.c_uint64(), None
    plain, parsed = rocksdb.rocksdb_options_create(), rocksdb.rocksdb_options_create()
    rocksdb.rocksdb_options_set_create_if_missing(plain, 1)
    rocksdb.rocksdb_get_options_from_string(plain, options.encode(), parsed, ctypes.byref(error))
    if not error.value:
        if rows:
            made = rocksdb.rocksdb_cache_create_lru(rows)
            rocksdb.rocksdb_options_set_row_cache(parsed, made)
            rocksdb.rocksdb_cache_destroy(made)  # the options keep it
        database = rocksdb.rocksdb_open(parsed, folder.encode(), ctypes.byref(error))
        if database:
            if not rocksdb.rocksdb_property_int(database, _CAPACITY, ctypes.byref(size)):
                cache = size.value
            rocksdb.rocksdb_close(database)
    return (error.value or b"").decode(errors="replace"), cache


def _text(folder: str, pattern: str) -> str:
    files = sorted(Path(folder).glob(pattern))
    return files[-1].read_text(errors="replace") if files else ""


if __name__ == "__main__":
    sys.exit(main())
