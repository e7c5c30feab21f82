"""TPC-C through the command, on real servers: what it gives, what it refuses, how it fails."""

import pytest
from run_values import uncontrolled, values, waits_add_up

from harness import hdr

POSTGRES = ("run", "tpcc", "--engine", "postgres", "--placement", "ssd-both", "--warehouses", "1")
WINDOW = ("--ramp-up", "0s", "--duration", "2s")
SHORT = ("--users", "4", *WINDOW)
TRANSACTIONS = {"new_order", "payment", "order_status", "delivery", "stock_level"}


@pytest.fixture(scope="module")
def measured(loaded):
    """One short run, for all tests that look at one."""
    return loaded(*POSTGRES, "--users", "2", *WINDOW, "--seed", "1", "--json")


def test_a_run_gives_rates_latencies_and_consistent_data(loaded, measured):
    run = measured.run
    assert (run["status"], run["spec"]["driver"]) == ("complete", "loadgen")
    counts = values(run, "transaction_count", "transaction")
    assert set(counts) == TRANSACTIONS
    assert counts["new_order"] > 0 and counts["payment"] > 0
    window_ns = values(run, "window_duration_ns")
    assert values(run, "new_orders_per_minute") == counts["new_order"] * 60e9 / window_ns
    assert values(run, "transactions_per_minute") == sum(counts.values()) * 60e9 / window_ns
    for name, text in values(run, "transaction_duration_ns", "transaction").items():
        # By start in one, by end in the other: those at the window's ends differ.
        rolled_back = values(run, "transaction_rolled_back_count", "transaction").get(name, 0)
        assert abs(hdr.decode(text).total - counts[name] - rolled_back) <= 2 * 4
    assert values(run, "client_cpu_per_transaction_ns") > 0
    waits_add_up(run, "transaction_duration_ns")
    checks = [(c["name"], c["labels"].get("condition")) for c in run["checks"]]
    assert [number for name, number in checks if name == "consistency"] == [
        str(number) for number in range(1, 13)
    ]
    assert {"mix", "remote"} <= {name for name, _ in checks}
    assert "closed-loop" in uncontrolled(run)
    assert loaded.settled() == []


def test_a_rate_that_is_not_kept_is_said(loaded):
    # A commit of the only user waits for a sync: half of these at most, on any machine.
    argv = (*POSTGRES, "--users", "1", "--ramp-up", "0s", "--plant", "wal.sync=+20ms")
    done = loaded(*argv, "--rate", "100", "--duration", "2s")
    assert done.code == 0, done.err + done.out
    assert "rate not kept" in done.out
    run = max(loaded("runs", "list", "--json").json["runs"], key=lambda run: run["run_id"])
    assert "offered-rate-not-reached" in uncontrolled(run)
    assert values(run, "transactions_per_minute") < values(run, "offered_transactions_per_minute")
    shown = loaded("runs", "show", run["run_id"]).out
    assert "warehouses 1, " in shown and "users 1, " in shown
    assert f"checks   {len(run['checks'])} of {len(run['checks'])} passed" in shown
    assert "offered-rate-not-reached" in shown
    new_orders = values(run, "transaction_count", "transaction")["new_order"]
    assert f"{new_orders:,}" in shown
    assert "p95 " in shown
    assert "None" not in shown.partition("warning ")[0]


def test_a_window_without_a_new_order_is_a_failed_run_and_no_rate_of_nothing(loaded):
    """One user keys 18 s before its first New-Order (clause 5.2.5.7)."""
    done = loaded(*POSTGRES, "--think-time", "--users", "1", "--ramp-up", "0s",
                  "--duration", "1s", "--retries", "0", "--json")  # fmt: skip
    assert done.code == 1, done.err + done.out
    (run,) = done.json["runs"]
    assert run["status"] == "failed"
    assert {metric["name"] for metric in run["metrics"]} == {"other_cpu_share", "stolen_cpu_share"}
    assert "one transaction" in run["error"]["context"]  # of any kind
    assert "--duration" in run["error"]["hint"]


def test_a_rate_is_offered_by_several_clients_to_restored_data(loaded, measured):
    run = loaded(*POSTGRES, *SHORT, "--rate", "40", "-p", "clients=2", "--json").run
    assert values(run, "offered_transactions_per_minute") == pytest.approx(2400, rel=0.02)
    assert "closed-loop" not in uncontrolled(run)
    # Loaded once, and restored for every run.
    shown = [loaded("runs", "show", each["run_id"], "--json") for each in (measured.run, run)]
    first, second = (done.json["manifest"]["dataset"] for done in shown)
    assert first == second
    for document in (measured.run, run):
        assert (document["status"], document["residency"][0]["label"]) == ("complete", "start")


# Durability ---------------------------------------------------------------------


def test_what_was_committed_survives_a_kill(loaded):
    """The other engines are tested by ``engines verify`` (test_engines_verify.py)."""
    run = loaded(*POSTGRES, *SHORT, "--test", "durability", "--rate", "200", "--json").run
    # New-Orders that the server has confirmed to clients, and Payments.
    committed = values(run, "journal_committed_count", "transaction")
    assert committed["new_order"] > 0 and committed["payment"] > 0
    # Of the window; a timer is never early.
    assert values(run, "killed_after_ns") >= 0.2 * 2e9
    assert "commits-not-durable" not in uncontrolled(run)
    checks = {(c["name"], *c["labels"].values()): c["status"] for c in run["checks"]}
    assert checks["durability", "new_order"] == checks["durability", "payment"] == "passed"
    assert len([key for key in checks if key[0] == "consistency"]) == 12
    assert not [metric for metric in run["metrics"] if metric["name"].endswith("_per_minute")]
    assert loaded.settled() == []


def test_a_server_that_does_not_wait_for_its_log_is_found_to_lose(loaded):
    lazy = ("synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=2GB")
    settings = [word for setting in lazy for word in ("--set", setting)]
    # Killed just behind one of the log's rare writes it has lost nothing.
    for seed in range(4):
        argv = [*POSTGRES, *SHORT, "--test", "durability", *settings, "--rate", "200",
                "--seed", seed, "--json"]  # fmt: skip
        done = loaded(*argv, "--retries", "0")
        if done.code == 1:
            break
    assert done.code == 1, done.err + done.out
    (run,) = done.json["runs"]
    # Which of its transactions were the last is chance.
    assert [c for c in run["checks"] if (c["name"], c["status"]) == ("durability", "failed")]
    assert "synchronous_commit=off" in uncontrolled(run)["commits-not-durable"]
    assert loaded.settled() == []
