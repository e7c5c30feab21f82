"""The journal: every change noted before it is made, and what may never be undone."""

import json
import os
import stat
from pathlib import Path

import pytest

from harness.errors import RunFailed, UsageError
from harness.supervise import undo
from harness.supervise.credentials import unprivileged
from harness.supervise.journal import Journal, recover

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and sysctls need root")


@pytest.fixture
def journal(state):
    journal = Journal(state)
    yield journal
    journal.close()
    recover(state)  # a test that fails must not leave the host changed


def left_by(journal):
    """The journal of a harness that has died together with its supervisor."""
    journal.close()
    return journal.path


# Settings ------------------------------------------------------------------------


def test_a_setting_is_noted_changed_and_restored(journal, tmp_path):
    setting = tmp_path / "nr_hugepages"
    setting.write_text("0\n")
    token = journal.change_setting(setting, "128")
    assert setting.read_text() == "128\n"
    assert '"old": "0", "new": "128"' in journal.path.read_text()
    journal.undo(token)
    assert setting.read_text() == "0\n"
    setting.write_text("7\n")
    journal.undo(token)  # undone already
    assert setting.read_text() == "7\n"


def test_changes_of_one_setting_are_undone_backwards(journal, tmp_path, state):
    setting = tmp_path / "setting"
    setting.write_text("first\n")
    journal.change_setting(setting, "second")
    journal.change_setting(setting, "third")
    left_by(journal)
    recover(state)
    assert setting.read_text() == "first\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [("always [madvise] never\n", "madvise"), ("1\n", "1"), ("4096\t87380\t6291456\n", None)],
)
def test_of_a_choice_the_chosen_word_is_the_value(tmp_path, text, value):
    (tmp_path / "enabled").write_text(text)
    assert undo.read_setting(str(tmp_path / "enabled")) == (value or text.strip())


@needs_root
def test_real_settings(journal, state, stat_interval):
    """A sysfs choice, a sysctl of several numbers, and one the kernel refuses."""
    choice = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
    interval = Path("/proc/sys/vm/stat_interval")
    several = Path("/proc/sys/kernel/printk")
    before = [path.read_text() for path in (choice, interval, several)]
    other = "within_size" if "[within_size]" not in before[0] else "advise"
    journal.change_setting(choice, other)
    journal.change_setting(several, " ".join([*several.read_text().split()[:3], "6"]))
    with pytest.raises(UsageError, match="Invalid argument"):
        journal.change_setting(interval, "often")
    assert f"[{other}]" in choice.read_text()
    left_by(journal)
    (found,) = recover(state)
    assert found.failures == ()
    assert [path.read_text() for path in (choice, interval, several)] == before


def test_two_harnesses_do_not_hold_one_setting(journal, state, tmp_path):
    setting = tmp_path / "setting"
    setting.write_text("1\n")
    token = journal.change_setting(setting, "2")
    other = Journal(state)
    with pytest.raises(UsageError, match="another harness process holds it changed"):
        other.change_setting(setting, "3")
    journal.undo(token)
    other.change_setting(setting, "3")
    other.close()


# Directories -----------------------------------------------------------------------


def test_a_work_directory_is_empty_and_marked_beside(journal, tmp_path):
    work = journal.register_directory(tmp_path / "run-data")
    assert list(work.iterdir()) == []
    assert (tmp_path / ".run-data.tierbench").read_text() == f"{journal.owner}\n"
    assert stat.S_IMODE(work.stat().st_mode) == 0o700
    (work / "base").mkdir()
    (work / "base" / "1").write_text("rows")
    journal.remove_directory(work)
    assert list(tmp_path.iterdir()) == [tmp_path / "state"]
    journal.remove_directory(work)  # nothing there any more


def test_what_is_finished_stays(journal, state, tmp_path):
    partial = journal.register_directory(tmp_path / "tpch.partial")
    (partial / "lineitem").write_text("rows")
    partial.rename(tmp_path / "tpch")
    journal.release_directory(partial)
    left_by(journal)
    recover(state)
    assert (tmp_path / "tpch" / "lineitem").read_text() == "rows"
    assert {p.name for p in tmp_path.iterdir()} == {"state", "tpch"}


@needs_root
def test_the_directory_belongs_to_the_servers_user(journal, tmp_path):
    work = journal.register_directory(tmp_path / "data", unprivileged())
    assert work.stat().st_uid == unprivileged().uid
    assert (tmp_path / ".data.tierbench").stat().st_uid == 0


def test_what_is_there_already_is_not_taken(journal, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("…")
    with pytest.raises(UsageError, match="something is there already"):
        journal.register_directory(tmp_path / "mine")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="something is there already"):
        journal.register_directory(tmp_path / "link")
    with pytest.raises(UsageError, match="No such file"):
        journal.register_directory(tmp_path / "none" / "work")
    assert undo.pending_entries(undo.read_entries(str(journal.path))) == []


def test_two_harnesses_do_not_share_a_directory(journal, state, tmp_path):
    journal.register_directory(tmp_path / "work")
    other = Journal(state)
    with pytest.raises(UsageError, match="another harness process uses it"):
        other.register_directory(tmp_path / "work")
    left_by(other)
    assert [found.failures for found in recover(state, wait_s=0)] == [()]
    assert (tmp_path / "work").is_dir()


