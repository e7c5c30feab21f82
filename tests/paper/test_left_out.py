"""Numbers that the papers print and published.csv leaves out: left-out.csv next to it."""

from __future__ import annotations

import csv
import re

import pytest

from harness.paper.catalogue import known_papers
from reports.micro.papers import published_file
from reports.published import read_published

#: What a reason begins with (docs/papers.md).
REASONS = {"set-up", "machine", "definition", "bound", "no value", "row", "follows", "calculated",
           "cited", "query numbers", "not here"}  # fmt: skip
PLACE = re.compile(r"(abstract|sec\d(\.\d)*|fig\d+|table\d+)(, (?!$)|$)")


@pytest.mark.parametrize("name", known_papers())
def test_what_is_left_out_has_its_place_and_a_reason(name: str) -> None:
    published = published_file(name)
    figures = {one.figure for one in read_published(published)}
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
