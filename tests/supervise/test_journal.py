"""The journal: every change noted before it is made, and what may never be undone."""

import contextlib
import json
import os
import pwd
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from narrowed import present

from harness.errors import RunFailed, UsageError
from harness.supervise import undo
from harness.supervise.credentials import unprivileged
from harness.supervise.journal import Journal, recover
from harness.tiers.linux.ext4 import EAGER

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


# Directories -----------------------------------------------------------------------


def test_a_work_directory_is_empty_and_nothing_lies_next_to_it(journal, tmp_path):
    work = journal.register_directory(tmp_path / "run-data")
    assert list(work.iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"state", "run-data"}
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
    user = present(unprivileged())
    work = journal.register_directory(tmp_path / "data", user)
    assert work.stat().st_uid == user.uid


def test_what_is_there_already_is_not_taken(journal, tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(UsageError, match="it already exists"):
        journal.register_directory(tmp_path / "mine")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="it already exists"):
        journal.register_directory(tmp_path / "link")
    with pytest.raises(UsageError, match="No such file"):
        journal.register_directory(tmp_path / "none" / "work")
    assert undo.read_notes(str(journal.path)).pending == []


def test_two_harnesses_do_not_share_a_directory(journal, state, tmp_path):
    journal.register_directory(tmp_path / "work")
    other = Journal(state)
    with pytest.raises(UsageError, match="it already exists"):
        other.register_directory(tmp_path / "work")
    left_by(other)
    assert [recovery.failures for recovery in recover(state, wait_s=0)] == [()]
    assert (tmp_path / "work").is_dir()


def replaced_by_another(work):
    work.rename(work.with_name("aside"))
    work.mkdir()
    (work / "precious").write_text("…")


def replaced_by_a_link(work):
    work.rename(work.with_name("aside"))
    work.symlink_to("aside")


@pytest.mark.parametrize("change", [replaced_by_another, replaced_by_a_link])
def test_what_is_no_longer_ours_is_left_alone(journal, state, tmp_path, change):
    work = journal.register_directory(tmp_path / "work")
    (work / "precious").write_text("…")
    change(work)
    assert journal.lost(work)
    left_by(journal)
    (recovery,) = recover(state)
    assert f"directory {work}: not removed" in recovery.failures[0]
    assert (work / "precious").exists()
    assert journal.path.exists()  # and it is reported again next time


@pytest.mark.parametrize("content", ["", "rows"])
def test_around_mkdir_only_an_empty_directory_is_removed(journal, state, tmp_path, content):
    """Noted, and not noted as made: perhaps another program made what is there."""
    work = tmp_path / "work"
    journal._note({"kind": "directory", "path": str(work)})
    work.mkdir()
    if content:
        (work / "precious").write_text(content)
    left_by(journal)
    assert recover(state)[0].failures == ()
    assert work.exists() == bool(content)


def test_a_directory_that_was_cleaned_meanwhile_is_no_failure(journal, state, tmp_path):
    works = [journal.register_directory(tmp_path / name) for name in ("gone", "emptied")]
    (works[1] / "base").mkdir()
    assert not any(journal.lost(work) for work in works)
    works[0].rmdir()
    assert [journal.lost(work) for work in works] == [True, False]
    left_by(journal)
    assert recover(state)[0].failures == ()
    assert not works[1].exists()


@needs_root
def test_a_directory_on_a_tier_that_is_not_mounted_is_not_forgotten(journal, state, tmp_path):
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(1 << 20))
    subprocess.run(["mkfs.ext4", "-q", "-E", EAGER, "-O", "^has_journal", disk], check=True)
    tier = tmp_path / "tier"
    tier.mkdir()
    mount = ["mount", "-o", "loop", disk, tier]
    subprocess.run(mount, check=True)
    try:
        (journal.register_directory(tier / "work") / "rows").write_text("…")
    finally:
        subprocess.run(["umount", tier], check=True)
    rewritten(left_by(journal), boot_id="an-earlier-boot")
    (recovery,) = recover(state)
    assert f"{tier} is not mounted" in recovery.failures[0]
    subprocess.run(mount, check=True)
    try:
        assert recover(state)[0].failures == ()
        assert not (tier / "work").exists()
    finally:
        subprocess.run(["umount", tier], check=True)


