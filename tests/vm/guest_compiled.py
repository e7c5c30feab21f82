"""Imported when Python starts: keeps what it compiles of zip files, next to this file.

Ansible sends modules as sources in a zip file, which Python compiles at each run: a fifth of a
small task's time, and seconds on the emulated processor of the test machine. Without pathlib, whose
import is slow there.
"""

# ruff: noqa: PTH103, PTH105, PTH123

import _imp
import marshal
import os
import zipimport

_FOLDER = f"{__file__}.d"
_compile = zipimport._compile_source  # type: ignore[attr-defined]


def _compiled(path, source):
    """Return the code of a source, found by the hash that Python has for sources."""
    name = f"{_FOLDER}/{_imp.source_hash(0, source).hex()}"
    try:
        with open(name, "rb") as file:
            return marshal.load(file)
    except OSError:
        code = _compile(path, source)
    os.makedirs(_FOLDER, exist_ok=True)
    with open(made := f"{name}.{os.getpid()}", "wb") as file:
        marshal.dump(code, file)
    os.replace(made, name)
    return code


zipimport._compile_source = _compiled  # type: ignore[attr-defined]
