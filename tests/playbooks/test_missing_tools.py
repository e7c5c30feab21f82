"""Hosts without the tools: what is refused before an installation, and what a plan says of one."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from simulated import NO_CONSENT, Region_, SimulatedHost, carried_out
from tierbench.commands import Done
from tierbench.run import Consent, run

from harness.tiers.hostfile import load_host_file

PLAN = Consent(change=False)
VERIFY = Consent(verify_only=True)
CONFIRMED = Consent(confirm_destroy=True)


@dataclass
class BareHost(SimulatedHost):
    """``missing``: programs that the host lacks."""

    missing: tuple[str, ...] = ("ndctl", "daxctl", "cxl")

    def has(self, program: str) -> bool:
        return program not in self.missing

    def _apt_cache(self, words: list[str]) -> Done:
        return Done(0, "Package: cxl", "")


@pytest.fixture
def make(tmp_path) -> Callable[..., BareHost]:
    def host(**settings) -> BareHost:
        made = BareHost(tmp_path, **settings)
        made.restart()
        made.write_tree()
        return made

    return host


@pytest.mark.parametrize("consent", [CONFIRMED, NO_CONSENT, PLAN, VERIFY])
@pytest.mark.parametrize(
    ("desired", "object"),
    [
        ({"mode": "cxl"}, "CXL memory"),
        ({"mode": "appdirect"}, "regions"),
        ({"mode": "appdirect", "goal": "AppDirect"}, "modules"),
        ({"mode": "memory-mode"}, "modules"),
        ({"mode": "system-ram", "regions": [], "devices": "all"}, "DAX devices"),
    ],
)
def test_without_the_hardware_nothing_is_installed(make, consent, desired, object):
    outcome = make().provision(consent, **desired)
    assert [each.object for each in outcome.refusals] == [object]
    assert outcome.steps == []


def test_the_installation_is_a_step_of_the_plan(make):
    host = make(regions={"region0": Region_("region0")})
    for consent in (PLAN, CONFIRMED):
        outcome = host.provision(consent)
        assert [(step["do"], step["done"]) for step in outcome.steps] == [
            ("install-packages", False)
        ]
        assert (outcome.refusals, outcome.changed) == ([], False)
        assert "ndctl" in outcome.steps[0]["object"] and "daxctl" in outcome.missing_packages


@pytest.mark.parametrize("consent", [VERIFY, replace(CONFIRMED, install_tools=False)])
def test_missing_tools_are_refused_with_the_command_that_installs_them(make, consent):
    (refusal,) = make(regions={"region0": Region_("region0")}).provision(consent).refusals
    assert (refusal.object, "apt install daxctl ndctl" in refusal.do) == ("tools", True)


@pytest.mark.parametrize("missing", [(), ("ndctl",)])
def test_a_refusal_after_an_installation_names_the_packages(make, missing):
    host = make(regions={"region0": Region_("region0", labelled=False)}, missing=missing)
    given = {"mode": "appdirect", "regions": ["region0", "region7"]}
    packages = ["daxctl", "ndctl"]
    outcome = run(given, NO_CONSENT, host, host.files, host.kernel(), packages)
    assert outcome.refusals and outcome.installed_packages == packages and outcome.changed
    assert (outcome.steps[0]["do"], outcome.steps[0]["done"]) == ("install-packages", True)


def test_a_teardown_without_the_hardware_needs_no_tools(make):
    outcome = make().teardown()
    assert (outcome.refusals, outcome.steps, outcome.missing_tools) == ([], [], [])


# The host file ---------------------------------------------------------------------


def with_processors(host: BareHost) -> None:
    node = host.root / "sys/devices/system/node/node0"
    node.mkdir(parents=True)
    (node / "meminfo").write_text("Node 0 MemTotal: 1048576 kB\n")
    (node / "cpulist").write_text("0-1\n")


@pytest.mark.parametrize(
    ("before", "names"),
    [
        ("", {"dram": (0,)}),
        ("schema: 1\ntiers:\n  dram: {kind: numa, nodes: [0, 1]}\n", {"dram": (0, 1)}),
        ("schema: 1\ntiers:\n  near: {kind: numa, node: 0}\n", {"near": (0,)}),
    ],
)
def test_the_host_file_has_dram_next_to_our_tiers(make, before, names):
    host = make(regions={"region0": Region_("region0")}, missing=())
    with_processors(host)
    if before:
        host.files.host_file.parent.mkdir(parents=True)
        host.files.host_file.write_text(before)
    carried_out(host.provision())
    claims = load_host_file(host.files.host_file).claims
    assert {claim.name: claim.nodes for claim in claims if claim.kind == "numa"} == names
    carried_out(host.teardown(Consent(True, tuple(host.spaces))))
    assert (host.files.host_file.read_text() if before else "") == before
