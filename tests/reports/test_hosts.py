"""Hosts compared: recorded runs of two hosts, imported into one store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from explained_runs import device_suite
from report_runs import GIB, driven, interleaved, metric, tier_document
from typer.testing import CliRunner

from harness.cli.app import app
from harness.errors import UsageError
from harness.models.score import DEVICE_TIME, Score, ScoredMetric, ScoreStore
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from reports.compare import compare
from reports.compare_output import to_json
from reports.host_rates import compared_hosts
from reports.price_list import PricedHost, PriceList
from reports.series import panels

USERS = {"warehouses": 10, "users": 8, "think_time": False, "rate": None,
         "mix": "deck", "connections": 8, "duration": "3m"}  # fmt: skip
PRICES = """
schema: 1
currency: EUR
source: a shop
hosts:
  - {host: lab1, price: 8000}
  - {host: "lab2*", price: 16000}
"""
#: What each new host has, and does.
LAB1: dict[str, Any] = {"host.hostname": "lab1", "host.host_id": "1" * 16, "host.cpu.cores": 40}
LAB2: dict[str, Any] = {
    "host.hostname": "lab2",
    "host.host_id": "2" * 16,
    "host.cpu.model": "AMD EPYC 7763",
    "host.cpu.cores": 64,
    "host.cpu.threads": 128,
    "host.memory_bytes": 512 * GIB,
    "host.kernel.release": "6.12.4",
    "host.mitigations": {"spectre_v2": "Mitigation: Retpolines; RSB filling"},
    "engine.build": "built by another compiler",
    "engine.settings": {"shared_buffers": "2048MB", "work_mem": "64MB"},
    "tiers": [tier_document("ssd") | {"warnings": []}],
}


def runs_of(
    root: Path, host: dict[str, Any], per_minute: float, experiment: str = "nightly",
    placements: tuple[str, ...] = ("ssd-both",),
) -> list[StoredRun]:  # fmt: skip
    """Six blocks of TPC-C on a host."""
    rates = (0.99, 1.0, 1.02, 0.98, 1.01, 1.0)
    arms = interleaved(
        root,
        lambda place, k: [
            metric("new_orders_per_minute", per_minute * rates[k] * len(place), "higher")
        ],
        6,
        placements,
        spec_changes=driven("tpcc", **USERS),
        experiment=experiment,
        manifest_changes=host,
    )
    return [run for arm in arms for run in arm]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the imported results of both: lab2 does 2.4 times as much as lab1."""
    folder = tmp_path_factory.mktemp("hosts")
    both = folder / "both"
    for name, host, per_minute, us in (("lab1", LAB1, 5000, 80), ("lab2", LAB2, 12000, 20)):
        theirs = folder / name
        runs_of(theirs, host, per_minute)
        device_suite(theirs, "ssd", us, host=name, host_id=host["host.host_id"])
        metrics = tuple(
            ScoredMetric(of, ratio, 0.95 * ratio, 1.05 * ratio)
            for of, ratio in (("throughput", 1.02), (DEVICE_TIME, 1.1 if us == 80 else 0.7))
        )
        about = (host["host.host_id"], "disk", "d" * 16, "ssd", "postgres", "tpcc", "users=8")
        ScoreStore(theirs).write(Score(*about, 1, (), metrics))
        printed(both, "runs", "import", str(theirs), "--from", name)
    return both


def printed(results: Path, *words: str) -> Any:
    """What a command prints with ``--json``."""
    made = CliRunner().invoke(app, [*words, "--results", str(results), "--json"])
    assert made.exit_code == 0, made.output
    return json.loads(made.stdout)


