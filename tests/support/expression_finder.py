"""Find the regular expressions of a module: those it has compiled, and those in its calls of ``re``."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

# Containers of a module deeper than this, and their items beyond this number, are not searched.
_MAX_DEPTH = 3
_MAX_ITEMS = 500
# Only modules with such a call are parsed, which takes longer than everything else here.
_CALL_OF_RE = re.compile(r"\bre\.\w+\(")


def find_expressions(module: ModuleType) -> Iterator[tuple[str, int]]:
    """Yield the regular expressions of a module with their flags.

    An expression that a function makes from its arguments cannot be known here.
    """
    for value in list(vars(module).values()):
        yield from _find_compiled(value, 0)
    source = inspect.getsource(module)
    if _CALL_OF_RE.search(source) is None:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _is_of_re(node.func) and node.args:
            yield from _evaluate(node.args[0], module)


def _find_compiled(value: Any, depth: int) -> Iterator[tuple[str, int]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value.pattern, value.flags
    elif depth < _MAX_DEPTH and isinstance(value, dict):
        for item in list(value.values()):
            yield from _find_compiled(item, depth + 1)
    elif depth < _MAX_DEPTH and isinstance(value, list | tuple | set | frozenset):
        for item in list(value)[:_MAX_ITEMS]:
            yield from _find_compiled(item, depth + 1)


def _is_of_re(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
    )


def _evaluate(argument: ast.expr, module: ModuleType) -> Iterator[tuple[str, int]]:
    """Yield the expression that an argument states, if only constants of the module are in it."""
    code = compile(ast.Expression(argument), "<argument>", "eval")
    try:
        value = eval(code, dict(vars(module)))
        flags = re.compile(value).flags if isinstance(value, str) else 0
    except Exception:
        return
    if isinstance(value, str):
        yield value, flags
