"""What is replaced by what, in text."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.rewrite.assembled import apply
from harness.rewrite.rules import RULES, read_rule


def test_a_fence_after_a_label_follows_at_once() -> None:
    lines = ["\tclflush (%rdi)", ".L_1:", ".cfi_endproc", "\tsfence ", "\tclflush 8(%rdi)", "\tret"]
    new, used, added = apply(lines, RULES)
    assert new == [
        "\tclwb (%rdi)", ".L_1:", ".cfi_endproc", "\tsfence ", "\tclwb 8(%rdi)", "\tsfence", "\tret"
    ]  # fmt: skip
    assert (used, added) == ([RULES[0]] * 2, [False, True])


@pytest.mark.parametrize(
    ("old", "new"),
    [("clflush", "clwb"), ("clflush", "clflush+sfence"), ("sfence", "clwb"), ("clwb", "movnti")],
)
def test_a_rule_that_would_lose_data_is_refused(old: str, new: str) -> None:
    with pytest.raises(UsageError):
        read_rule(old, new)