@needs_root
def test_what_lies_in_memory_after_a_reboot_is_anothers(journal, state, tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        work = journal.register_directory(disk / "work")
        rewritten(left_by(journal), boot_id="an-earlier-boot")
        assert recover(state)[0].failures == ()
        assert work.exists()


def test_links_inside_a_work_directory_are_not_followed(journal, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("…")
    work = journal.register_directory(tmp_path / "work")
    (work / "pg_wal").symlink_to(tmp_path / "elsewhere")
    journal.remove_directory(work)
    assert not work.exists()
    assert (tmp_path / "elsewhere" / "precious").exists()


@needs_root
def test_a_directory_that_holds_a_mount_is_left_alone(journal, tmp_path):
    work = journal.register_directory(tmp_path / "work")
    with small_disk(work / "m"), pytest.raises(RunFailed, match=r"/m is a mount"):
        journal.remove_directory(work)
    journal.remove_directory(work)
    assert not work.exists()


# Full disks --------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(place):
    """A file system of 64 KiB at ``place``."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(path):
    """Fill the file system that ``path`` lies on."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 512):
            pass


@needs_root
def test_undoing_frees_the_disk_that_is_full(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        journal = Journal(disk / "state")
        work = journal.register_directory(disk / "work")
        journal.note_cgroup(tmp_path / "never made")  # undone first, which frees nothing
        fill(work / "rows")
        with journal.path.open("ab", buffering=0) as file:
            file.write(b"\n" * 4096)  # its last page is full, too
        with pytest.raises(RunFailed, match="No space left"):
            journal.note_unit("never-started.slice")
        left_by(journal)
        assert recover(disk / "state")[0].failures == ()
        assert [path for path in disk.iterdir() if path.name != "state"] == []


def test_a_living_harness_is_not_recovered(journal, state, tmp_path):
    work = journal.register_directory(tmp_path / "work")
    assert recover(state) == []
    assert work.exists()


# Recovery ----------------------------------------------------------------------------


def appended(path, entry):
    with path.open("ab", buffering=0) as file:
        undo.append_entry(file.fileno(), entry, sync=False)


def rewritten(path, **changes):
    """The journal with another owner line."""
    notes = undo.read_notes(str(path))
    path.write_text("")
    for entry in notes.entries:
        appended(path, entry | changes if entry["kind"] == "owner" else entry)


def test_after_a_reboot_directories_go_and_groups_went_with_the_boot(journal, state, tmp_path):
    work = journal.register_directory(tmp_path / "work")
    somebody_elses = tmp_path / "cgroup"
    somebody_elses.mkdir()
    journal.note_cgroup(somebody_elses)
    rewritten(left_by(journal), boot_id="an-earlier-boot")
    (recovery,) = recover(state)
    assert recovery.failures == ()
    assert somebody_elses.exists()
    assert not work.exists()


def test_the_journal_of_another_host_is_left_to_it(journal, state, tmp_path):
    work = journal.register_directory(tmp_path / "work")
    path = left_by(journal)
    here = undo.machine() | {"boot_id": undo.boot_id()}
    rewritten(path, boot_id="its-boot", machine_id="its-id", hostname="optane7")
    (recovery,) = recover(state)
    assert "optane7" in recovery.failures[0]
    assert work.exists()
    rewritten(path, **here)
    assert recover(state)[0].failures == ()
    assert not work.exists()


def test_a_supervisor_that_does_not_finish_is_named(journal, state):
    """The next measurement would run next to what it has not ended."""
    rewritten(journal.path, pid=2**22 - 1)  # the journal is still locked
    with pytest.raises(UsageError):
        recover(state, wait_s=0)


def test_a_host_waits_for_no_harness_of_another(journal, state):
    """Its lock is held, as NFS tells it to every host; its pid means nothing here."""
    rewritten(journal.path, boot_id="its-boot", machine_id="its-id", pid=2**22 - 1)
    assert recover(state, wait_s=1e9) == []


def test_a_process_with_a_reused_pid_is_not_hit(journal, state, supervisor):
    bystander = supervisor.spawn(["sleep", "1000"])
    path = left_by(journal)
    appended(
        path, {"kind": "process", "pid": bystander.pid, "start_ticks": bystander.id.start_ticks - 1}
    )
    assert [recovery.failures for recovery in recover(state, wait_s=0)] == [()]
    assert bystander.poll() is None


def test_a_line_cut_off_by_a_full_disk_or_a_crash_spoils_no_other(journal, state, tmp_path):
    work = journal.register_directory(tmp_path / "work")
    with journal.path.open("ab") as file:
        file.write(b'\n12345678 {"kind": "cgroup", "pa')
    other = journal.register_directory(tmp_path / "other")
    path = left_by(journal)
    with path.open("ab") as file:
        file.write(b'\n0a1b2c3d {"kind": "cgroup", "path": "/sys/fs/cgr')
    assert recover(state)[0].failures == ()
    assert not work.exists() and not other.exists()


@pytest.mark.parametrize("line", [1, 3, 7], ids=["owner", "directory one", "directory two"])
def test_of_a_damaged_journal_the_rest_is_undone(journal, state, tmp_path, line):
    works = [journal.register_directory(tmp_path / name) for name in ("one", "two")]
    path = left_by(journal)
    lines = path.read_bytes().split(b"\n")
    lines[line] = lines[line].replace(b'": ', b'"; ', 1)
    path.write_bytes(b"\n".join(lines))
    for _ in range(2):  # it neither raises nor keeps others from being recovered, each time
        (recovery,) = recover(state, wait_s=0)
        assert f"{path} is damaged (line {line + 1})" in recovery.failures[0]
    assert [work.exists() for work in works] == [line == 3, line == 7]


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "setting", "seq": 1, "path": "/proc/sys/vm/swappiness"},
        {"kind": "setting", "seq": 1, "path": "/proc/sys/vm/swappiness", "value": 60},
        {"kind": "made", "of": 1, "inode": 2},
    ],
)
def test_an_entry_that_lacks_a_member_is_damage(journal, state, entry):
    path = left_by(journal)
    appended(path, entry)
    assert f"{path} is damaged" in recover(state)[0].failures[0]


