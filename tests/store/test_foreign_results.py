"""Root writes results, reports and exports where other users may write, or did before it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from example_run import SPEC, result
from scratch import open_directory
from watched import THIRD_UID, watched

from harness.errors import HarnessError
from harness.install.prefix import work_directory
from harness.store import index
from harness.store.documents import write_json_atomically
from harness.store.index import FILE
from harness.store.run_store import Store
from harness.store.transfer import import_runs
from harness.supervise import workdirs
from harness.supervise.own_files import make_own, owned_on_the_way, replacing
from harness.supervise.user_files import Credentials
from reports.page import write_page

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")

SECRET = "what only root may read"


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET)
    yield path
    assert path.read_text() == SECRET
    assert not (tmp_path / "new").exists()


@pytest.fixture
def shared(tmp_path):
    """A directory like /tmp."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def visible():
    """A directory that every user may enter."""
    with open_directory() as folder:
        yield folder


@pytest.fixture
def theirs(shared):
    """A directory of another user at the name that root is going to use."""
    folder = shared / "r"
    (folder / "runs").mkdir(parents=True)
    for path in (folder, folder / "runs"):
        os.chown(path, THIRD_UID, THIRD_UID)
    return folder


@pytest.mark.parametrize(
    "use",
    [
        lambda folder: Store(folder).refuse_foreign(),
        lambda folder: Store(folder).begin(SPEC),
        lambda folder: Store(folder).resume(SPEC, {}, print),
        lambda folder: import_runs(folder / "runs.tar.gz", Store(folder)),
        lambda folder: write_page(folder, "report", "", ()),
        lambda folder: make_own(folder / "calibrations"),
        lambda folder: write_json_atomically(folder / "answer.json", {}),
        lambda folder: replacing(folder / "runs.csv").__enter__(),
    ],
    ids=["use", "begin", "resume", "import", "page", "own", "json", "export"],
)
def test_a_directory_of_another_user_is_refused(theirs, secret, monkeypatch, use):
    monkeypatch.setattr("reports.page.render", lambda *_: "")
    (theirs / "run.json").symlink_to(secret)
    before = sorted(theirs.rglob("*"))
    with pytest.raises((HarnessError, PermissionError)) as refused:
        use(theirs)
    assert str(theirs) in str(refused.value)
    assert sorted(theirs.rglob("*")) == before


def test_the_command_refuses_it_before_anything_is_done(theirs):
    done = subprocess.run(
        [sys.executable, "-c", "from harness.cli import main; main()", "runs", "list",
         "--results", theirs],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert str(theirs) in done.stderr


def planted(folder: Path, names, secret):
    for name in names:
        link = folder / name
        link.symlink_to(secret if name != "new" else secret.with_name("new"))
        os.lchown(link, THIRD_UID, THIRD_UID)


def test_links_at_the_names_of_results_are_replaced_and_not_followed(shared, secret):
    names = ("run.json", ".run.json.partial", f".{FILE}.{os.getpid()}.partial", "export.csv")
    planted(shared, names, secret)
    for name in ("run.json", "export.csv"):
        # A sticky directory keeps the links of others: root itself may replace them.
        write_json_atomically(shared / name, {"a": 1})
        assert not (shared / name).is_symlink()
        assert (shared / name).stat().st_uid == 0


def test_an_index_is_written_again_past_a_planted_file(shared, secret):
    store = Store(shared / "r")
    writer = store.begin(SPEC)
    writer.finish(result(writer))
    planted(store.root, [f".{FILE}.{os.getpid()}.partial"], secret)
    assert len(store.runs()) == 1
    assert index.Index(store.root).entries.keys() == {writer.run_id}


def test_an_installation_of_the_servers_user_is_found(theirs, tmp_path):
    user = Credentials(THIRD_UID, THIRD_UID)
    assert owned_on_the_way(tmp_path, user) is None
    assert owned_on_the_way(theirs / "runs", user) == theirs
    (tmp_path / "venv").symlink_to(theirs)
    assert owned_on_the_way(tmp_path / "venv" / "runs", user) == theirs


def test_a_third_user_wins_nothing_of_what_is_made_for_helpers_and_results(visible):
    """Installations, probes, rewriting, playbooks, imports, reports, results: by their helpers."""
    shared, prefix = visible / "shared", visible / "engines"
    for folder, mode in ((shared, 0o1777), (prefix, 0o755)):
        folder.mkdir()
        folder.chmod(mode)
    with watched(shared, prefix) as third:
        for _ in range(20):
            with workdirs.temporary(), workdirs.temporary(shared, ".import"):
                pass
            with work_directory(prefix, "postgres-15.17"):
                pass
            with replacing(shared / "report.html") as file:
                file.write(b"page")
            write_json_atomically(shared / "run.json", {"a": 1})
            make_own(shared / "results" / "runs")
    assert third.seen >= 4 * 20


def test_a_third_user_wins_nothing_of_a_user_without_root():
    """In a child, which becomes another user: its directories lie in /tmp itself."""
    with watched() as third:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setgroups([])
                os.setgid(THIRD_UID - 1)
                os.setuid(THIRD_UID - 1)
                for _ in range(20):
                    with workdirs.temporary() as path:
                        (path / "server.log").write_text("…")
                        assert path.stat().st_mode & 0o777 == 0o700
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
    assert third.seen >= 20


def test_a_private_run_is_left_out_for_other_users(visible, capfd):
    store = Store(visible / "results")
    runs = []
    for mode in (0o700, 0o755):
        writer = store.begin(SPEC)
        writer.finish(result(writer), None, {})
        writer.close()
        writer.directory.chmod(mode)
        runs.append(writer.run_id)
    store.runs()  # its index has both from now on
    if (pid := os.fork()) == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(THIRD_UID)
            os.setuid(THIRD_UID)
            other = Store(store.root)
            assert [run.run_id for run in other.runs()] == runs[1:]
            assert other.unfinished() == [] and not other.has(runs[0])
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert "run-unreadable" in capfd.readouterr().err
