"""``-p only=``: shell patterns with commas between them, of names that have commas themselves."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.micro.keys import Patterns, chosen

ALL = [
    f"{name}/kernel={kernel},threads={threads}"
    for name in ("sequential", "latency")
    for kernel in ("load", "ntstore+sfence")
    for threads in (1, 2)
]


def only(text: str) -> list[str]:
    return chosen(ALL, Patterns().parse("only", text), lambda name: (name.partition("/")[0], name))


def test_a_configuration_is_named_as_it_is_printed() -> None:
    for name in ALL:
        assert only(name) == [name]
    assert only(f"{ALL[5]},{ALL[0]}") == [ALL[0], ALL[5]]


def test_a_name_with_commas_stands_beside_patterns_without() -> None:
    assert only(f"latency,{ALL[1]}") == [ALL[1], *ALL[4:]]
    assert only(f"{ALL[1]},latency") == [ALL[1], *ALL[4:]]
    assert only("sequential/kernel=l*,threads=2") == [ALL[1]]


def test_what_matches_by_itself_is_a_pattern_of_its_own() -> None:
    """Both, not those that are both: as if no name had a comma."""
    assert only("*kernel=load*,*threads=1") == [name for name in ALL if "load" in name
                                                or name.endswith("=1")]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("latncy", "latncy"),
        ("latency,chase", "chase"),
        ("latency/kernel=load,threads=3", "latency/kernel=load"),
        (f"{ALL[0]},threads=9", "threads=9"),
        ("latency,", ""),
    ],
)
def test_what_matches_nothing_is_refused_by_name(text: str, missing: str) -> None:
    with pytest.raises(UsageError) as refused:
        only(text)
    assert refused.value.problem == f"--param only={text}"
    assert f"the name {missing!r}" in refused.value.context
    assert "its measurements: sequential, latency;" in refused.value.hint


def test_without_patterns_it_is_all() -> None:
    assert chosen(ALL, (), lambda name: (name, name)) == ALL
