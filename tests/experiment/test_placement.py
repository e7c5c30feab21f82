"""The placement grammar, as examples of use."""

import pytest

from harness.errors import UsageError
from harness.experiment.placement import parse_placement


def test_both_puts_every_directory_part_on_one_tier():
    placement = parse_placement("pmem-both")
    assert (placement.data, placement.wal, placement.temp, placement.index) == ("pmem",) * 4
    assert placement.memory is None
    assert placement.tiers() == ["pmem"]


def test_the_papers_names_split_data_from_the_log():
    placement = parse_placement("ssd-data-pmem-wal")
    assert (placement.data, placement.wal) == ("ssd", "pmem")
    assert (placement.temp, placement.index) == ("ssd", "ssd")
    assert placement.named == {"data", "wal"}


def test_parts_are_named_one_by_one_and_the_unnamed_follow_data():
    placement = parse_placement("data=ssd, temp=pmem_log, memory=cxl")
    assert placement.wal == "ssd"
    assert placement.index == "ssd"
    assert placement.temp == "pmem_log"
    assert placement.memory == "cxl"
    assert placement.tiers() == ["ssd", "pmem_log", "cxl"]
    assert placement.to_json()["name"] == "data=ssd, temp=pmem_log, memory=cxl"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pmem", "not in the placement grammar"),
        ("PMEM-both", "not in the placement grammar"),
        ("data=ssd,wla=pmem", "'wla' is not a part (did you mean 'wal'?)"),
        ("wal=pmem", "the part 'data' is not named"),
        ("data=ssd,data=pmem", "named twice"),
        ("data=9ssd", "is not a tier name"),
        ("", "not in the placement grammar"),
    ],
)
def test_what_is_not_a_placement_is_refused_with_what_to_write(text, found):
    with pytest.raises(UsageError) as refused:
        parse_placement(text)
    assert found in refused.value.context
    assert refused.value.exit_code == 2
    assert "data" in refused.value.hint
