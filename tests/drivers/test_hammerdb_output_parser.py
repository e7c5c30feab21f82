"""What HammerDB says is understood, and its failures are seen however well it ends."""

from __future__ import annotations

import pytest

from harness.drivers.hammerdb.process import Words, response_times


def heard(text: str) -> Words:
    words = Words()
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
    words = Words()
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
    ("name", "found"),
    [
        ("postgres-15.18-build-wrong-password.log", "password authentication failed"),
        ("postgres-15.18-build-refused.log", "Is the server running"),
        ("postgres-15.18-build-not-empty.log", "exists but is not empty"),
        ("postgres-15.18-timed-no-schema.log", 'relation "district" does not exist'),
        ("postgres-15.18-timed-killed.log", "server closed the connection unexpectedly"),
    ],
)
def test_a_failure_is_heard(recording, name, found):
    words = heard(recording(name))
    assert words.failure is not None
    assert found in words.failure
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
