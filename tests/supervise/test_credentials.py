"""The unprivileged user whom servers and foreign programs run as."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest
from narrowed import present
from patience import PATIENCE_S

from harness.engine import Credentials
from harness.errors import UsageError
from harness.supervise.credentials import (
    is_mapped,
    run_unprivileged,
    shared_user_warnings,
    unprivileged,
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")


@needs_root
def test_root_runs_servers_as_another_user(monkeypatch):
    monkeypatch.delenv("HARNESS_USER", raising=False)
    user = present(unprivileged())
    assert user.uid != 0
    assert user.name in ("tierbench", "nobody")


@needs_root
def test_a_named_user_is_taken(monkeypatch):
    monkeypatch.setenv("HARNESS_USER", "daemon")
    entry = pwd.getpwnam("daemon")
    user = present(unprivileged())
    assert (user.uid, user.gid, user.name) == (entry.pw_uid, entry.pw_gid, "daemon")


@needs_root
@pytest.mark.parametrize(("name", "reason"), [("nosuchuser", "no such user"), ("root", "is root")])
def test_a_user_that_will_not_do_is_refused_beforehand(monkeypatch, name, reason):
    monkeypatch.setenv("HARNESS_USER", name)
    with pytest.raises(UsageError, match=reason) as refusal:
        unprivileged()
    assert "HARNESS_USER" in refusal.value.hint
    assert refusal.value.exit_code == 2


def test_a_user_that_other_services_may_share_is_warned_of():
    (warning,) = shared_user_warnings(Credentials(65534, 65534, "nobody"))
    assert warning.code == "shared-user"
    assert shared_user_warnings(Credentials(990, 990, "tierbench")) == []


@needs_root
def test_set_up_creates_a_system_user_of_our_own(tmp_path):
    script = Path(__file__).parents[2] / "scripts" / "create-user.sh"
    code = f"""
        cp -a /etc {tmp_path}/etc && mount --bind {tmp_path}/etc /etc || exit 2
        userdel --force tierbench 2>/dev/null  # while servers of other tests run as it, too
        {script} && {script} && getent passwd tierbench"""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", code], capture_output=True, text=True, check=True
    )
    name, _, uid, _, _, home, shell = done.stdout.strip().split(":")
    assert (name, home, shell) == ("tierbench", "/nonexistent", "/usr/sbin/nologin")
    assert 0 < int(uid) < 1000
    assert done.stderr.count("created") == 1


@needs_root
def test_a_foreign_program_runs_as_the_unprivileged_user():
    user = present(unprivileged())
    done = run_unprivileged(["sh", "-c", "id -u; id -G; tty; pwd"], timeout_s=PATIENCE_S)
    assert done.stdout.split() == [str(user.uid), str(user.gid), "not", "a", "tty", "/"]


def test_a_user_that_the_user_namespace_lacks_is_known(tmp_path: Path) -> None:
    """As with ``unshare -Ur``: the harness is root, and can become nobody else."""
    uid_map = tmp_path / "uid_map"
    uid_map.write_text("         0       1000          1\n")
    assert is_mapped(0, uid_map) and not is_mapped(999, uid_map)
    uid_map.write_text("0 1000 1\n1 100000 65536\n")
    assert is_mapped(999, uid_map)
