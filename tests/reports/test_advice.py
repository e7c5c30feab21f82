"""Which parts ``harness advise`` moves first, and how it decides."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from explained_runs import baseline_suite, explained_rows, tpcc
from narrowed import present

from harness.store.run_store import Store
from reports.advice import Answer, answers, expected, lines, met, trials_of
from reports.answers import more_repeats
from reports.compare import Group
from reports.explain.devices import TierSources
from reports.series import panels

ARMS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "ssd-both": ((), "ssd"),
    "ssd-data-pmem-wal": (("wal",), "pmem"),
    "pmem-data-ssd-wal": (("data",), "pmem"),
    "pmem-both": (("wal", "data"), "pmem"),
}


def advised(
    root: Path,
    gains: Mapping[str, float],
    blocks: int = 8,
    looks: int = 1,
    arms: Mapping[str, tuple[tuple[str, ...], str]] = ARMS,
) -> list[Answer]:
    """Return the answers where arms are so many times as fast as today's tier."""
    noise = [[1 + 0.01 * ((block * wave) % 5) for wave in range(1, 6)] for block in range(blocks)]
    runs = [
        tpcc(
            root,
            name,
            block,
            60_000 * gains.get(name, 1) * noise[block][arm],
            looks=looks,
            sync_us=400 / gains.get(name, 1),
        )
        for block in range(blocks)
        for arm, name in enumerate(arms)
    ]
    today, *trials = trials_of(runs, arms)
    return answers(today, trials, runs)


def asked(advice: list[Answer]) -> list[tuple[str, str, str]]:
    return [(answer.group.a.name, answer.group.b.name, answer.group.verdict) for answer in advice]


def test_the_smallest_move_that_gains_all_comes_first(tmp_path: Path) -> None:
    advice = advised(tmp_path, {"ssd-data-pmem-wal": 3, "pmem-both": 3})
    assert asked(advice) == [
        ("ssd-both", "ssd-data-pmem-wal", "faster"),
        ("ssd-data-pmem-wal", "pmem-both", "no difference"),
        ("ssd-both", "pmem-data-ssd-wal", "no difference"),
    ]
    value = advice[0].to_json()["value"]
    assert value["low"] < 3 < value["high"]
    assert value["value"] == pytest.approx(3, rel=0.05)
    (why,) = advice[0].to_json()["why"]
    assert (why["part"], why["operation"]) == ("wal", "sync") and why["text"] in advice[0].sentence
    assert next(lines(advice)) == advice[0].sentence
    assert "in 0.9 % of the time" in advice[2].sentence  # the data


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


def test_over_several_tiers_every_two_arms_are_one_family(tmp_path: Path) -> None:
    """The results choose which of them are compared, so all of them count."""
    arms = {**ARMS, "nvme-data-ssd-wal": (("data",), "nvme")}
    gains = {"ssd-data-pmem-wal": 3, "pmem-both": 3, "nvme-data-ssd-wal": 2}
    first, more, *_ = advised(tmp_path, gains, arms=arms)
    families = [present(present(answer.group.deciding).decision).family for answer in (first, more)]
    assert families == [4, 6]


def test_nothing_moves_where_nothing_gains_and_few_pairs_decide_nothing(tmp_path: Path) -> None:
    advice = advised(tmp_path / "a", {})
    assert {verdict for _, _, verdict in asked(advice)} == {"no difference"}
    assert not any(answer.undecided for answer in advice)
    advice = advised(tmp_path / "b", {"pmem-both": 3}, blocks=2)
    assert all(answer.undecided for answer in advice)
    assert advice[0].to_json()["pairs"] == 2


@pytest.mark.parametrize(("blocks", "verdict"), [(7, "not resolvable"), (8, "faster")])
def test_all_arms_are_one_family(tmp_path: Path, blocks: int, verdict: str) -> None:
    """With 7 pairs, a difference could be shown in one comparison, and not in three."""
    advice = advised(tmp_path, {"ssd-data-pmem-wal": 3, "pmem-both": 3}, blocks, looks=2)
    assert advice[0].group.verdict == verdict


@pytest.mark.parametrize("arms", [2, 3])
def test_the_command_for_more_repeats_counts_the_look_that_it_adds(tmp_path: Path, arms: int):
    """With as many repeats as it has, a difference is shown; with one less, none can be."""
    places = ("ssd-both", "pmem-both", "ssd-data-pmem-wal")[:arms]

    def groups(blocks: int, looks: int) -> list[Group]:
        runs = [
            tpcc(tmp_path / f"{blocks}-{looks}", place, block, 60_000 * (1 + arm), looks=looks)
            for block in range(blocks)
            for arm, place in enumerate(places)
        ]
        (panel,) = panels(runs, "placement", "ssd-both")
        return list(panel.groups)

    *_, option, repeats = more_repeats(groups(2, 1)).split()
    assert option == "--repeats"
    for blocks, verdict in ((int(repeats), "faster"), (int(repeats) - 1, "not resolvable")):
        assert {group.verdict for group in groups(blocks, 2)} == {verdict}


def test_the_plan_says_what_it_expects_and_then_how_far_off_that_was(tmp_path: Path) -> None:
    """As the comparison of the same arms does; a placement on a tier without a baseline is left
    out."""
    runs = [
        tpcc(tmp_path, placement, block, 60_000 * gain)
        for block in range(6)
        for placement, gain in (("ssd-both", 1.0), ("pmem-both", 1.5))
    ]
    today, trial = trials_of(runs, {name: ARMS[name] for name in ("ssd-both", "pmem-both")})
    placements = {
        f"{tier}-both": dict.fromkeys(("data", "wal", "temp", "index"), tier)
        for tier in ("pmem", "nvme")
    }
    sources = TierSources()
    assert expected([], placements, sources) == expected(today.runs, placements, sources) == []
    for tier, us in (("ssd", 100.0), ("pmem", 3.0)):
        baseline_suite(tmp_path, tier, dict.fromkeys(("read", "write", "sync"), us))
    sources = TierSources.of(Store(tmp_path).runs(), ())
    (before,) = expected(today.runs, placements, sources)
    (row,) = explained_rows(tmp_path)
    assert before.b == "pmem-both" and before.predicted == row.predicted
    assert before.to_json()["residual"] is before.to_json()["measured"] is None
    (after,) = met([before], today, [trial])
    document = after.to_json()
    assert document["measured"]["value"] == pytest.approx(1.5)
    assert document["residual"] == pytest.approx(present(row.residual))
    assert before.sentence.rstrip(".") in after.sentence
    assert met([before], today, []) == []
