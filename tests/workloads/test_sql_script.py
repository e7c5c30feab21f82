"""Statements of scripts that others wrote: where they end, what they are for, what is left out."""

import pytest

from harness.errors import UsageError
from harness.sql_script import dumped, kind_of, lines_of, split

#: Texts of a single statement, by whether a backslash escapes: an inner semicolon ends none.
WHOLE = {
    "atomic": (
        False,
        "create function f(a int) returns int begin atomic select 1; "
        "select case when a > 0 then 1 else 2 end; end",
    ),
    "dollars": (False, "CREATE FUNCTION f() RETURNS trigger AS $a$ begin x; end; $a$ language sql"),
    "trigger": (
        True,
        "CREATE DEFINER=`a`@`%` TRIGGER t BEFORE INSERT ON b FOR EACH ROW BEGIN "
        "IF NEW.i > 0 THEN SET NEW.i = CASE WHEN 1 THEN 2 END; END IF; SET NEW.j = 1; END",
    ),
    "procedure": (
        True,
        "create procedure p() begin declare i int; l: loop set i = 1; leave l; end loop; "
        "case i when 1 then select 1; end case; begin select `end`; end; end",
    ),
    "row-if": (
        True,
        "create trigger t after insert on b for each row if new.i then set @a = 1; "
        "if @a then set @b = 1; end if; end if",
    ),
    "anonymous": (True, "begin not atomic select 1; select 2; end"),
}


@pytest.mark.parametrize("case", WHOLE)
def test_bodies_are_whole(case):
    backslash, text = WHOLE[case]
    assert split(f"select 0; {text}; select 9", backslash) == ["select 0", text, "select 9"]


def test_columns_named_like_words_of_a_body_end_nothing():
    text = "create table t (event int, begin datetime, `end` int)"
    assert split(f"{text}; select 1", True) == [text, "select 1"]


def test_a_delimiter_is_read_in_any_case_and_place():
    text = "  DELIMITER //\ncreate procedure p() begin select 1; end //\n\tDelimiter ;\nselect 2;"
    assert split(text, True) == ["create procedure p() begin select 1; end", "select 2"]


@pytest.mark.parametrize(
    ("text", "what", "name"),
    [
        ("create table if not exists a.b (i int)", "table", "a.b"),
        ('CREATE UNLOGGED TABLE public."My.T" (i int)', "table", 'public."My.T"'),
        ("create temporary table t (i int)", "other", ""),
        ("/*!50001 create table `v` (a int) */", "table", "`v`"),
        ("create function f() returns int as $$ create table x (i int) $$", "other", ""),
        ("/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`b`*/ /*!50003 TRIGGER t */", "final", ""),
        ("alter table a add column id int primary key", "other", ""),
        ("alter table only a add constraint k primary key (i)", "key", ""),
        ("alter table a add primary key (i), add key by_j (j)", "key", ""),
        ("alter table a add constraint f foreign key (i) references b (i)", "foreign key", ""),
        ("alter table a add fulltext index (t)", "index", ""),
        ("alter table a owner to b", "origin", ""),
        ("SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a:1-5'", "origin", ""),
        ("set @@session.sql_log_bin = 0", "origin", ""),
        ("set names utf8mb4", "session", ""),
        ("use `shop`", "database", "`shop`"),
        ("drop database if exists shop", "database", "shop"),
        ("copy t (a, b) from stdin with csv", "copy", ""),
        ("copy t from '/tmp/a.csv'", "file", ""),
        ("load data local infile '/tmp/a' into table t", "file", ""),
        ("insert into t select 'create table x'", "rows", ""),
        ("begin", "transaction", ""),
    ],
)
def test_what_a_statement_is_for(text, what, name):
    kind = kind_of(text, backslash="`" in text or "@" in text)
    assert (kind.what, kind.name) == (what, name)


def texts(script: str, backslash: bool = False) -> list[str]:
    return [statement.text for statement in dumped(lines_of(script), backslash, "d.sql")]


def test_statements_of_the_origin_are_left_out():
    assert texts(
        "create database shop; use shop;\nset sql_log_bin = 0;\n"
        "create definer=`a`@`b` sql security definer view v as select 'definer=x';",
        True,
    ) == ["create  sql security definer view v as select 'definer=x'"]
    assert texts("\ufeffcreate database shop;\n\\c shop\n\\connect shop;\nselect 1;") == [
        "select 1"
    ]


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("use a;\ninsert into t values (1);\nuse b;", 3),
        ("create database a;\n\\c b", 2),
        ("select 1;\n-- c\n  copy t\n from '/x';", 3),
        ("\\i x", 1),
    ],
)
def test_what_reaches_elsewhere_is_refused_with_its_line(script, line):
    with pytest.raises(UsageError) as refused:
        texts(script, "use" in script)
    assert refused.value.problem == f"d.sql, line {line}"
