"""Imported in the test machine when its python3 starts: keeps what Python compiles of zip files.

Ansible sends modules as sources in a zip file, which Python compiles at each run: seconds on an
emulated processor. Without pathlib, whose import is slow there.
"""

# ruff: noqa: PTH103, PTH105, PTH123

import _imp
import marshal
import os
import zipimport

_FOLDER = "/var/cache/compiled"
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
