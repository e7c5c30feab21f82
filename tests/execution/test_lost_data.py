"""Another program removes a run's files while it is measured, as RemoveIPC does at logout."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine import DataDirectories
from harness.errors import RunFailed
from harness.execution.runner import naming_lost_data


@pytest.mark.parametrize("left", ["all", "the directory"])
@pytest.mark.parametrize("also", ["", "the server ended"])
def test_removed_files_are_named(tmp_path: Path, left: str, also: str) -> None:
    data = tmp_path / "data"
    (data / "base").mkdir(parents=True)
    (data / "base" / "1").write_text("rows")
    places = DataDirectories({"data": data})

    def run() -> None:
        with naming_lost_data(lambda: places, None):
            if left == "the directory":
                (data / "base" / "1").unlink()
            if also:
                raise RunFailed("query", also)

    if left == "all" and not also:
        run()
        return
    with pytest.raises(RunFailed) as failure:
        run()
    assert also in failure.value.context
    assert (str(data) in failure.value.context) == (left == "the directory")


def test_what_was_not_restored_yet_is_not_missed() -> None:
    with naming_lost_data(lambda: None, None):
        pass
