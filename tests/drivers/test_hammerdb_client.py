"""HammerDB's process is started, watched and ended; here one that says what was recorded."""

from __future__ import annotations

import os
import time

import pytest
from patience import PATIENCE_S

from harness.drivers.hammerdb.process import build, measure
from harness.drivers.hammerdb.script import Timed, target
from harness.drivers.result import WindowCallbacks
from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.supervise import silence
from harness.supervise.process import all_processes, mark_of

TARGET = target(
    "pg",
    {"host": "/run/bench", "port": 5432, "user": "bench", "password": "pw-4711", "database": "b"},
)
ONE_MINUTE = Timed(users=2, ramp_up_min=1, duration_min=1, time_profile=False)
#: Nobody counts anything at the ends of the window.
NOTHING = WindowCallbacks()


def run(hammerdb, clients, options=ONE_MINUTE, drives=NOTHING, **more):
    return measure(hammerdb, TARGET, clients, options, SilentProgress(), drives, **more)


#: Servers that other tests of this session keep for those to come.
_earlier: set = set()


@pytest.fixture(autouse=True)
def earlier_processes():
    _earlier.clear()
    _earlier.update(ours())


def ours() -> set:
    """Marks of the processes that this one has had started; what they fork has theirs."""
    marks = {mark_of(stat.id.pid) or "" for stat in all_processes()}
    return {mark for mark in marks if mark.startswith(f"{os.getpid()}-")}


def nothing_left(clients) -> bool:
    return not list(clients.scratch.iterdir()) and not ours() - _earlier


def test_a_timed_run(replay, clients):
    moments = []
    drives = WindowCallbacks(lambda: moments.append("begin"), lambda: moments.append("end"))
    found = run(replay("postgres-15.18-timed.log"), clients, drives=drives)
    assert moments == ["begin", "end"]
    assert list(found.reported_per_minute.values()) == [27198, 63589]
    assert found.version == "HammerDB 4.12"
    assert found.operations == {}
    assert nothing_left(clients)


def test_a_build(replay, clients):
    facts = build(replay("postgres-15.18-build.log"), TARGET, clients, 2, 2, SilentProgress())
    assert facts["driver"] == "HammerDB 4.12"
    assert nothing_left(clients)


def test_its_response_times_are_read_from_its_own_folder(replay, clients, lab, recording):
    # The recorded profile is put where a real run writes it, and said so as a real run does.
    (lab.root / "profile.log").write_text(recording("postgres-15.18-hdbxtprofile.log"))
    to = "$TMP/hdbxtprofile.log"
    hammerdb = replay(
        "postgres-15.18-timed.log",
        before=f'cat {lab.root}/profile.log > {to}; echo "Vuser 1:Writing timing data to {to}"',
    )
    found = run(hammerdb, clients, Timed(2, 1, 1))
    assert found.operations["payment"].called_count == 8916 + 8871


def test_a_failed_build_that_goes_on_waiting_is_ended_at_once(replay, clients):
    hammerdb = replay("postgres-15.18-build-wrong-password.log", does="exec sleep 3600")
    started = time.monotonic()
    with pytest.raises(RunFailed, match="password authentication failed") as failed:
        build(hammerdb, TARGET, clients, 2, 2, SilentProgress())
    assert time.monotonic() - started < PATIENCE_S
    assert "Vuser 1:FINISHED FAILED" in failed.value.context
    assert nothing_left(clients)


def cut(replay, name, before, does):
    """A recording up to the line that has ``before``; all of it without."""
    hammerdb = replay(name, does=does)
    words = hammerdb.home / "words"
    words.write_text(words.read_text().split(before or "\0")[0])
    return hammerdb


@pytest.mark.parametrize(
    ("name", "before", "does", "found"),
    [
        # A server is lost, and HammerDB waits.
        ("timed-killed", None, "exec sleep 3600", "closed"),
        # It ends with status 0 after failures, or too early.
        ("timed-no-schema", None, "exit 0", "does not exist"),
        ("timed", "Vuser 1:Test complete", "exit 0", "before its time"),
        ("timed", "Vuser 1:TEST RESULT", "exec sleep 3600", "hangs"),
    ],
)
def test_a_run_that_fails_is_ended_with_its_last_lines(
    replay, clients, name, before, does, found, monkeypatch
):
    monkeypatch.setenv(silence.VARIABLE, "measure=1")
    hammerdb = cut(replay, f"postgres-15.18-{name}.log", before, does)
    with pytest.raises(RunFailed, match=found) as failed:
        run(hammerdb, clients)
    assert "Vuser 1:" in failed.value.context
    assert nothing_left(clients)


def test_a_silent_build_is_ended(replay, clients, monkeypatch):
    monkeypatch.setenv(silence.VARIABLE, "load=1")
    hammerdb = cut(replay, "postgres-15.18-build.log", "Vuser 1:CREATING TPCC", "exec sleep 3600")
    with pytest.raises(RunFailed, match="printed nothing for 1 s"):
        build(hammerdb, TARGET, clients, 2, 2, SilentProgress())
    assert nothing_left(clients)


def test_a_run_in_which_a_user_was_missing_is_no_result(replay, clients):
    hammerdb = replay("postgres-15.18-timed.log")
    three = Timed(users=3, ramp_up_min=1, duration_min=1, time_profile=False)
    with pytest.raises(RunFailed, match="2 virtual users were active"):
        run(hammerdb, clients, three)


def test_its_script_is_private_and_its_password_in_no_message(replay, clients):
    """The stand-in prints the script it was given, and its mode, and fails."""
    hammerdb = replay(
        "postgres-15.18-timed-no-schema.log",
        before='stat -c "mode %a owner %U" "$4"; cat "$4" >&2; cat "$4"; echo "$@"',
    )
    with pytest.raises(RunFailed) as failed:
        run(hammerdb, clients)
    assert "pw-4711" not in str(failed.value.to_json())
    assert "{…}" in failed.value.context  # its stderr had the script, without the password


def test_a_password_is_not_in_its_arguments(replay, clients):
    hammerdb = replay("postgres-15.18-timed.log", before='echo "$@" | grep -q pw-4711 && exit 1')
    assert run(hammerdb, clients).reported_per_minute["new_orders_per_minute"] == 27198
