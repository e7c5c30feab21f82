"""Arms of ``harness advise --to memory=TIER`` on a recorded host, and what is refused."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from recorded_kernel import RecordedKernel, load
from typer.testing import CliRunner

from harness.cli.advise import _check_data
from harness.cli.advise_memory import MemoryArm, memory_arms
from harness.cli.advise_trials import Trials
from harness.cli.app import app
from harness.errors import UsageError
from harness.registry import parameters
from harness.tiers.linux.model import Tier, TierClaim
from harness.tiers.linux.numa import Node
from harness.tiers.verify import verify

GIB = 1 << 30
NODE = Node(0, GIB, GIB, "0-1", (10,), kind="dram")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> RecordedKernel:
    return load("two-nvdimms-eadr", tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def tiers(kernel: RecordedKernel) -> dict[str, Tier]:
    """``far``: a node without processors; ``near``: DRAM by another name."""
    nodes = {"dram": 0, "near": 0, "far": 3}
    claims = [TierClaim(name, "numa", nodes=(node,)) for name, node in nodes.items()]
    of_memory = {claim.name: verify(claim, kernel=kernel) for claim in claims}
    facts = replace(of_memory["dram"].facts, kind="block")
    return {"ssd": Tier(TierClaim("ssd", "block", path="/ssd"), facts), **of_memory}


@pytest.mark.parametrize(
    ("slower", "limits", "missing", "text"),
    [
        ("dram", "1GiB,2GiB", "", "is today's memory"),
        ("near", None, "", "the nodes are 0, 0"),
        ("far", "64,256", "", "did you mean 64GiB?"),
        ("far", "2GiB", "", "give today's memory and the total"),
        ("far", "1GiB,2GiB", "dram", "dram: {kind: numa, node: 0"),
        ("far", "1GiB,2GiB", "far", "far: {kind: numa, node: 3"),
        ("", "1GiB,2GiB", "", "--to memory=near"),
        ("weighted:dram=3,far=1", "1GiB,2GiB", "", "write --to memory=far"),
        ("ssd", "1GiB,2GiB", "", "ssd is of kind block"),
    ],
)
def test_what_is_no_question_of_memory_is_refused_with_a_fix(
    kernel: RecordedKernel,
    tiers: dict[str, Tier],
    slower: str,
    limits: str | None,
    missing: str,
    text: str,
) -> None:
    present = {name: tier for name, tier in tiers.items() if name != missing}
    with pytest.raises(UsageError) as refused:
        memory_arms("ssd", slower, limits, present, kernel)
    assert text in f"{refused.value.context} {refused.value.hint}"


def test_the_arms_run_next_to_dram_and_other_dram_comes_before_slower_memory(
    kernel: RecordedKernel, tiers: dict[str, Tier]
) -> None:
    """The recorded host has DRAM on node 1 as well, which is nearer to node 0 than node 3 is."""
    question = memory_arms("ssd", "far", "1200MiB,1500MiB", tiers, kernel)
    assert question.cpus == "node:0"
    assert [arm.label for arm in question.arms] == ["dram", "weighted", "tiered"]
    (note,) = question.untried
    assert "preferred, since node 1 has" in note
    both = verify(TierClaim("dram", "numa", nodes=(0, 1)), kernel=kernel)
    question = memory_arms("ssd", "far", "2500MiB,2800MiB", {**tiers, "dram": both}, kernel)
    assert (question.cpus, question.untried) == (None, ())


def today(gib: int) -> Trials:
    arms = [MemoryArm("dram", "", gib * GIB, ""), MemoryArm("weighted", "", 4 * gib * GIB, "")]
    return Trials(("", ""), {}, memory=tuple(arms))


@pytest.mark.parametrize(
    ("workload", "params", "hint"),
    [("tpcc", {"warehouses": 10}, "--warehouses 320"), ("tpch", {"scale": 0.5}, "--scale 16")],
)
def test_data_that_fit_in_todays_memory_are_refused(
    workload: str, params: dict[str, Any], hint: str
) -> None:
    step: Any = SimpleNamespace(copied_bytes=GIB, spec=SimpleNamespace(params=params))
    with pytest.raises(UsageError) as refused:
        _check_data(parameters(workload), today(8), [step])
    assert hint in refused.value.hint
    step.copied_bytes = 9 * GIB
    _check_data(parameters(workload), today(8), [step])


def test_two_sizes_without_a_question_of_memory_name_it() -> None:
    argv = ["advise", "tpcc", "--engine", "postgres", "--to", "cxl", "--memory-limit", "1GiB,2GiB"]
    error = CliRunner().invoke(app, argv).exception
    assert isinstance(error, UsageError)
    assert "--to memory=cxl" in error.hint


@pytest.mark.parametrize("to", ["memory", "memory=", "memory=cxl"])
def test_a_host_with_one_node_of_memory_has_no_such_question(
    to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cli.advise_memory.nodes", lambda _: [NODE])
    argv = ["advise", "tpcc", "--engine", "postgres", "--to", to, "--memory-limit", "1GiB,2GiB"]
    error = CliRunner().invoke(app, argv).exception
    assert isinstance(error, UsageError)
    assert "harness host apply cxl" in error.hint


def test_a_question_without_an_engine_names_the_option() -> None:
    error = CliRunner().invoke(app, ["advise", "tpcc", "--to", "memory=cxl"]).exception
    assert isinstance(error, UsageError)
    assert "--engine" in error.hint
