"""Whom servers run as."""

import os
import pwd

import pytest

from harness.errors import UsageError
from harness.supervise.credentials import unprivileged

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")


@needs_root
def test_root_runs_servers_as_somebody_else(monkeypatch):
    monkeypatch.delenv("HARNESS_USER", raising=False)
    assert unprivileged().uid != 0
    assert unprivileged().name in ("tierbench", "nobody")


@needs_root
def test_a_named_user_is_taken(monkeypatch):
    monkeypatch.setenv("HARNESS_USER", "daemon")
    entry = pwd.getpwnam("daemon")
    found = unprivileged()
    assert (found.uid, found.gid, found.name) == (entry.pw_uid, entry.pw_gid, "daemon")


@needs_root
@pytest.mark.parametrize(("name", "reason"), [("nosuchuser", "no such user"), ("root", "is root")])
def test_a_user_that_will_not_do_is_refused_beforehand(monkeypatch, name, reason):
    monkeypatch.setenv("HARNESS_USER", name)
    with pytest.raises(UsageError, match=reason) as refusal:
        unprivileged()
    assert "$HARNESS_USER" in refusal.value.do
    assert refusal.value.exit_code == 2


def test_without_root_there_is_nobody_to_become(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert unprivileged() is None
