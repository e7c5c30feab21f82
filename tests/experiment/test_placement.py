"""The placement grammar, as examples of use."""

import pytest

from harness.errors import UsageError
from harness.experiment.placement import parse_placement


@pytest.mark.parametrize(
    ("text", "parts", "memory", "tiers"),
    [
        ("pmem-both", "pmem pmem pmem pmem", None, ["pmem"]),
        ("ssd-data-pmem-wal", "ssd pmem ssd ssd", None, ["ssd", "pmem"]),
        # The unnamed follow data.
        ("data=ssd, temp=pmem_log, memory=cxl", "ssd ssd pmem_log ssd", "cxl",
         ["ssd", "pmem_log", "cxl"]),
    ],
)  # fmt: skip
def test_a_placement_puts_each_part_on_a_tier(text, parts, memory, tiers):
    placement = parse_placement(text)
    found = (placement.data, placement.wal, placement.temp, placement.index)
    assert (found, placement.memory) == (tuple(parts.split()), memory)
    assert (placement.tiers(), placement.to_json()["name"]) == (tiers, text)
    assert parse_placement("ssd-data-pmem-wal").named == {"data", "wal"}


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
