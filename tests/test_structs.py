"""Documents as structs: what fits, and which key is to blame for what does not."""

from typing import Annotated, Literal

import pytest
from msgspec import Meta

from harness.errors import UsageError
from harness.structs import Misfit, Struct, convert, json_schema, whole
from harness.yamlfile import parse_yaml

Name = Annotated[str, whole("[a-z]+", "small letters")]


class Part(Struct, frozen=True):
    kind: Literal["block", "tmpfs"]
    size: Annotated[int, Meta(ge=1, description="in bytes")] = 1
    share: float | None = None

    def __post_init__(self) -> None:
        if self.share == 0:
            raise Misfit("nothing is left", "choose more", "share")


class Whole(Struct, frozen=True, tag_field="schema", tag=1):
    documented = "docs/whole.md"
    parts: Annotated[dict[Name, Part], Meta(min_length=1)]
    rows: tuple[Part, ...] = ()
    pair: tuple[int, str] | None = None
    settings: dict[str, str | int | bool] | None = None


def test_a_document_is_read_with_its_defaults() -> None:
    text = "schema: 1\nparts: {a: {kind: block, share: 2}}\nsettings: {x: 1, y: true}\n"
    document = parse_yaml(text, "x.yml").to(Whole)
    assert document == Whole({"a": Part("block", 1, 2.0)}, settings={"x": 1, "y": True})
    assert document.settings and document.settings["y"] is True


@pytest.mark.parametrize(
    ("below", "line", "context", "hint"),
    [
        ("  a: {kind: block, sise: 1}", 3, "(did you mean 'size'?)", "kind, share, size"),
        ("  a: {kind: blok}", 3, "parts.a.kind \"blok\"", "docs/whole.md"),
        ("  a: {kind: blok}", 3, "(did you mean 'block'?)", ""),
        ("  a:\n    kind: block\n    size: 0", 5, "parts.a.size 0: ", "in bytes"),
        ("  a: {kind: block, size: 1.0}", 3, "parts.a.size 1.0: ", "in bytes"),
        ("  a: {kind: block, size: true}", 3, "parts.a.size true: ", "in bytes"),
        ("  a: {kind: tmpfs}\n  b: {size: 5}", 4, "'kind'", ""),
        ("  A: {kind: block}", 3, "'A'", "small letters"),
        ("  1: {kind: block}", 2, "the key 1", "'1'"),
        ("  a: {kind: block, share: 0}", 3, "parts.a.share: ", "choose more"),
        ("  a: {kind: block}\nrows:\n- {kind: block}\n- {kind: 3}", 6, "rows.1.kind 3: ", ""),
        ("  a: {kind: block}\npair: [1]", 4, "pair: ", ""),
        ("  a: {kind: block}\npair: [1, 2]", 4, "pair.1 2: ", ""),
        ("  a: {kind: block}\nsettings: {a: 1, b: [2]}", 4, "settings.b: ", ""),
        ("  a: {kind: block}\nsettings: 3", 4, "settings 3: ", ""),
        ("  {}", 2, "parts: ", ""),
        ("  a: {kind: block}\nparst: 3", 4, "(did you mean 'parts'?)", "parts"),
    ],
)  # fmt: skip
def test_a_slip_is_named_with_its_line(below: str, line: int, context: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_yaml(f"schema: 1\nparts:\n{below}\n", "x.yml").to(Whole)
    assert refused.value.problem == f"x.yml:{line}"
    assert context in refused.value.context
    assert hint in refused.value.hint


@pytest.mark.parametrize("version", [{}, {"schema": 2}, {"schema": "1"}])
def test_a_document_of_another_version_is_refused(version: dict[str, object]) -> None:
    with pytest.raises(UsageError) as refused:
        convert({**version, "parts": {"a": {"kind": "block"}}}, Whole, "here")
    assert "schema" in refused.value.context


def test_a_name_with_a_newline_at_its_end_does_not_fit() -> None:
    with pytest.raises(UsageError):
        convert({"schema": 1, "parts": {"a\n": {"kind": "block"}}}, Whole, "here")


def test_the_schema_of_other_programs_is_closed_and_has_the_version() -> None:
    schema = json_schema(Whole)["$defs"]["Whole"]
    assert schema["properties"]["schema"] == {"enum": [1]}
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["schema", "parts"]
