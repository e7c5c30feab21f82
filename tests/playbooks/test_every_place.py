"""Kill a run at every place, and fail each of its writes: nothing is lost, nothing is formatted
unless it was named, and the next run finishes or says exactly what to confirm.

After each interruption every namespace gets data that no probe can see.
"""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulated import Cut, SimulatedHost, carried_out, everything, new_host
from tierbench.run import Consent, Outcome

_OF_OS = ("replace", "chown")
_OF_PATH = ("mkdir", "rmdir", "unlink")


class Faults:
    """``kill_at``: number of a place; ``fail_at``: that of a write, which fails by ``errno``.

    Files are not really synced, which takes long on a busy disk.
    """

    def __init__(self, host: SimulatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kill_at: int | None = None
        self.fail_at: int | None = None
        self.errno = 0
        self.places = self.writes = 0
        self._root = str(host.root)
        for name in _OF_OS:
            monkeypatch.setattr(os, name, self._around(getattr(os, name)))
        for name in _OF_PATH:
            monkeypatch.setattr(Path, name, self._around(getattr(Path, name)))
        monkeypatch.setattr(os, "fsync", self._fsync)
        monkeypatch.setattr(host, "run", self._around_command(host.run))

    def _place(self) -> None:
        self.places += 1
        if self.places == self.kill_at:
            raise Cut

    def _around(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(path: str | Path, *more, **options):
            words = str(path)
            if not words.startswith(self._root) or "/sys/" in words or "/proc/" in words:
                return change(path, *more, **options)  # the simulation's own
            idle = Path(path).exists() == (change.__name__ == "mkdir")
            if not idle or change.__name__ in _OF_OS:
                self._place()
            return change(path, *more, **options)

        return changed

    def _around_command(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def ran(argv: list[str]):
            if argv[0] != "blkid" and argv[1] != "list":
                self._place()
            return run(argv)

        return ran

    def _fsync(self, fd: int) -> None:
        self.writes += 1
        if self.writes == self.fail_at:
            raise OSError(self.errno, os.strerror(self.errno))


Signature = tuple[str, str, str]
#: The plan of the host below, and of its teardown.
CONFIRMED = Consent(True, ("namespace0.0",))
#: What shows through on a new namespace: somebody's, and a file system of ours that is no more.
GHOSTS = (("xfs", "ghost", "dead-1"), ("ext4", "tierbench", "dead-2"))
ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO)


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def provision(host: SimulatedHost, consent: Consent = CONFIRMED) -> Outcome:
    return host.provision(consent, regions=["region0"])


def teardown(host: SimulatedHost, consent: Consent = CONFIRMED) -> Outcome:
    return host.teardown(consent)


def put_data(host: SimulatedHost) -> set[str]:
    """On each namespace; their UUIDs or names."""
    for space in host.spaces.values():
        space.data = "data"
    return with_data(host)


def with_data(host: SimulatedHost) -> set[str]:
    return {space.uuid or space.name for space in host.spaces.values() if space.data}


def finished(host: SimulatedHost, act: Callable[[SimulatedHost, Consent], Outcome]) -> None:
    """After an accident: without consent nothing is lost, and by exact consent it is finished."""
    precious = put_data(host)
    outcome = act(host, Consent())
    assert with_data(host) == precious
    if outcome.failures:  # a region had been disabled: what is on it was not seen before
        outcome = act(host, Consent())
        assert with_data(host) == precious
    if outcome.refusals:
        assert outcome.destroy == ["namespace0.0"]
        assert all(each.do for each in outcome.refusals)
        outcome = act(host, Consent(True, outcome.destroy))
    assert (outcome.refusals, outcome.failures) == ([], [])
    assert not [note for note in outcome.notes if note.startswith("record-lost")]
    assert "theirs" in with_data(host)
    assert act(host, Consent(verify_only=True)).failures == []
    assert act(host, Consent()).steps == []


def provisioned_and_back(host: SimulatedHost, before: tuple[object, ...]) -> None:
    finished(host, provision)
    kind, label, uuid = host.spaces["namespace0.0"].signature or ("", "", "")
    assert (kind, label) == ("ext4", "tierbench")
    assert not uuid.startswith("dead")
    carried_out(teardown(host))
    assert everything(host) == before


def interrupted(
    tmp_path, act, prepare=lambda host: None, ghost=None, writes: bool = False, least: int = 10
) -> Iterator[tuple[SimulatedHost, tuple[object, ...], Outcome]]:
    """A host for each place at which ``act`` was killed, or each of its writes, which failed.

    With what was there before ``prepare``, and the outcome (of a kill: none that is looked at).
    """
    host = new_host(tmp_path / "counted")
    prepare(host)
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(host, patch)
        outcome = act(host)
    assert outcome.failures == []
    count = faults.writes if writes else faults.places
    assert count > least
    for number in range(1, count + 1):
        host = new_host(tmp_path / str(number), ghost)
        before = everything(host)
        prepare(host)
        host.ran.clear()
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(host, patch)
            if writes:
                faults.fail_at, faults.errno = number, ERRORS[number % len(ERRORS)]
                outcome = act(host)
            else:
                faults.kill_at = number
                with pytest.raises(Cut):
                    act(host)
        yield host, before, outcome


@pytest.mark.parametrize("ghost", GHOSTS, ids=["somebodys", "ours"])
def test_a_set_up_that_is_killed_anywhere(tmp_path, ghost):
    for host, before, _ in interrupted(tmp_path, provision, ghost=ghost, least=20):
        provisioned_and_back(host, before)


def test_a_set_up_whose_every_write_fails_once(tmp_path):
    for host, before, outcome in interrupted(tmp_path, provision, writes=True, least=20):
        assert [bool(outcome.refusals), bool(outcome.failures)].count(True) == 1
        assert not (outcome.refusals and host.ran)  # refused: nothing was changed
        assert all(each.why and each.do for each in outcome.refusals + outcome.failures)
        provisioned_and_back(host, before)


def test_a_teardown_that_is_killed_anywhere(tmp_path):
    for host, before, _ in interrupted(tmp_path, teardown, provision):
        finished(host, teardown)
        assert everything(host) == before


def test_a_teardown_whose_every_write_fails_once(tmp_path):
    for host, before, outcome in interrupted(tmp_path, teardown, provision, writes=True):
        assert outcome.refusals or outcome.failures
        finished(host, teardown)
        assert everything(host) == before


def test_a_record_that_is_lost_anywhere_costs_nobody_his_data(tmp_path):
    for host, _, _ in interrupted(tmp_path, provision):
        host.files.record.unlink(missing_ok=True)
        precious = put_data(host)
        labelled = [space for space in host.spaces.values() if space.label == "tierbench"]
        outcome = provision(host, Consent())
        assert with_data(host) == precious
        assert all(each.do for each in outcome.refusals + outcome.failures)
        told = [note for note in outcome.notes if note.startswith("record-lost")]
        assert bool(told) == bool(labelled)


def test_a_torn_file_system_is_told_with_what_to_do(tmp_path):
    host = new_host(tmp_path / "host")
    host.tears_mkfs = True
    with pytest.raises(Cut):
        provision(host)
    host.tears_mkfs = False
    outcome = provision(host, Consent())
    assert "wipefs -a /dev/pmem0" in outcome.failures[0].do
    host.run(["wipefs", "-a", "/dev/pmem0"])
    finished(host, provision)
