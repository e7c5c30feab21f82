"""Suites and hosts for the tests of this folder."""

from collections.abc import Mapping

from harness.micro.host_capacity import HostCapacity
from harness.micro.keys import MicroParams
from harness.micro.model import Suite
from harness.micro.suite import suite_of
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from harness.units import GIB, MIB
from harness.yamlfile import parse_yaml

DRAM = Tier(TierClaim("dram", "numa", nodes=(0,)), TierFacts("numa"))
RANDOM = "args: {kernel: load, access: 64, pattern: random}"
HERE = {"cpus": 4.0, "cores": 2.0, "llc": 32.0 * MIB, "memory": 64.0 * GIB}


def capacity(
    cpus: int = 4,
    far: int = 0,
    tier: int = 64 * GIB,
    dram: int = 64 * GIB,
    node_bytes_free: Mapping[int, int] | None = None,
) -> HostCapacity:
    return HostCapacity(
        node_bytes_free=node_bytes_free or {},
        near=tuple(range(cpus)),
        far=tuple(range(cpus, cpus + far)),
        bytes_free={"tier": tier, "dram": dram},
        in_memory=True,
        pages_matter=True,
        llc_bytes=32 * MIB,
        no_pmdk="a tier of kind numa has no files",
        has_files=False,
    )


def suite(
    measurements: str, defaults: str = "{range: 1GiB, duration: 1s}", **variables: float
) -> Suite:
    text = f"schema: 1\nname: mine\ndescription: d\ndefaults: {defaults}\nmeasurements:\n"
    return suite_of("mine", [parse_yaml(text + measurements, "mine.yml")], HERE | variables)


def perma(text: str) -> Suite:
    return suite_of("theirs", [parse_yaml(text, "theirs.yaml")], {})


def overrides(**texts: object) -> MicroParams:
    """Return the parameters as ``--param NAME=VALUE`` sets them."""
    given, _ = MicroParams.from_text({name: str(value) for name, value in texts.items()})
    return MicroParams.from_mapping(given)
