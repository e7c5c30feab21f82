"""HammerDB: its script, its process and what it says; here one that says what was recorded."""

import os
import shutil
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from idle_engine import IdleEngine
from patience import LIMITS_S, PATIENCE_S

from harness.drivers.hammerdb.installation import find
from harness.drivers.hammerdb.output_parser import HammerDbOutput, response_times
from harness.drivers.hammerdb.process import build, measure
from harness.drivers.hammerdb.script import (
    TargetDatabase,
    TimedRun,
    build_script,
    drivable,
    target,
    target_of,
    timed_script,
    whole_minutes,
)
from harness.drivers.result import WindowCallbacks
from harness.errors import RunFailed, UsageError
from harness.progress import SilentProgress
from harness.supervise import silence
from harness.supervise.credentials import unprivileged
from harness.supervise.process import all_processes, mark_of

# The Tcl that it is given, and where it is looked for -------------------------------

SECRET = "0123secret"


def connected(word: str, **more) -> TargetDatabase:
    connection: dict[str, Any] = {"user": "bench", "password": SECRET, "database": "shop", **more}
    return target(word, connection)


def settings(script: str) -> dict[str, str]:
    """``diset`` lines as name → value."""
    fields = [line.split(" ", 3) for line in script.splitlines() if line.startswith("diset ")]
    return {name: value.strip("{}") for _, _, name, value in fields}


def test_a_build_on_postgres():
    host = "/run/bench"
    script = build_script(connected("pg", host=host, port=5432), 10, 4)
    assert settings(script) == {
        "pg_host": host, "pg_port": "5432", "pg_sslmode": "disable",
        "pg_user": "bench", "pg_superuser": "bench", "pg_dbase": "shop",
        "pg_defaultdbase": "shop", "pg_pass": SECRET, "pg_superuserpass": SECRET,
        "pg_count_ware": "10", "pg_num_vu": "4", "pg_storedprocs": "true",
    }  # fmt: skip
    assert (
        script.splitlines()[0] == "catch {::comm::comm destroy}"
    )  # before it accepts a connection
    assert script.splitlines()[-2:] == ["buildschema", "exit"]


@pytest.mark.parametrize("word", ["mysql", "maria"])
def test_a_timed_run_on_innodb_goes_through_the_socket(word):
    script = timed_script(
        connected(word, socket="/run/bench/sql.sock"), TimedRun(8, ramp_up_min=1, duration_min=3)
    )
    values = settings(script)
    assert values[f"{word}_socket"] == "/run/bench/sql.sock"
    assert values[f"{word}_rampup"] == "1"
    assert values[f"{word}_duration"] == "3"
    assert values[f"{word}_allwarehouse"] == "true"
    assert values[f"{word}_raiseerror"] == "false"
    assert "vuset vu 8" in script.splitlines()


def test_on_postgres_an_error_ends_its_user():
    script = timed_script(connected("pg"), TimedRun(1, 0, 1))
    assert settings(script)["pg_raiseerror"] == "true"


@pytest.mark.parametrize(("ca", "encrypted"), [("/etc/db1.pem", "true"), ("", "false")])
def test_a_build_on_sql_server_uses_no_bcp_and_takes_no_unknown_certificate(ca, encrypted):
    connection = connected("mssqls", host="db1", port=1433, ca=ca)
    assert settings(build_script(connection, 10, 4)) == {
        "mssqls_linux_server": "db1,1433",
        "mssqls_linux_authent": "sql", "mssqls_uid": "bench", "mssqls_pass": SECRET,
        "mssqls_encrypt_connection": encrypted, "mssqls_trust_server_cert": "false",
        "mssqls_dbase": "shop", "mssqls_use_bcp": "false",
        "mssqls_count_ware": "10", "mssqls_num_vu": "4",
    }  # fmt: skip
    assert connection.environment == ({"SSL_CERT_FILE": ca} if ca else {})


