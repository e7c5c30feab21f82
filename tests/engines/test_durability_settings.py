"""Settings by which a loss of power may take acknowledged commits, as running servers tell them."""

from __future__ import annotations

from typing import Any

import pytest

from engines._innodb.counters import lost_without_power

RISKY = {
    "postgres": {"synchronous_commit": "off", "fsync": "off", "full_page_writes": "off"},
    "mysql": {
        "innodb_flush_log_at_trx_commit": "2",
        "innodb_flush_method": "O_DIRECT_NO_FSYNC",
        "innodb_doublewrite": "OFF",
        "log_bin": "ON",
        "sync_binlog": "0",
    },
    "mariadb": {
        "innodb_flush_log_at_trx_commit": "0",
        "innodb_flush_method": "O_DIRECT_NO_FSYNC",
        "innodb_doublewrite": "OFF",
        "log_bin": "ON",
        "sync_binlog": "0",
    },
}


def warned_settings(lab: Any, name: str, settings: dict[str, str]) -> set[str]:
    """Names of the settings that a server of the engine tells on restored data."""
    engine = lab.started(name, settings)
    found = engine.lost_without_power()
    assert set(engine.effective_config()) >= set(engine.durability_settings)
    engine.kill()
    assert all(meaning for meaning in found.values())
    return {pair.partition("=")[0] for pair in found}


@pytest.mark.parametrize("name", RISKY)
def test_defaults_keep_acknowledged_commits_and_risks_are_reported(lab: Any, name: str) -> None:
    assert warned_settings(lab, name, {}) == set()
    assert warned_settings(lab, name, RISKY[name]) == set(RISKY[name]) - {"log_bin"}


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"innodb_flush_log_at_trx_commit": "3"}, set()),
        ({"log_bin": "OFF", "sync_binlog": "0"}, set()),
        ({"log_bin": "ON", "sync_binlog": "100"}, {"sync_binlog=100"}),
        ({"innodb_doublewrite": "DETECT_ONLY"}, {"innodb_doublewrite=DETECT_ONLY"}),
        ({"innodb_doublewrite": "fast"}, {"innodb_doublewrite=fast"}),
    ],
)
def test_a_value_is_a_risk_where_it_has_an_effect(variables: Any, found: set[str]) -> None:
    assert set(lost_without_power(variables)) == found
