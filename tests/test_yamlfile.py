"""YAML errors name the file, the line and the nearest valid key."""

import pytest

from harness.errors import UsageError
from harness.yamlfile import load_yaml, parse_yaml

PROFILE = """\
schema: 1
name: fig-2
description: what it is
workload: tpch
axes:
  engine: [duckdb]
fixed:
  parms: {scale: 1}
"""


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_valid_one(tmp_path):
    file = tmp_path / "fig2.yml"
    file.write_text(PROFILE)
    with pytest.raises(UsageError) as refused:
        load_yaml(file, "profile")
    assert refused.value.problem == f"{file}:8"
    assert "unknown key 'parms' (did you mean 'params'?)" in refused.value.context
    assert "params" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "twice"),
        ("a: 1\n? [a, b]\n: 2\n", 2, "a key that is a list"),
        ("a: &a [*a]\n", 1, "alias"),
        ("a: 1\nb: &b {c: {d: *b}}\n", 2, "alias"),
        ("a: 1\nprice_per_gb: .inf\n", 2, ".inf is not a finite number"),
        ("a: [1, .NaN]\n", 1, ".NaN is not a finite number"),
        ("a: 1\nb: 1.0e+999\n", 2, "not a finite number"),
        ("a: 1\nb: " + "9" * 9999 + "\n", 2, "digits"),
        ("[" * 5000, 1, "nested too deeply"),
        ("a: \x00\n", 1, "not allowed"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_what_json_cannot_say_is_refused_with_its_line(text, line, found):
    with pytest.raises(UsageError) as refused:
        parse_yaml(text, "x.yml")
    assert refused.value.problem == f"x.yml:{line}"
    assert found in refused.value.context


def test_an_alias_to_another_place_and_a_date_are_what_they_look_like():
    assert parse_yaml("a: &a [1]\nb: [*a, *a]\n", "x.yml").value["b"] == [[1], [1]]
    assert parse_yaml("day: 1998-12-01\n", "x.yml").value == {"day": "1998-12-01"}


@pytest.mark.parametrize("each", ["a{n}: &a{n} [{uses}]", "a{n}: &a{n}\n  <<: [{uses}]\n  k{n}: 1"])
def test_aliases_of_aliases_are_refused_before_they_are_expanded(each):
    lines = ["a0: &a0 {k: 1}"]
    for level in range(1, 30):
        lines.append(each.format(n=level, uses=", ".join([f"*a{level - 1}"] * 9)))
    with pytest.raises(UsageError) as refused:
        parse_yaml("\n".join(lines), "bomb.yml")
    assert "aliases expanded" in refused.value.context