def test_a_failed_change_leaves_nothing_to_undo(journal, state, tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        journal.change_setting(tmp_path / "none", "1")
    read_only = Path("/proc/sys/kernel/ostype")
    with pytest.raises(UsageError, match="Permission denied"):
        journal.change_setting(read_only, "Minix")
    left_by(journal)
    assert [found.undone + found.failures for found in recover(state)] == [()]


def without_marker(work):
    Path(undo.marker_file(str(work))).unlink()


def with_another_owners_marker(work):
    Path(undo.marker_file(str(work))).write_text("4711-deadbeef\n")


def replaced_by_a_link(work):
    work.rename(work.with_name("aside"))
    work.symlink_to("aside")


@pytest.mark.parametrize("change", [without_marker, with_another_owners_marker, replaced_by_a_link])
def test_what_is_no_longer_ours_is_left_alone(journal, state, tmp_path, change):
    work = journal.register_directory(tmp_path / "work")
    (work / "precious").write_text("…")
    change(work)
    left_by(journal)
    (found,) = recover(state)
    assert f"directory {work}: not removed" in found.failures[0]
    assert (work / "precious").exists()
    assert journal.path.exists()  # and it is told again next time


@needs_root
def test_the_marker_cannot_be_forged(journal, state, tmp_path):
    work = journal.register_directory(tmp_path / "work")
    (work / "precious").write_text("…")
    os.chown(undo.marker_file(str(work)), unprivileged().uid, -1)
    left_by(journal)
    assert "its marker does not name" in recover(state)[0].failures[0]
    assert (work / "precious").exists()


def test_links_inside_a_work_directory_are_not_followed(journal, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("…")
    work = journal.register_directory(tmp_path / "work")
    (work / "pg_wal").symlink_to(tmp_path / "elsewhere")
    journal.remove_directory(work)
    assert not work.exists()
    assert (tmp_path / "elsewhere" / "precious").exists()


# Mounts ------------------------------------------------------------------------------


@needs_root
def test_mounts_are_undone_before_the_directory_they_lie_in(journal, state, tmp_path):
    work = journal.register_directory(tmp_path / "work with space")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").write_text("…")
    for name in ("tmpfs", "bind"):
        (work / name).mkdir()
    journal.mount("tmpfs", work / "tmpfs", "tmpfs", ["size=1m"])
    journal.mount(str(tmp_path / "other"), work / "bind", options=["bind"])
    assert (work / "bind" / "precious").exists()
    left_by(journal)
    (found,) = recover(state)
    assert found.failures == ()
    assert not work.exists()
    assert (tmp_path / "other" / "precious").exists()


@needs_root
def test_a_busy_mount_goes_all_the_same(journal, tmp_path):
    (tmp_path / "m").mkdir()
    token = journal.mount("tmpfs", tmp_path / "m", "tmpfs", ["size=1m"])
    with (tmp_path / "m" / "open").open("w"):
        journal.undo(token)
    assert undo.mount_at(str(tmp_path / "m")) is None


@needs_root
def test_a_directory_that_holds_a_foreign_mount_is_left_alone(journal, state, tmp_path):
    other = Journal(state)
    work = journal.register_directory(tmp_path / "work")
    (work / "m").mkdir()
    token = other.mount("tmpfs", work / "m", "tmpfs", ["size=1m"])
    with pytest.raises(RunFailed, match=r"/m is a mount point"):
        journal.remove_directory(work)
    with pytest.raises(UsageError, match="something is mounted there"):
        journal.mount("tmpfs", work / "m", "tmpfs")
    other.undo(token)
    other.close()
    journal.remove_directory(work)
    assert not work.exists()


@needs_root
def test_a_mount_that_fails_says_what_mount_says(journal, tmp_path):
    (tmp_path / "m").mkdir()
    with pytest.raises(RunFailed, match=r"mount /dev/nonexistent on .*special device"):
        journal.mount("/dev/nonexistent", tmp_path / "m", "ext4")


# Recovery ----------------------------------------------------------------------------


def test_a_living_harness_is_not_recovered(journal, state, tmp_path):
    work = journal.register_directory(tmp_path / "work")
    assert recover(state) == []
    assert work.exists()


def test_after_a_reboot_directories_go_and_settings_are_left(journal, state, tmp_path):
    setting = tmp_path / "setting"
    setting.write_text("boot default\n")
    journal.change_setting(setting, "ours")
    work = journal.register_directory(tmp_path / "work")
    path = left_by(journal)
    path.write_text(path.read_text().replace(undo.boot_id(), "an-earlier-boot"))
    setting.write_text("set by the admin since\n")
    (found,) = recover(state)
    assert found.failures == ()
    assert setting.read_text() == "set by the admin since\n"
    assert not work.exists()


def test_a_process_with_a_reused_pid_is_not_hit(journal, state, supervisor):
    bystander = supervisor.spawn(["sleep", "1000"])
    path = left_by(journal)
    entry = {"kind": "process", "pid": bystander.pid, "start_ticks": bystander.id.start_ticks - 1}
    with path.open("a") as file:
        file.write(json.dumps(entry) + "\n")
    assert [found.failures for found in recover(state, wait_s=0)] == [()]
    assert bystander.poll() is None


def test_a_line_cut_off_by_a_crash_is_a_change_never_made(journal, state, tmp_path):
    work = journal.register_directory(tmp_path / "work")
    path = left_by(journal)
    with path.open("a") as file:
        file.write('{"kind": "setting", "path": "/proc/sys/vm/swappi')
    assert recover(state)[0].failures == ()
    assert not work.exists()


def test_what_a_newer_release_has_noted_is_not_guessed_at(journal, state):
    path = left_by(journal)
    with path.open("a") as file:
        file.write('{"kind": "namespace", "seq": 1, "name": "namespace0.0"}\n')
    assert "made by a newer release" in recover(state)[0].failures[0]


def test_others_may_not_write_what_we_undo(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    with pytest.raises(UsageError, match="another user may write to it"):
        Journal(tmp_path / "state")