def test_rates_of_hosts_for_each_core_and_for_their_price(results: Path, tmp_path: Path) -> None:
    (tmp_path / "prices.yml").write_text(PRICES)
    words = ("compare", "host=lab1", "host=lab2", "workload=tpcc")
    (group,) = printed(results, *words, "--prices", str(tmp_path / "prices.yml"))["groups"]
    assert group["verdict"] == "faster"
    assert (group["a"]["name"], group["b"]["name"]) == ("lab1", "lab2")
    hosts, (row,) = group["hosts"], group["rows"]
    assert row["ratio"] == pytest.approx(2.4)
    # 2.4 times as much, by 64 cores in place of 40, at twice the price
    assert hosts["per_core"]["value"] == pytest.approx(2.4 * 40 / 64)
    assert hosts["per_price"]["value"] == pytest.approx(2.4 / 2)
    assert hosts["per_core"]["low"] == pytest.approx(row["interval"][0] * 40 / 64)
    assert hosts["a"]["per_core"]["rate"]["median"] == pytest.approx(5000 * 8 / 40)
    assert hosts["b"]["per_price"]["rate"]["median"] == pytest.approx(12000 * 8 / 16000)
    assert hosts["b"]["per_price"]["per"] == "EUR"


def test_what_differs_between_the_hosts_stands_with_the_verdict(results: Path) -> None:
    (group,) = printed(results, "compare", "host=lab1", "host=lab2", "workload=tpcc")["groups"]
    differences = {d["name"]: (d["a"], d["b"]) for d in group["hosts"]["differences"]}
    assert list(differences) == ["Processor", "Cores", "Memory", "Kernel", "Mitigations",
                                 "Engine build", "Setting shared_buffers"]  # fmt: skip
    assert differences["Processor"][1] == "AMD EPYC 7763"
    assert "Retpolines" in differences["Mitigations"][1]
    (fact,) = (fact for fact in group["rests_on"] if fact["code"] == "hosts")
    assert fact["values"] == list(differences)
    assert group["hosts"]["per_price"] is None
    assert "hosts:" in group["hosts"]["a"]["per_price"]["missing"]


def test_runs_of_one_plan_on_two_hosts_are_no_pairs(tmp_path: Path) -> None:
    """A profile has the same plan everywhere, and both hosts may have executed it tonight."""
    a, b = runs_of(tmp_path, LAB1, 5000), runs_of(tmp_path, LAB2, 12000)
    assert {run.head.experiment.hash for run in (*a, *b)} == {a[0].head.experiment.hash}
    (group,) = compare(a, b).groups
    assert group.pairing == "unpaired" and "hosts" in group.why_unpaired
    assert group.deciding and group.deciding.estimate
    # The smallest p of six and six repeats without pairs: 2 / (12 choose 6).
    assert group.deciding.estimate.p == pytest.approx(2 / 924)


def test_another_version_of_the_engine_is_refused_with_a_way_out(tmp_path: Path) -> None:
    a = runs_of(tmp_path, LAB1, 5000)
    b = runs_of(tmp_path, LAB2 | {"engine.version": "17.2"}, 12000)
    with pytest.raises(UsageError, match=r"engine\.version"):
        compare(a, b)
    assert compare(a, b, ["host", "engine_version"]).groups[0].verdict == "faster"


def test_without_a_dimension_a_report_compares_hosts_where_only_they_differ(tmp_path: Path) -> None:
    alike = [*runs_of(tmp_path, LAB1, 5000), *runs_of(tmp_path, LAB2, 12000)]
    (panel,) = panels(alike, None, None)
    assert (panel.over, [arm.name for arm in panel.arms]) == ("host", ["lab1", "lab2"])
    places = ("ssd-both", "pmem-both")
    tiers = {"tiers": [tier_document("ssd"), tier_document("pmem")]}
    both = [
        run for host in (LAB1, LAB2) for run in runs_of(tmp_path, host | tiers, 5000, "b", places)
    ]
    of_lab1, of_lab2 = panels(both, None, None)
    assert of_lab1.over == "placement" and "host lab1" in of_lab1.title
    assert [arm.name for arm in of_lab2.arms] == list(places)
    assert {panel.over for panel in panels(both, "host", None)} == {"host"}


def test_hosts_of_one_name_are_told_apart(tmp_path: Path) -> None:
    a = runs_of(tmp_path, LAB1, 5000)
    b = runs_of(tmp_path, LAB2 | {"host.hostname": "lab1"}, 12000)
    (group,) = compare(a, b, ["host"]).groups
    assert (group.a.name, group.b.name) == ("lab1 (111111)", "lab1 (222222)")