def test_what_is_no_journal_blocks_no_other(journal, state, tmp_path):
    work = journal.register_directory(tmp_path / "work")
    left_by(journal)
    (state / "0-folder.journal").mkdir()
    (state / "0-noise.journal").write_bytes(bytes(range(256)))
    os.mkfifo(state / "0-fifo.journal")
    failures = {recovery.owner: recovery.failures for recovery in recover(state, wait_s=0)}
    assert not work.exists()
    assert all(failures[name] for name in ("0-folder", "0-noise", "0-fifo"))


def test_what_a_newer_release_has_noted_is_not_guessed_at(journal, state):
    appended(left_by(journal), {"kind": "namespace", "seq": 1, "name": "namespace0.0"})
    (failure,) = recover(state)[0].failures
    assert "kind 'namespace'" in failure and "newer release" in failure


def test_others_may_not_write_what_we_undo(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    with pytest.raises(UsageError) as refused:
        Journal(tmp_path / "state")
    assert refused.value.problem == f"state directory {tmp_path / 'state'}"
    assert "chmod 700" in refused.value.hint


@pytest.mark.parametrize(("rebooted", "left"), [(False, "1\n"), (True, "0\n")])
def test_a_setting_gets_its_value_back(journal, state, tmp_path, monkeypatch, rebooted, left):
    """A program that changed it was killed with the harness; a reboot has set it anyway."""
    setting = tmp_path / "nmi_watchdog"
    monkeypatch.setattr(undo, "SETTINGS", (str(tmp_path / "nmi_*"),))
    setting.write_text("1\n")
    assert journal.note_setting(tmp_path / "none") is None
    journal.note_setting(setting)
    setting.write_text("0\n")
    path = left_by(journal)
    if rebooted:
        rewritten(path, boot_id="an-earlier-boot")
    (recovery,) = recover(state)
    assert recovery.failures == ()
    assert setting.read_text() == left


def test_a_changed_setting_gets_its_value_back(journal, state, tmp_path, monkeypatch):
    setting = tmp_path / "node0"
    monkeypatch.setattr(undo, "SETTINGS", (str(setting),))
    setting.write_text("1\n")
    journal.undo(journal.change_setting(setting, "3"))
    assert setting.read_text() == "1\n"
    journal.change_setting(setting, "5")
    assert setting.read_text() == "5\n"
    left_by(journal)
    assert recover(state)[0].failures == ()
    assert setting.read_text() == "1\n"


def test_a_setting_that_linux_takes_otherwise_is_refused_and_restored(journal, monkeypatch):
    """On this host's kernel, which knows modes 0 to 3."""
    setting = Path("/proc/sys/kernel/numa_balancing")
    if not os.access(setting, os.W_OK):
        pytest.skip("needs root and a kernel with NUMA balancing")
    before = setting.read_text()
    with pytest.raises(RunFailed):
        journal.change_setting(setting, "99")
    assert setting.read_text() == before
    with pytest.raises(RunFailed, match="not ours"):
        journal.change_setting(setting.with_name("no_such_setting"), "1")


def test_the_weights_of_this_host_survive_a_killed_harness(journal, state):
    """Of Linux's weighted interleaving, from 6.9 on; to set one turns what computes them off."""
    folder = Path("/sys/kernel/mm/mempolicy/weighted_interleave")
    weight = folder / "node0"
    if not os.access(weight, os.W_OK):
        pytest.skip("needs root and Linux 6.9")
    before = {path: path.read_text() for path in folder.iterdir()}
    for path in folder.iterdir():
        if not path.name.startswith("node") and path.read_text() == "true\n":
            with contextlib.suppress(RunFailed):
                journal.change_setting(path, "false")
            if path.read_text() == "true\n":
                pytest.skip("Linux has no bandwidths, and would not compute weights again")
    journal.change_setting(weight, "7")
    assert weight.read_text() == "7\n"
    left_by(journal)
    assert recover(state)[0].failures == ()
    assert {path: path.read_text() for path in folder.iterdir()} == before


# Attacks -----------------------------------------------------------------------------

#: The next start of the harness; even if its list of settings had the attacker's target.
RECOVERING = """
import json, sys
from pathlib import Path
from harness.errors import UsageError
from harness.supervise import undo
from harness.supervise.journal import recover
undo.SETTINGS = (sys.argv[2],)
try:
    print(json.dumps([found.failures for found in recover(Path(sys.argv[1]), wait_s=0)]))
except UsageError as refused:
    sys.exit(refused.exit_code)
"""


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "setting", "path": "/etc/cron.d/root", "value": "* * * * * root id"},
        {"kind": "setting", "path": "/proc/sys/kernel/core_pattern", "value": "|/tmp/x"},
        {"kind": "unit", "name": "ssh.service"},
    ],
)
def test_a_journal_restores_and_ends_only_what_the_harness_changes(journal, entry):
    journal._note(entry)
    (failure,) = undo.undo_journal(str(journal.path))
    assert re.search("not restored|not ended", failure)


