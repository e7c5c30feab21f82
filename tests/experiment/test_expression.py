"""Arithmetic in profiles."""

import pytest

from harness.errors import UsageError
from harness.yamlfile import evaluate


def test_variables_units_and_functions():
    assert evaluate("= 0.25 * memory", {"memory": 8 * 2**30}, "x.yml:3") == 2 * 2**30
    assert evaluate("=max(4 * MiB, memory // 64)", {"memory": 0}, "x.yml:3") == 4 * 2**20


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("= memroy / 4", "did you mean 'memory'?"),
        ("= __import__('os')", "is not arithmetic"),
        ("= (1).real", "is not arithmetic"),
        ("= 1 / 0", "division by zero"),
        ("= 1 +", "invalid syntax"),
        ("= 2 ** 99", "is not arithmetic"),
        ("= 1e400", "not finite"),
        ("= 1e308 * 10", "not finite"),
        ("= 1e308 * 10 - 1e308 * 10", "not finite"),
        ("= floor(1e400)", "cannot convert float infinity"),
    ],
)
def test_anything_else_is_refused_naming_the_line(text, found):
    with pytest.raises(UsageError) as refused:
        evaluate(text, {"memory": 1}, "x.yml:3")
    assert refused.value.problem == "x.yml:3"
    assert found in refused.value.context