@pytest.mark.parametrize(
    ("quotas", "ratio"),
    # 2.4 times as much by 4 processors in place of 2; cores and processors are not compared
    [(("2 processors", "4 processors"), 1.2), (("none", "4 processors"), None)],
)
def test_a_quota_leaves_processors_in_place_of_cores(tmp_path: Path, quotas, ratio) -> None:
    sides = [
        runs_of(tmp_path, host | {"run_state": {"cpu_quota": quota}}, per_minute)
        for host, per_minute, quota in zip((LAB1, LAB2), (5000, 12000), quotas, strict=True)
    ]
    a, b = sides
    (group,) = compare(a, b, ["host"]).groups
    hosts = compared_hosts(group)
    assert hosts is not None and hosts.b.per_core.per == "processor"
    assert hosts.b.per_core.amount == 4
    expected = None if ratio is None else pytest.approx(ratio)
    assert (hosts.per_core and hosts.per_core.value) == expected


def test_a_rate_that_was_set_is_divided_by_nothing(tmp_path: Path) -> None:
    sides = []
    for host in (LAB1, LAB2):
        (runs,) = interleaved(
            tmp_path,
            lambda _, k: [metric("operation_duration_ns", 1e6 + k, "lower", operation="read")],
            6,
            ("ssd-both",),
            spec_changes=driven("ycsb", **{"workload": "c", "rate": 100.0}),
            manifest_changes=host,
        )
        sides.append(runs)
    a, b = sides
    (group,) = compare(a, b, ["host"]).groups
    prices = PriceList("EUR", "a shop", (), (PricedHost("*", 1000),))
    hosts = compared_hosts(group, prices)
    assert hosts is not None and hosts.per_core is None and hosts.per_price is None
    assert hosts.a.per_core.missing == hosts.a.per_price.missing != ""


def test_a_report_has_models_and_cards_of_all_hosts(results: Path, tmp_path: Path) -> None:
    made = printed(results, "report", "--out", str(tmp_path))
    hosts = made["report"]["hosts"]
    (comparison,) = hosts["comparisons"]
    assert comparison["per_core"]["value"] == pytest.approx(1.5)
    assert {m["host"]: round(m["calls"]["read"]["mean_ns"], -3) for m in hosts["models"]} == {
        "lab1": 80_000, "lab2": 20_000}  # fmt: skip
    errors = {(e["host"], e["of_device"]): e["ratio"]["value"] for e in hosts["model_errors"]}
    assert errors == {("lab1", False): 1.02, ("lab1", True): 1.1,
                      ("lab2", False): 1.02, ("lab2", True): 0.7}  # fmt: skip
    assert (tmp_path / "figures" / "model-errors.svg").exists()
    assert made["card"]["devices"] == ["lab1: ssd", "lab2: ssd"]


def test_scores_are_imported_once(results: Path) -> None:
    scores = ScoreStore(results)
    assert {score.host_id for score in scores.all()} == {"1" * 16, "2" * 16}
    again = printed(results, "runs", "import", str(results.parent / "lab1"), "--from", "lab1")
    assert again["imported"] == [] and again["documents"]["scores"] == 0
    assert len(scores.all()) == 2


def test_runs_of_one_host_have_no_hosts_in_their_comparison(tmp_path: Path) -> None:
    a, b = (runs_of(tmp_path, LAB1, rate, name) for rate, name in ((5000, "a"), (6000, "b")))
    assert Store(tmp_path).runs()
    (group,) = to_json(compare(a, b))["groups"]
    assert group["hosts"] is None


def test_a_quota_is_what_is_compared_where_settings_follow_from_it(tmp_path: Path) -> None:
    alone = LAB1 | {"tiers": [tier_document("ssd")]}
    quota = {"run_state.cpu_quota": "0.5 processors", "engine.settings": {"shared_buffers": "1"}}
    a, b = runs_of(tmp_path, alone, 5000), runs_of(tmp_path, alone | quota, 4000, "limited")
    compared = compare(a, b)
    assert compared.over == ("cpu_quota",)
    (group,) = compared.groups
    assert (group.a.name, group.b.name) == ("no quota", "quota of 0.5 processors")
    with pytest.raises(UsageError, match="quota"):
        compare(a, b, ["placement"])
