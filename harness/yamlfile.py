"""YAML files a person edits: read with line numbers, so that an error can name the line.

Every YAML file of the project is read here. Duplicate keys are errors, and so are
unknown ones (by the file's JSON Schema), with the nearest valid key named.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness import schemas
from harness.errors import UsageError

#: A path into a document: keys and list positions.
Where = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A parsed file: its value and the line of every key and list item."""

    path: str
    value: Any
    lines: Mapping[Where, int]

    def line(self, where: Where) -> int:
        """The line (from 1) of the innermost known element of ``where``."""
        for end in range(len(where), -1, -1):
            if (found := self.lines.get(where[:end])) is not None:
                return found
        return 1

    def at(self, where: Where) -> str:
        """``host.yml:12``: for error messages; the path alone where there are no lines."""
        return f"{self.path}:{self.line(where)}" if self.lines else self.path


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str, path: str) -> Document:
    """A Document from text; UsageError with file and line where it is not YAML."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        value = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else 1
        raise UsageError(
            f"{path}:{line}", error.problem or "not YAML", "correct the file and try again"
        ) from error
    finally:
        loader.dispose()
    lines: dict[Where, int] = {}
    if node is not None:
        _note_lines(node, (), lines)
    return Document(path, value, lines)


def load_yaml(path: Path | str, schema: str | None = None) -> Document:
    """Read a YAML file, and validate it against a schema of harness/schemas if one is named."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"file {path}", str(error), "name a readable YAML file") from error
    document = parse_yaml(text, str(path))
    if schema is not None:
        schemas.validate(document.value, schema, source=document.at)
    return document


def scalar(text: str) -> Any:
    """The value a text has as a YAML scalar: ``0.01`` a number, ``1,6`` a text."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, int | float | str) else text


def _note_lines(node: yaml.Node, where: Where, lines: dict[Where, int]) -> None:
    lines.setdefault(where, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*where, key.value)
            lines[below] = key.start_mark.line + 1
            _note_lines(value, below, lines)
    elif isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _note_lines(item, (*where, position), lines)