@pytest.mark.parametrize("word", ["pg", "mssqls"])
def test_passwords_are_set_while_hammerdb_does_not_echo(word):
    lines = timed_script(connected(word), TimedRun(1, 0, 1)).splitlines()
    secret = [i for i, line in enumerate(lines) if SECRET in line]
    silent = lines.index("rename putscli putscli_aloud; proc putscli args {}")
    aloud = lines.index("rename putscli {}; rename putscli_aloud putscli")
    assert secret
    assert all(silent < i < aloud for i in secret)


def test_a_target_does_not_show_its_password():
    assert SECRET not in repr(connected("pg"))


@pytest.mark.parametrize("name", ["host", "user", "password", "database", "socket"])
def test_what_hammerdb_would_take_apart_is_refused(name):
    with pytest.raises(UsageError) as refused:
        connected("maria", **{name: "a b[exec id]"})
    assert refused.value.problem == f"HammerDB with this {name}"
    if name == "password":
        assert "exec" not in str(refused.value.to_json())


@pytest.mark.parametrize(
    ("version", "problem"), [("v4.12", "can't find package tdbc::odbc"), ("v4.5", "encrypt")]
)
def test_what_it_lacks_for_sql_server_is_known_beforehand(replay, version, problem):
    hammerdb = replay(
        "postgres-15.18-timed.log",
        version=version,
        before="""echo "lacks tdbc::odbc: can't find package tdbc::odbc"; exit 0""",
    )
    with pytest.raises(UsageError, match=problem):
        hammerdb.check("mssqls", None)


def test_minutes_are_whole():
    assert whole_minutes("ramp_up", 0, least=0) == 0
    assert whole_minutes("duration", 180 * 10**9, least=1) == 3
    for wrong in (30 * 10**9, 0, 90 * 10**9):
        with pytest.raises(UsageError, match="whole minutes"):
            whole_minutes("duration", wrong, least=1)
    with pytest.raises(UsageError) as refused:
        whole_minutes("ramp_up", 30 * 10**9, least=0)
    assert "--ramp-up 1m" in refused.value.hint


def test_releases_from_5_on_run_on_tcl_9(replay):
    assert replay("postgres-15.18-timed.log", version="v5.0").argv[0].endswith("bin/tclsh9.0")


@pytest.mark.parametrize("lacks", ["", "echo lacks Pgtcl: no libpq.so.5"])
def test_a_folder_with_only_an_executable_is_release_5_or_later(lab, monkeypatch, lacks):
    """The executable is a shell here, which runs the files ``tcl`` and ``version`` next to it."""
    home = lab.root / "home"
    home.mkdir()
    shutil.copy2(Path("/bin/sh").resolve(), home / "hammerdbcli")
    (home / "version").write_text("echo HammerDB CLI v6.0; exit 0\n")
    (home / "tcl").write_text(f"echo HammerDB CLI v6.0; {lacks}\nexit 0\n")
    monkeypatch.setenv("HAMMERDB_HOME", str(home))
    hammerdb = find()
    assert hammerdb.version == (6, 0)
    assert hammerdb.argv == [str(home / "hammerdbcli"), "tcl", "auto"]
    with pytest.raises(UsageError, match=r"no libpq.so.5") if lacks else nullcontext():
        hammerdb.check("pg", unprivileged())


def test_an_executable_that_prints_no_version_is_named_as_release_5_or_later(lab, monkeypatch):
    (lab.root / "home").mkdir()
    shutil.copy2("/bin/true", lab.root / "home/hammerdbcli")
    monkeypatch.setenv("HAMMERDB_HOME", str(lab.root / "home"))
    with pytest.raises(UsageError) as refused:
        find()
    assert "release 5 or later" in refused.value.context


class Stranger(IdleEngine):
    """An engine that HammerDB does not know."""

    name = "sqlite"
    kind = "embedded"


class Known(Stranger):
    """One that it knows, as ``kind`` says."""

    name = "postgres"

    def __init__(self, kind, word="pg"):
        self.kind, self.hammerdb_database = kind, word

    def native_connection(self):
        return {"host": "/run/bench", "port": 5432, "user": "u", "password": "p", "database": "d"}


STRANGER: Any = Stranger()


def engine_with(kind: str, word: str = "pg"):
    return Known(kind, word)


def test_only_engines_that_it_knows_are_driven():
    with pytest.raises(UsageError) as refused:
        drivable(STRANGER)
    assert STRANGER.name in refused.value.problem and "--driver loadgen" in refused.value.hint
    with pytest.raises(UsageError) as refused:
        drivable(engine_with("managed", "db2"))
    assert "db2" in refused.value.problem
    assert "pg, mysql, maria, mssqls" in refused.value.hint


def test_of_servers_of_the_users_only_sql_server_is_driven():
    with pytest.raises(UsageError, match=r"an external .* server"):
        drivable(engine_with("external"))
    assert drivable(engine_with("external", "mssqls")) == "mssqls"


def test_a_managed_server_is_found_as_the_native_client_finds_it():
    target = target_of(engine_with("managed"))
    assert (target.dialect, target.host, target.port) == ("pg", "/run/bench", 5432)


# Its process is started, watched and ended ------------------------------------------

TARGET = target(
    "pg",
    {"host": "/run/bench", "port": 5432, "user": "bench", "password": "pw-4711", "database": "b"},
)
ONE_MINUTE = TimedRun(users=2, ramp_up_min=1, duration_min=1, time_profile=False)
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
    result = run(replay("postgres-15.18-timed.log"), clients, drives=drives)
    assert moments == ["begin", "end"]
    assert list(result.reported_per_minute.values()) == [27198, 63589]
    assert result.version == "HammerDB 4.12"
    assert result.operations == {}
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
    result = run(hammerdb, clients, TimedRun(2, 1, 1))
    assert result.operations["payment"].called_count == 8916 + 8871


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
    ("name", "before", "does", "problem"),
    [
        # A server is lost, and HammerDB waits.
        ("timed-killed", None, "exec sleep 3600", "closed"),
        # It ends with status 0 after failures, or too early.
        ("timed-no-schema", None, "exit 0", "does not exist"),
        ("timed", "Vuser 1:Test complete", "exit 0", "before its time"),
        ("timed", "Vuser 1:TEST RESULT", "exec sleep 3600", "hangs"),
    ],
)
def test_a_failed_run_is_told(replay, clients, name, before, does, problem, monkeypatch):
    hammerdb = cut(replay, f"postgres-15.18-{name}.log", before, does)
    for limit_s in LIMITS_S if problem == "hangs" else (PATIENCE_S,):
        monkeypatch.setenv(silence.VARIABLE, f"measure={limit_s}")
        with pytest.raises(RunFailed, match=problem) as failed:
            run(hammerdb, clients)
        if "Vuser 1:" in failed.value.context:  # it had begun
            break
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
    three = TimedRun(users=3, ramp_up_min=1, duration_min=1, time_profile=False)
    with pytest.raises(RunFailed, match="2 virtual users "):
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


# What it says is understood, and its failures are seen however well it ends ---------


def heard(text: str) -> HammerDbOutput:
    words = HammerDbOutput()
    for line in text.splitlines():
        words.read_line(line)
    return words


@pytest.mark.parametrize(
    ("name", "nopm", "tpm", "version"),
    [
        ("postgres-15.18-timed.log", 27198, 63589, "15.18 (Debian 15.18-0+deb12u1)"),
        ("postgres-15.18-timed-6.0.log", 18308, 41633, "15.18 (Debian 15.18-0+deb12u1)"),
        ("mariadb-10.11.19-timed.log", 28676, 66465, "10.11.19"),
        ("mysql-8.0.15-timed.log", 20842, 48256, "8.0.15"),
    ],
)
def test_a_timed_run_gives_its_rates(recording, name, nopm, tpm, version):
    words = heard(recording(name))
    assert words.failure is None
    assert (words.new_orders_per_minute, words.transactions_per_minute) == (nopm, tpm)
    assert (words.users, words.database_version) == (2, version)
    assert words.complete
    assert words.phase == "ending"


