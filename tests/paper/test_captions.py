"""Every figure and table of the five texts has its place in ``harness paper``, once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.paper.catalogue import Caption, Entry, Paper, find_paper, known_papers

#: By paper, the numbers of the last figure and the last table in its text.
TEXTS = {
    "bento": (2, 0),
    "empirical-guide": (18, 0),
    "nvm-for-databases": (12, 7),
    "perma-bench": (15, 2),
    "pmem-io-primitives": (6, 0),
}


def captions(figures: int, tables: int) -> Iterator[str]:
    yield from (f"Fig {number}" for number in range(1, figures + 1))
    yield from (f"Table {number}" for number in range(1, tables + 1))


def test_the_texts_are_those_of_the_papers() -> None:
    assert TEXTS.keys() == known_papers().keys()


@pytest.mark.parametrize("name", TEXTS)
def test_each_caption_is_named_once_and_has_a_reason(name: str) -> None:
    found = find_paper(name).captions()
    assert [one.name for one in found] == list(captions(*TEXTS[name]))
    assert all(bool(one.why) == (one.state != "measured") for one in found)


def test_the_best_entry_of_a_caption_decides() -> None:
    differing = Entry("Fig 2 and 3a: rates", suite="x", differs="ext4")
    paper = Paper(
        "p",
        "P",
        (
            differing,
            Entry("Fig 2: in full", suite="y"),
            Entry("Fig 4: a drawing", missing="a drawing"),
            Entry("Section 5: words", suite="z"),
        ),
    )
    assert paper.captions() == [
        Caption("Fig 2", "measured"),
        Caption("Fig 3", "stand-in", "ext4"),
        Caption("Fig 4", "impossible here", "a drawing"),
    ]
