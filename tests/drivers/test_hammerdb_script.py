"""The Tcl that HammerDB is given, and where HammerDB is looked for."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from idle_engine import IdleEngine

from harness.drivers.hammerdb.installation import find
from harness.drivers.hammerdb.script import (
    Target,
    Timed,
    build_script,
    drivable,
    target,
    target_of,
    timed_script,
    whole_minutes,
)
from harness.errors import UsageError
from harness.supervise.credentials import unprivileged

SECRET = "0123secret"


def connected(word: str, **more: Any) -> Target:
    connection: dict[str, Any] = {"user": "bench", "password": SECRET, "database": "shop", **more}
    return target(word, connection)


def settings(script: str) -> dict[str, str]:
    """``diset`` lines as name → value."""
    found = [line.split(" ", 3) for line in script.splitlines() if line.startswith("diset ")]
    return {name: value.strip("{}") for _, _, name, value in found}


def test_a_build_on_postgres():
    host = "/run/bench"
    script = build_script(connected("pg", host=host, port=5432), 10, 4)
    assert settings(script) == {
        "pg_host": host, "pg_port": "5432", "pg_sslmode": "disable",
        "pg_user": "bench", "pg_superuser": "bench", "pg_dbase": "shop",
        "pg_defaultdbase": "shop", "pg_pass": SECRET, "pg_superuserpass": SECRET,
        "pg_count_ware": "10", "pg_num_vu": "4", "pg_storedprocs": "true",
    }  # fmt: skip
    assert script.splitlines()[-2:] == ["buildschema", "exit"]


@pytest.mark.parametrize("word", ["mysql", "maria"])
def test_a_timed_run_on_innodb_goes_through_the_socket(word):
    script = timed_script(
        connected(word, socket="/run/bench/sql.sock"), Timed(8, ramp_up_min=1, duration_min=3)
    )
    found = settings(script)
    assert found[f"{word}_socket"] == "/run/bench/sql.sock"
    assert found[f"{word}_rampup"] == "1"
    assert found[f"{word}_duration"] == "3"
    assert found[f"{word}_allwarehouse"] == "true"
    assert found[f"{word}_raiseerror"] == "false"
    assert "vuset vu 8" in script.splitlines()


def test_on_postgres_an_error_ends_its_user():
    script = timed_script(connected("pg"), Timed(1, 0, 1))
    assert settings(script)["pg_raiseerror"] == "true"


@pytest.mark.parametrize(("ca", "encrypted"), [("/etc/db1.pem", "true"), ("", "false")])
def test_a_build_on_sql_server_uses_no_bcp_and_takes_no_unknown_certificate(ca, encrypted):
    found = connected("mssqls", host="db1", port=1433, ca=ca)
    assert settings(build_script(found, 10, 4)) == {
        "mssqls_linux_server": "db1,1433",
        "mssqls_linux_authent": "sql", "mssqls_uid": "bench", "mssqls_pass": SECRET,
        "mssqls_encrypt_connection": encrypted, "mssqls_trust_server_cert": "false",
        "mssqls_dbase": "shop", "mssqls_use_bcp": "false",
        "mssqls_count_ware": "10", "mssqls_num_vu": "4",
    }  # fmt: skip
    assert found.environment == ({"SSL_CERT_FILE": ca} if ca else {})


@pytest.mark.parametrize("word", ["pg", "mssqls"])
def test_passwords_are_set_while_hammerdb_does_not_echo(word):
    lines = timed_script(connected(word), Timed(1, 0, 1)).splitlines()
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
    ("version", "found"), [("v4.12", "can't find package tdbc::odbc"), ("v4.5", "encrypt")]
)
def test_what_it_lacks_for_sql_server_is_known_beforehand(replay, version, found):
    hammerdb = replay(
        "postgres-15.18-timed.log",
        version=version,
        before="""echo "lacks tdbc::odbc: can't find package tdbc::odbc"; exit 0""",
    )
    with pytest.raises(UsageError, match=found):
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


def known(kind: str, word: str = "pg") -> Any:
    return Known(kind, word)


def test_only_engines_that_it_knows_are_driven():
    with pytest.raises(UsageError, match="does not know this engine"):
        drivable(STRANGER)
    with pytest.raises(UsageError) as refused:
        drivable(known("managed", "db2"))
    assert "db2" in refused.value.problem
    assert "pg, mysql, maria, mssqls" in refused.value.hint


def test_of_servers_of_the_users_only_sql_server_is_driven():
    with pytest.raises(UsageError, match="alters users and owners"):
        drivable(known("external"))
    assert drivable(known("external", "mssqls")) == "mssqls"


def test_a_managed_server_is_found_as_the_native_client_finds_it():
    found = target_of(known("managed"))
    assert (found.dialect, found.host, found.port) == ("pg", "/run/bench", 5432)