def test_the_window_is_between_the_two_counts(recording):
    phases = []
    words = HammerDbOutput()
    for line in recording("postgres-15.18-timed.log").splitlines():
        before = words.phase
        words.read_line(line)
        if words.phase != before:
            phases.append(line)
    assert phases == [
        "Vuser 1:Timing test period of 1 in minutes",
        "Vuser 1:Test complete, Taking end Transaction Count.",
    ]


@pytest.mark.parametrize("name", ["postgres-15.18-build.log", "mariadb-10.11.19-build.log"])
def test_a_build_is_counted_by_districts(recording, name):
    words = heard(recording(name))
    assert words.failure is None
    assert words.built and words.complete
    assert (words.customers, words.orders) == (20, 20)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("postgres-15.18-build-wrong-password.log", "password authentication failed"),
        ("postgres-15.18-build-refused.log", "Is the server running"),
        ("postgres-15.18-build-not-empty.log", "exists but is not empty"),
        ("postgres-15.18-timed-no-schema.log", 'relation "district" does not exist'),
        ("postgres-15.18-timed-killed.log", "server closed the connection unexpectedly"),
    ],
)
def test_a_failure_is_heard(recording, name, problem):
    words = heard(recording(name))
    assert words.failure is not None
    assert problem in words.failure
    assert "Vuser" not in words.failure


def test_all_users_complete_is_no_success(recording):
    """The recorded run ended in order, with status 0, after every user had failed."""
    text = recording("postgres-15.18-timed-no-schema.log")
    assert "ALL VIRTUAL USERS COMPLETE" in text
    without_errors = "\n".join(line for line in text.splitlines() if "Error" not in line)
    assert heard(without_errors).failure == "Vuser 1: FINISHED FAILED"


def test_a_build_that_failed_has_built_nothing(recording):
    for name in ("wrong-password", "refused", "not-empty"):
        assert not heard(recording(f"postgres-15.18-build-{name}.log")).built


#: What a virtual user of HammerDB for InnoDB prints while it drives, told not to end at an
#: error, is the server's message alone.
DRIVING = "Vuser 2:Processing 1000000000 transactions with output suppressed..."


def test_a_deadlock_of_innodb_is_counted_and_no_failure():
    deadlock = "Vuser 2:Deadlock found when trying to get lock; try restarting transaction"
    waited = "Vuser 2:Lock wait timeout exceeded; try restarting transaction"
    words = heard("\n".join([DRIVING, deadlock, waited, deadlock]))
    assert words.failure is None
    assert words.refused == {"1213": 2, "1205": 1}


def test_any_other_word_of_a_driving_user_is_a_failure():
    words = heard(f"{DRIVING}\nVuser 2:MySQL server has gone away")
    assert words.failure == "Vuser 2: MySQL server has gone away"


def test_a_user_that_does_not_drive_yet_may_talk():
    words = heard("Vuser 2:Ssl_cipher \nVuser 2:Assigned 1 WIDs = 1 based on VU count 2")
    assert words.failure is None


def test_response_times_are_of_all_users_and_their_calls_counted_once(recording):
    """HammerDB's own summary has 35,774 New-Orders: each call twice."""
    times = response_times(recording("postgres-15.18-hdbxtprofile.log"))
    assert set(times) == {"new_order", "payment", "order_status", "delivery", "stock_level"}
    new_order = times["new_order"]
    assert new_order.called_count == 8972 + 8915
    assert new_order.percentiles_ns == {"50": 5_042_000, "95": 15_576_000, "99": 25_634_000}


def test_a_profile_without_a_summary_tells_nothing(recording):
    text = recording("postgres-15.18-hdbxtprofile.log").split(">>>>> SUMMARY")[0]
    assert response_times(text) == {}
