"""Makes the playbooks' own code importable, and Ansible's modules start quickly."""

import os
from contextlib import suppress
from pathlib import Path

import playbook_modules  # noqa: F401
import pytest
from scratch import session_directory


@pytest.fixture(scope="module", autouse=True)
def compiled_modules():
    """Let Python keep what it compiles of Ansible's modules, as in the test machine."""
    folder = session_directory() / "compiled"
    folder.mkdir(exist_ok=True)
    with suppress(FileExistsError):  # another worker's
        (folder / "sitecustomize.py").symlink_to(
            Path(__file__).parents[1] / "vm" / "guest_compiled.py"
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield
