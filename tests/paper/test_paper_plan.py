"""Profiles and suites that repeat a paper, and the part that a budget allows."""

import csv
import re
from collections.abc import Iterator

import pytest

from harness.errors import UsageError
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_time import Estimator
from harness.experiment.placement import parse_placement
from harness.experiment.profile import find_profile, known_profiles, load_profile
from harness.micro.suite import find_suite, known_suites, load_documents
from harness.paper.catalogue import Caption, FigureEntry, Paper, find_paper, known_papers
from harness.paper.plan import (
    CellRun,
    FigureCell,
    choose,
)
from harness.store.spec import RunSpec
from reports.micro.as_published import published_file
from reports.published import read_published

S = 10**9


@pytest.mark.parametrize("name", known_papers())
def test_every_figure_names_what_repeats_it_or_why_nothing_does(name):
    for entry in find_paper(name).entries:
        assert bool(entry.profile) + bool(entry.suite) + bool(entry.missing) <= 1
        assert entry.profile or entry.suite or entry.missing or entry.published
        if entry.profile:
            assert load_profile(find_profile(entry.profile)).runs
        if entry.suite:
            assert load_documents(find_suite(entry.suite)) and entry.tiers


def test_no_profile_or_suite_of_a_paper_is_left_out():
    entries = [entry for name in known_papers() for entry in find_paper(name).entries]
    profiles = {name for name in known_profiles() if name.startswith("papers/")}
    assert {entry.profile for entry in entries} - {""} == profiles
    repeating = {
        name
        for name, path in known_suites().items()
        if path.is_file() and "paper" in load_documents(path)[0].value.get("published", {})
    }
    assert repeating <= {entry.suite for entry in entries}


def part(
    placement: str = "ssd-both", duration: str = "50s", why: str = "", users: int = 8
) -> CellRun:
    """A run of TPC-C: by assumption, its window and ten seconds."""
    spec = RunSpec("tpcc", "postgres", parse_placement(placement),
                   {"warehouses": 1, "users": users, "ramp_up": "0s", "duration": duration},
                   driver="loadgen")  # fmt: skip
    return CellRun(placement, why=why, step=ResolvedRun(spec))


PLAN = load_profile(find_profile("papers/nvm-for-databases/fig5"))


def both(entry: int, turn: int = 0) -> FigureCell:
    parts = (part("ssd-both", users=turn + 8), part("pmem-both", users=turn + 8))
    return FigureCell(entry, turn, "both", parts, PLAN)


def chosen(cells: list[FigureCell], budget_s: int) -> list[tuple[int, int]]:
    choice = choose(cells, budget_s * S, Estimator([]))
    return [(cell.entry, cell.turn) for cell in choice.cells]


def test_the_first_comparison_of_every_figure_comes_before_the_second_of_any():
    cells = [both(0, 0), both(0, 1), both(1, 2)]
    assert chosen(cells, 3600) == [(0, 0), (0, 1), (1, 2)]
    cells = [
        both(0, 1),
        both(0, 2),
        FigureCell(1, 0, "other", (part(users=1), part(users=2)), PLAN),
    ]
    assert chosen(cells, 3600) == [(1, 0), (0, 1), (0, 2)]


def test_a_budget_leaves_out_what_does_not_fit_and_takes_what_does():
    long = FigureCell(
        0, 0, "long", (part(duration="10m", users=1), part(duration="10m", users=2)), PLAN
    )
    choice = choose([long, both(1)], 120 * S, Estimator([]))
    assert [cell.entry for cell in choice.cells] == [1]
    assert choice.estimated_ns == 110 * S
    assert list(choice.left_out) == [(0, 0)]


def test_a_run_that_two_figures_share_is_paid_once():
    choice = choose([both(0), both(1)], 120 * S, Estimator([]))
    assert [cell.entry for cell in choice.cells] == [0]
    assert choice.left_out == {}


def test_a_paper_of_the_users_is_a_file(tmp_path):
    file = tmp_path / "mine.yml"

    def paper(*figures: str) -> Paper:
        lines = "".join(f"  - {{{figure}}}\n" for figure in figures)
        file.write_text(f"schema: 1\ntitle: Mine\nfigures:\n{lines}")
        return find_paper(str(file))

    mine = paper("figure: Fig 1, suite: quick, tiers: [dram]")
    assert (mine.name, mine.title, mine.published) == ("mine", "Mine", None)
    assert mine.entries[0].suite == "quick"
    shipped = "papers/nvm-for-databases/fig5"
    single, two, three = paper("figure: Fig 1, profile: one.yml",
                            "figure: Fig 2, suite: two.yml, tiers: [dram]",
                            f"figure: Fig 3, profile: {shipped}").entries  # fmt: skip
    assert (single.profile, two.suite) == (str(tmp_path / "one.yml"), str(tmp_path / "two.yml"))
    assert three.profile == shipped
    with pytest.raises(UsageError, match=r"mine\.yml:4"):
        paper("figure: Fig 1, sweet: quick")


# Captions and numbers ----------------------------------------------------------

#: By paper, the numbers of the last figure and the last table in its text; none of those of which
#: there is an abstract or an artifact alone.
TEXTS = {
    "bento": (2, 0),
    "cxl-memory": (0, 0),
    "empirical-guide": (18, 0),
    "nvm-for-databases": (12, 7),
    "perma-bench": (15, 2),
    "pmem-nvme": (0, 0),
    "pmem-io-primitives": (6, 0),
}


def captions(figures: int, tables: int) -> Iterator[str]:
    yield from (f"Fig {number}" for number in range(1, figures + 1))
    yield from (f"Table {number}" for number in range(1, tables + 1))


def test_the_texts_are_those_of_the_papers():
    assert TEXTS.keys() == known_papers().keys()


@pytest.mark.parametrize("name", TEXTS)
def test_each_caption_is_named_once_and_has_a_reason(name):
    named = find_paper(name).captions()
    assert [caption.name for caption in named] == list(captions(*TEXTS[name]))
    assert all(bool(caption.why) == (caption.state != "measured") for caption in named)


def test_the_best_entry_of_a_caption_decides():
    entries = (
        FigureEntry("Fig 2 and 3a: rates", suite="x", differs="ext4"),
        FigureEntry("Fig 2: in full", suite="y"),
        FigureEntry("Fig 4: a drawing", missing="a drawing"),
        FigureEntry("Section 5: words", suite="z"),
    )
    assert Paper("p", "P", entries).captions() == [
        Caption("Fig 2", "measured"),
        Caption("Fig 3", "stand-in", "ext4"),
        Caption("Fig 4", "impossible here", "a drawing"),
    ]


#: What a reason begins with (docs/papers.md).
REASONS = {"set-up", "machine", "definition", "bound", "no value", "row", "follows", "calculated",
           "cited", "query numbers", "not here"}  # fmt: skip
PLACE = re.compile(r"(abstract|sec\d(\.\d)*|fig\d+|table\d+)(, (?!$)|$)")


@pytest.mark.parametrize("name", known_papers())
def test_what_is_left_out_has_its_place_and_a_reason(name):
    published = published_file(name)
    figures = {row.figure for row in read_published(published)}
    with published.with_name("left-out.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert rows
    for row in rows:
        assert PLACE.sub("", row["place"]) == ""
        assert row["numbers"]
        code, _, where = row["reason"].partition(": ")
        assert code in REASONS
        if code == "row":  # the row that has the number already
            assert not where.startswith("fig") or where.split(",")[0] in figures
        assert code not in ("row", "follows", "not here", "no value") or where