def test_a_control_group_of_others_is_not_ended(journal, tmp_path):
    bystander = subprocess.Popen(["sleep", "60"])
    (tmp_path / "cgroup.procs").write_text(f"{bystander.pid}\n")
    journal.note_cgroup(tmp_path)
    (failure,) = undo.undo_journal(str(journal.path))
    assert "not ended" in failure
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


@needs_root
@pytest.mark.parametrize("servers_user", ["games", "nobody"])
def test_a_journal_that_another_user_planted_overwrites_nothing(tmp_path, servers_user):
    """``games`` ran sudo: trusted with the folder, unless the servers run as that user, too."""
    attacker = pwd.getpwnam("games")
    state, victim = tmp_path / "state", tmp_path / "victim"
    state.mkdir(mode=0o700)
    victim.write_text("root's\n")
    planted = state / "1-00.journal"
    planted.touch()
    appended(planted, {"kind": "owner", **undo.machine(), "boot_id": undo.boot_id(),
                       "pid": 1, "start_ticks": 0})  # fmt: skip
    appended(planted, {"kind": "setting", "seq": 1, "path": str(victim), "value": "the attacker's"})
    for path in (state, planted):
        os.chown(path, attacker.pw_uid, attacker.pw_gid)
    done = subprocess.run(
        [sys.executable, "-c", RECOVERING, str(state), str(victim)],
        env={**os.environ, "SUDO_UID": str(attacker.pw_uid), "HARNESS_USER": servers_user},
        capture_output=True,
        text=True,
        check=False,
    )
    assert victim.read_text() == "root's\n"
    if servers_user == "games":
        assert done.returncode == 2
    else:
        assert f"belongs to uid {attacker.pw_uid}" in json.loads(done.stdout)[0][0]
