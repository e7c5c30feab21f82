"""Tiers and hosts that monitors read."""

from dataclasses import replace

import pytest

from harness.tiers.linux.model import Tier, TierClaim, TierFacts


@pytest.fixture
def ssd() -> Tier:
    """A tier on the disk ``vda``."""
    return Tier(TierClaim("ssd", "block"), TierFacts("block", disks=("/dev/vda",)))


@pytest.fixture
def pmem(ssd: Tier) -> Tier:
    """A tier whose loads and stores pass no block layer."""
    facts = TierFacts("fsdax", disks=("/dev/pmem0",), dax=True)
    return replace(ssd, claim=TierClaim("pmem", "fsdax"), facts=facts)
