"""Sizes, durations, JSON, YAML and SQL scripts: what is read, and what is refused."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repeatable import repeatable

from harness import jsonfile
from harness.errors import UsageError
from harness.experiment.profile_document import Profile
from harness.sql_script import dumped, masked, script, split
from harness.units import format_bytes, format_ns, parse_duration_ns, parse_size, suffixed_number
from harness.yamlfile import load_yaml, parse_yaml


def test_gb_is_decimal_and_gib_is_binary():
    assert parse_size("4GB") == 4 * 10**9
    assert parse_size("4GiB") == 4 * 2**30
    assert parse_size("1.5 MiB") == 1572864
    assert parse_size(8192) == 8192


@pytest.mark.parametrize("text", ["4G", "lots", "-1GiB", "", "4 Gib b", "9" * 400 + "GiB"])
def test_an_ambiguous_or_wrong_size_is_refused(text):
    with pytest.raises(UsageError):
        parse_size(text)


def test_durations():
    assert parse_duration_ns("3m") == 180 * 10**9
    assert parse_duration_ns("250ms") == 250 * 10**6


@pytest.mark.parametrize("thousandths", [128_575, 129_599, 4_350, 1])
def test_decimals_are_not_cut_off(thousandths):
    assert parse_duration_ns(f"{thousandths / 1000:.3f}us") == thousandths
    assert parse_size(f"{thousandths / 1000:.3f}KB") == thousandths


@pytest.mark.parametrize("text", ["30", "s", "-1s", "9" * 400 + "s"])
def test_a_wrong_duration_is_refused(text):
    with pytest.raises(UsageError):
        parse_duration_ns(text)


def test_formats_keep_three_significant_figures():
    assert format_bytes(1536) == "1.5 KiB"
    assert format_ns(1_234_567_890) == "1.23 s"
    assert format_ns(45_600_000) == "45.6 ms"
    assert format_ns(789) == "789 ns"


@repeatable
@given(st.integers(min_value=0, max_value=10**18))
def test_a_plain_number_of_bytes_comes_back_as_it_is(size):
    assert parse_size(str(size)) == pytest.approx(size, rel=1e-15)


# JSON within bounds ---------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "NaN", "-Infinity", "1e999", "9" * 41, "9" * 5000, "[" * 100_000, "[" * 129 + "]" * 129,
     b"\xff", '{"a": 1e400}', "{} {}"],
)  # fmt: skip
def test_what_exceeds_the_bounds_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        jsonfile.parse(text)


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("[" * 128 + "]" * 128, None),
        (str(2**128 - 1), 2**128 - 1),
        ("[1.5, -2e3]", [1.5, -2000.0]),
        (r'"\ud83d\ude00 \ud800"', "\U0001f600 ?"),
        ('{"[": "' + "[" * 1000 + '"}', {"[": "[" * 1000}),
    ],
)
def test_what_does_not_is_read(text: str, document: object) -> None:
    assert document is None or jsonfile.parse(text) == document


def test_only_regular_files_of_bounded_size_are_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_text("[1, 2, 3]")
    os.mkfifo(tmp_path / "fifo")
    assert jsonfile.read(tmp_path / "large") == [1, 2, 3]
    for name, most_bytes in (("large", 8), ("fifo", 100)):
        with pytest.raises(ValueError, match="it is"):
            jsonfile.read(tmp_path / name, most_bytes)
    with pytest.raises(OSError):
        jsonfile.read(tmp_path)


# YAML -----------------------------------------------------------------------------


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
        load_yaml(file).to(Profile)
    assert refused.value.problem == f"{file}:8"
    assert "key 'parms'" in refused.value.context and "'params'?" in refused.value.context
    assert "params" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "twice"),
        ("a: 1\n? [a, b]\n: 2\n", 2, "a key that is a list"),
        ("a: &a [*a]\n", 1, "alias"),
        ("a: 1\nb: &b {c: {d: *b}}\n", 2, "alias"),
        ("a: 1\nprice_per_gb: .inf\n", 2, ".inf is not a finite number"),
        ("a: [1, .NaN]\n", 1, ".NaN is not a finite number"),
        ("a: 1\nb: 1.0e+999\n", 2, "not a finite number"),
        ("a: 1\nb: " + "9" * 9999 + "\n", 2, "digits"),
        ("[" * 5000, 1, "nest"),
        ("[" * 500 + "]" * 500, 1, "levels"),
        ("a: \x00\n", 1, "not allowed"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_what_json_cannot_say_is_refused_with_its_line(text, line, problem):
    with pytest.raises(UsageError) as refused:
        parse_yaml(text, "x.yml")
    assert refused.value.problem == f"x.yml:{line}"
    assert problem in refused.value.context


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


# Statements of scripts ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("select 1; select 2", ["select 1", "select 2"]),
        ("select ';', \"a;b\", $$c;$$, $x$d;$$;$x$;", ["select ';', \"a;b\", $$c;$$, $x$d;$$;$x$"]),
        ("select 'it''s;' -- one; two\n, 2;", ["select 'it''s;' \n, 2"]),
        ("/* a;\nb */ select /*+ hint; */ 1;", ["select /*+ hint; */ 1"]),
        ("select E'a\\';b', date'2020-01-01', '\\';", ["select E'a\\';b', date'2020-01-01', '\\'"]),
        ("\\restrict key\n; ;\nselect 'a\n;b'", ["select 'a\n;b'"]),
    ],
)
def test_standard_strings(text: str, statements: list[str]) -> None:
    assert split(text, backslash=False) == statements


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("select 'a\\';b', \"c\\\";\";", ["select 'a\\';b', \"c\\\";\""]),
        ("/*!40101 SET @a = 1; */;\nselect `a;b` # c;\n;",
         ["/*!40101 SET @a = 1; */", "select `a;b`"]),
        ("delimiter ;;\ncreate trigger t begin a; b; end ;;\ndelimiter ;\nselect 1;",
         ["create trigger t begin a; b; end", "select 1"]),
        ("select 1--1;", ["select 1--1"]),
    ],
)  # fmt: skip
def test_strings_with_backslashes(text: str, statements: list[str]) -> None:
    assert split(text, backslash=True) == statements


def test_rows_of_a_copy_follow_its_statement() -> None:
    text = "COPY t (a, b) FROM stdin;\n1\t';\n2\t\\N\n\\.\n\nselect 1;\n"
    statements = [
        (statement.text, statement.rows and list(statement.rows))
        for statement in script(text.splitlines(True), False)
    ]
    assert statements == [("COPY t (a, b) FROM stdin", ["1\t';\n", "2\t\\N\n"]), ("select 1", None)]


@pytest.mark.parametrize(
    ("statement", "backslash", "expected"),
    [
        ("select 'a;--', \"b\" /*+ c */ || $$d'$$", False, "select xxxxxx, xxx /*+ c */ || xxxxxx"),
        (r"select 'a\'b', `c`", True, "select xxxxxx, xxx"),
        (r"select 'a\', 1 -- '", False, "select xxxx, 1"),
        ("select e'a\\'\nb'", False, "select xxxxx\nxx"),
    ],
)
def test_strings_and_quoted_names_are_masked(
    statement: str, backslash: bool, expected: str
) -> None:
    (text,) = split(statement, backslash)
    hidden = masked(text, backslash)
    assert hidden.replace("\n", "x") == expected.replace("\n", "x") and len(hidden) == len(text)


def test_a_dump_s_owners_rights_and_limits_are_left_out() -> None:
    text = (
        "SET lock_timeout = 0; SET check_function_bodies = false; CREATE TABLE t (a int);"
        "ALTER TABLE public.t OWNER TO somebody; GRANT ALL ON t TO public; REVOKE ALL ON t FROM x;"
        "ALTER TABLE t ADD CONSTRAINT c CHECK (a <> 'x OWNER TO y');"
    )
    names = [statement.text.split("(")[0].strip() for statement in dumped([text], backslash=False)]
    assert names == [
        "SET check_function_bodies = false",
        "CREATE TABLE t",
        "ALTER TABLE t ADD CONSTRAINT c CHECK",
    ]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("64M", 64 << 20), ("4gb", 4 << 30), ("1E", 1 << 60), (" 10B ", 10), ("-3k", -3072),
        ("1.5G", 1.5 * 2**30), ("1e3", 1000.0), (f"{2**63 - 1}", 2**63 - 1),
        ("64MiB", None), ("off", None), ("", None), ("0x10", None),
    ],
)  # fmt: skip
def test_suffixes_of_other_programs_are_1024_based(text, number):
    assert suffixed_number(text) == number
    assert isinstance(suffixed_number("64M"), int)


def test_a_bare_number_may_have_a_unit_of_its_own():
    assert (suffixed_number("512", bare="m"), suffixed_number("2g", bare="m")) == (
        512 << 20,
        2 << 30,
    )
