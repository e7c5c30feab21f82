"""YAML files a person edits: read with line numbers, so that an error can name the line.

Every YAML file of the project is read here. Duplicate keys are errors, and so are
unknown ones (by the file's struct, harness.structs), with the nearest valid key named. So is all
that JSON cannot say: keys that are no scalars, aliases to themselves, infinite numbers.

Arithmetic in profiles: ``= 0.25 * memory``.

A text that begins with ``=`` is an expression over named numbers; anything else is
taken as it is. Only arithmetic: numbers, + - * / // %, comparisons are not needed
and not there; min, max, floor, ceil, round.
"""

from __future__ import annotations

import ast
import copy
import functools
import math
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from harness import structs
from harness.errors import UsageError, unknown
from harness.jsonfile import MOST_DEPTH
from harness.structs import Where
from harness.units import GIB, KIB, MIB

#: Far above any file that a person writes, and read in well under a second.
_MOST_NODES = 100_000

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class YamlDocument:
    """A parsed file: its value and the line of every key and list item; it equals itself alone."""

    path: str
    value: Any
    lines: Mapping[Where, int]

    def line(self, where: Where) -> int:
        """The line (from 1) of the innermost known element of ``where``."""
        for end in range(len(where), -1, -1):
            if (number := self.lines.get(where[:end])) is not None:
                return number
        return 1

    def at(self, where: Where) -> str:
        """``host.yml:12``: for error messages; the path alone where there are no lines."""
        return f"{self.path}:{self.line(where)}" if self.lines else self.path

    def to(self, kind: type[T]) -> T:
        """Return the value as a struct; UsageError with the line and the nearest valid key."""
        return structs.convert(self.value, kind, self.at)


if TYPE_CHECKING or not yaml.__with_libyaml__:
    from yaml import SafeLoader
else:
    from yaml import CSafeLoader as SafeLoader


class _JsonValuesLoader(SafeLoader):
    """SafeLoader of JSON's values: refuses duplicate keys and what is no number."""

    # A date stays the text it is.
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:bool":  # the key ``on`` is a word
                key_node.tag = "tag:yaml.org,2002:str"
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise _refused(f"the key {key!r} is given twice", key_node)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except ValueError as error:  # an integer of ten thousand digits, say
            raise _refused(str(error), node) from error
        if isinstance(value, float) and not math.isfinite(value):
            raise _refused(f"{node.value} is not a finite number", node)
        return value


def _refused(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _check_shape(root: yaml.Node) -> None:
    """Refuse a node that contains itself, keys that are lists or mappings, and what aliases of
    aliases make too large.
    """
    nodes = 0

    def check(node: yaml.Node, above: tuple[yaml.Node, ...]) -> None:
        nonlocal nodes
        nodes += 1
        if nodes > _MOST_NODES:
            raise _refused(f"more than {_MOST_NODES:,} values, aliases expanded", node)
        if len(above) > MOST_DEPTH:
            raise _refused(f"more than {MOST_DEPTH} levels", node)
        if node in above:
            raise _refused("an alias is inside the node that it refers to", node)
        for child in _children(node):
            check(child, (*above, node))

    check(root, ())


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _refused("a key that is a list or a mapping", key)
            yield value


def parse_yaml(text: str, path: str) -> YamlDocument:
    """A YamlDocument from text; UsageError with file and line where it is not YAML."""
    parsed = _parsed(text, path)
    return replace(parsed, value=copy.deepcopy(parsed.value))


@functools.lru_cache(maxsize=64)
def _parsed(text: str, path: str) -> YamlDocument:
    """Parsing takes long, and a plan's runs share their tuning profile."""
    try:
        loader = _JsonValuesLoader(text)
        try:
            node = loader.get_single_node()
            if node is not None:
                _check_shape(node)
            value = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError, UnicodeEncodeError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error) or "not YAML"
        if isinstance(error, RecursionError):
            problem = "nested too deeply"
        line = mark.line + 1 if mark else 1
        raise UsageError(f"{path}:{line}", problem, "correct the file and try again") from error
    lines: dict[Where, int] = {}
    if node is not None:
        _note_lines(node, (), lines)
    return YamlDocument(path, value, lines)


def load_yaml(path: Path | str) -> YamlDocument:
    """Read a YAML file; UsageError with file and line where it is not YAML."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"file {path}", str(error), "name a readable YAML file") from error
    return parse_yaml(text, str(path))


def shipped_yaml(path: Path) -> Any:
    """Return the value of a file that the product ships; LibYAML parses it, without positions."""
    with path.open("rb") as file:
        return yaml.load(file, SafeLoader)


def scalar(text: str) -> Any:
    """The value a text has as a YAML scalar: ``0.01`` a number, ``1,6`` a text."""
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return text
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if isinstance(value, int | float | str) and finite else text


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


_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
}
_CONSTANTS: dict[str, float] = {"KiB": KIB, "MiB": MIB, "GiB": GIB}


def is_expression(value: Any) -> bool:
    """Return whether ``value`` is a text that begins with ``=``."""
    return isinstance(value, str) and value.lstrip().startswith("=")


def evaluate(text: str, variables: Mapping[str, float], source: str) -> float:
    """The finite number an expression stands for; UsageError naming ``source`` otherwise."""
    names = {**_CONSTANTS, **variables}
    try:
        tree = ast.parse(text.lstrip()[1:].strip(), mode="eval")
        number = _value(tree.body, names)
        if not math.isfinite(number):
            problem = f"it comes to {number}, which is not finite"
            raise UsageError(source, problem, "write smaller numbers")
        return number
    except UsageError as error:
        context = f"expression {text!r}: {error.context}"
        raise UsageError(source, context, error.hint) from error
    except (SyntaxError, TypeError, ValueError, ArithmeticError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise UsageError(
            source, f"expression {text!r}: {reason}", "write arithmetic, such as = 0.25 * memory"
        ) from error


def _value(node: ast.AST, names: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise unknown("", f"unknown name {node.id!r}", node.id, sorted(names))
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, names), _value(node.right, names)
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.operand, names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = _FUNCTIONS.get(node.func.id)
        if function is not None:
            return function(*(_value(argument, names) for argument in node.args))
    context = f"{ast.unparse(node)!r} is not arithmetic"
    raise UsageError("", context, f"functions: {', '.join(_FUNCTIONS)}")
