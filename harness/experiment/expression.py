"""Arithmetic in profiles: ``= 0.25 * memory``.

A text that begins with ``=`` is an expression over named numbers; anything else is
taken as it is. Only arithmetic: numbers, + - * / // %, comparisons are not needed
and not there; min, max, floor, ceil, round.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from harness.errors import UsageError, unknown
from harness.units import GIB, KIB, MIB

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
    """Whether ``value`` is a text that begins with ``=``."""
    return isinstance(value, str) and value.lstrip().startswith("=")


def evaluate(text: str, variables: Mapping[str, float], source: str) -> float:
    """The finite number an expression stands for; UsageError naming ``source`` otherwise."""
    names = {**_CONSTANTS, **variables}
    try:
        tree = ast.parse(text.lstrip()[1:].strip(), mode="eval")
        number = _value(tree.body, names)
        if not math.isfinite(number):
            found = f"it comes to {number}, which is not finite"
            raise UsageError(source, found, "write smaller numbers")
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
    found = f"{ast.unparse(node)!r} is not arithmetic"
    raise UsageError("", found, f"functions: {', '.join(_FUNCTIONS)}")
