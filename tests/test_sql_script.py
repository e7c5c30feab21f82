"""Statements of scripts: what ends one, in each engine's strings and comments."""

from __future__ import annotations

import pytest

from harness.sql_script import dumped, script, split


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
    found = [
        (one.text, one.rows and list(one.rows)) for one in script(text.splitlines(True), False)
    ]
    assert found == [("COPY t (a, b) FROM stdin", ["1\t';\n", "2\t\\N\n"]), ("select 1", None)]


def test_a_dump_s_owners_rights_and_limits_are_left_out() -> None:
    text = (
        "SET lock_timeout = 0; SET check_function_bodies = false; CREATE TABLE t (a int);"
        "ALTER TABLE public.t OWNER TO somebody; GRANT ALL ON t TO public; REVOKE ALL ON t FROM x;"
        "ALTER TABLE t ADD CONSTRAINT c CHECK (a <> 'x OWNER TO y');"
    )
    kept = [one.text.split("(")[0].strip() for one in dumped([text], backslash=False)]
    assert kept == [
        "SET check_function_bodies = false",
        "CREATE TABLE t",
        "ALTER TABLE t ADD CONSTRAINT c CHECK",
    ]
