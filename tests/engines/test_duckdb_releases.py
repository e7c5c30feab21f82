"""DuckDB of an older release, from PyPI: the VLDB 2023 paper's (0.6.1)."""

import sys
from contextlib import closing

import pytest
from lab import execute

from engines.duckdb.installation import choose
from harness import install, paths
from harness.engine import CannotExplain, LoadRequest
from harness.errors import RunFailed, UsageError
from harness.progress import SilentProgress

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="PyPI has DuckDB 0.6.1 for Python 3.11 at most"
)


@pytest.fixture(scope="module")
def release():
    """Installs it where it is missing, which needs the package index."""
    try:
        install.install("duckdb", paths.engines_prefix(), SilentProgress(), version="0.6.1")
    except RunFailed as error:
        pytest.skip(str(error))
    return {"version": "0.6.1"}


def test_the_paper_s_release_loads_answers_and_keeps_its_data(lab, release, tpch_parquet):
    settings = {"memory_limit": "128MB", "threads": "1"}
    engine = lab.started("duckdb", settings, options=release)
    assert engine.version().version == "0.6.1"
    assert engine.version().build == "0.6.1 919cad22e8"
    request = LoadRequest(
        engine.sql("tpch"), tpch_parquet.files, tpch_parquet.row_counts, SilentProgress()
    )
    engine.bulk_load(request)
    rows = tpch_parquet.row_counts["lineitem"]
    assert execute(engine, "select count(*) from lineitem") == [(rows,)]
    engine.stop()
    engine.start()
    assert execute(engine, "select count(*) from lineitem") == [(rows,)]
    assert engine.effective_config()["threads"] == "1"
    with closing(engine.connect()) as connection, pytest.raises(CannotExplain):
        engine.explain(connection, "select 1")


def test_a_time_limit_ends_its_process(lab, release):
    engine = lab.started("duckdb", options=release, fresh=True)
    with (
        closing(engine.connect()) as connection,
        pytest.raises(RunFailed, match="cannot interrupt"),
    ):
        connection.execute(
            "select count(*) from range(100000000) a, range(100000) b", timeout_s=0.2
        )


def test_sizes_are_spelled_as_the_release_reads_them(release):
    installation = choose(release, paths.engines_prefix())
    assert installation.spelled({"memory_limit": "64KiB", "threads": "2"}) == {
        "memory_limit": "65536B",
        "threads": "2",
    }
    assert not installation.error_of({"memory_limit": "65536B"})
    assert installation.error_of({"memory_limit": "64KiB"})


def test_what_is_no_package_is_refused(tmp_path):
    with pytest.raises(UsageError):
        choose({"prefix": str(tmp_path)}, paths.engines_prefix())
    (tmp_path / "duckdb").mkdir()  # of which Python makes nothing, and takes the harness's own
    with pytest.raises(UsageError):
        choose({"prefix": str(tmp_path)}, paths.engines_prefix())
    with pytest.raises(UsageError):
        choose({"version": "0.1"}, paths.engines_prefix())


def test_a_folder_is_named_from_where_the_command_runs(release, monkeypatch):
    folder = choose(release, paths.engines_prefix()).folder
    assert folder is not None
    monkeypatch.chdir(folder.parent)
    installation = choose({"prefix": folder.name}, paths.engines_prefix())
    assert (installation.version, installation.folder) == (release["version"], folder)
