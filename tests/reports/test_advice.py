"""What ``harness advise`` answers, of made-up runs whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from explained_runs import tpcc

from reports.advice import Answer, answers, lines, trials_of

ARMS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "ssd-both": ((), "ssd"),
    "ssd-data-pmem-wal": (("wal",), "pmem"),
    "pmem-data-ssd-wal": (("data",), "pmem"),
    "pmem-both": (("wal", "data"), "pmem"),
}


def advised(
    root: Path, gains: Mapping[str, float], blocks: int = 8, looks: int = 1
) -> list[Answer]:
    """Return the answers where arms are so many times as fast as today's tier."""
    noise = [[1 + 0.01 * ((block * wave) % 5) for wave in range(1, 5)] for block in range(blocks)]
    runs = [
        tpcc(root, name, block, 60_000 * gains.get(name, 1) * noise[block][arm], looks=looks)
        for block in range(blocks)
        for arm, name in enumerate(ARMS)
    ]
    today, *trials = trials_of(runs, ARMS)
    return answers(today, trials, runs)


def asked(found: list[Answer]) -> list[tuple[str, str, str]]:
    return [(one.group.a.name, one.group.b.name, one.group.verdict) for one in found]


def test_the_smallest_move_that_gains_all_comes_first(tmp_path: Path) -> None:
    found = advised(tmp_path, {"ssd-data-pmem-wal": 3, "pmem-both": 3})
    assert asked(found) == [
        ("ssd-both", "ssd-data-pmem-wal", "faster"),
        ("ssd-data-pmem-wal", "pmem-both", "no difference"),
        ("ssd-both", "pmem-data-ssd-wal", "no difference"),
    ]
    value = found[0].to_json()["value"]
    assert value["low"] < 3 < value["high"]
    assert value["value"] == pytest.approx(3, rel=0.05)
    assert "wal" in found[0].why[0].lower()
    assert next(lines(found)) == found[0].sentence
    assert "in 0.9 % of the time" in found[2].sentence  # the data


def test_the_part_that_gains_most_alone_moves_first(tmp_path: Path) -> None:
    """And everything, where none gains alone."""
    gains = {"ssd-data-pmem-wal": 2, "pmem-data-ssd-wal": 1.5, "pmem-both": 4}
    assert asked(advised(tmp_path / "a", gains)) == [
        ("ssd-both", "ssd-data-pmem-wal", "faster"),
        ("ssd-data-pmem-wal", "pmem-both", "faster"),
        ("ssd-both", "pmem-data-ssd-wal", "faster"),
    ]
    first, *others = asked(advised(tmp_path / "b", {"pmem-both": 4}))
    assert first == ("ssd-both", "pmem-both", "faster")
    assert {b for _, b, _ in others} == {"ssd-data-pmem-wal", "pmem-data-ssd-wal"}


def test_nothing_moves_where_nothing_gains_and_few_pairs_decide_nothing(tmp_path: Path) -> None:
    found = advised(tmp_path / "a", {})
    assert {verdict for _, _, verdict in asked(found)} == {"no difference"}
    assert not any(one.undecided for one in found)
    found = advised(tmp_path / "b", {"pmem-both": 3}, blocks=2)
    assert all(one.undecided for one in found)
    assert found[0].to_json()["pairs"] == 2


@pytest.mark.parametrize(("blocks", "verdict"), [(7, "not resolvable"), (8, "faster")])
def test_all_arms_are_one_family(tmp_path: Path, blocks: int, verdict: str) -> None:
    """With 7 pairs, a difference could be shown in one comparison, and not in three."""
    found = advised(tmp_path, {"ssd-data-pmem-wal": 3, "pmem-both": 3}, blocks, looks=2)
    assert found[0].group.verdict == verdict
