"""No regular expression of hilum takes exponential time: one would hold the program for hours."""

import importlib
import re
from pathlib import Path

import pytest
from ambiguous_expressions import find_ambiguous_loop
from expression_finder import find_expressions

ROOT = Path(__file__).parents[2]
AMBIGUOUS = [
    r"(?:a*)+b",
    r"(?:a+)+b",
    r"(?:a|[a-z]x?)*b",
    r"(?:-j ?\d*|\s)+x",
    r"(?:\w+[_-])*fmt",
    r"(?:\s*(?:#[^\n]*)?\n)*---",
    r"(?:\\.|\[[^]]*\]|[^/])+/",
    r"(?i:(?:Ax?|a)+)b",
    r"((?:ax?|b)|a)*?c",
    r"(?:x|(?:a{0,9})+)y",
]
CLEAR = [
    r"(?:a|b)*c",
    r"[a-z]+(?:-[a-z]+)*!",
    r"(?:a{0,3}b)*c",
    r"\d{1,3}(?:[\s,]+\d{1,3})*",
    r"(?:(?:a*)+)++b",
    r"(?>(?:a|ab)*)c",
    r"(['\"])[^'\"]*\1(?:,(['\"])[^'\"]*\2)*",
]


@pytest.mark.parametrize("pattern", AMBIGUOUS)
def test_a_loop_that_matches_a_text_in_two_ways_is_found(pattern: str) -> None:
    assert find_ambiguous_loop(pattern) is not None


@pytest.mark.parametrize("pattern", CLEAR)
def test_other_loops_are_not_named(pattern: str) -> None:
    assert find_ambiguous_loop(pattern) is None


def _list_modules() -> list[str]:
    names = []
    for package in sorted((*ROOT.glob("kernel/hilum"), *ROOT.glob("plugins/*/hilum_*"))):
        for file in sorted(package.rglob("*.py")):
            is_module = (file.parent / "__init__.py").exists() and file.stem != "__main__"
            if is_module:
                name = ".".join(file.relative_to(package.parent).with_suffix("").parts)
                names.append(name.removesuffix(".__init__"))
    return names


def test_no_expression_of_hilum_takes_exponential_time() -> None:
    found: dict[tuple[str, int], str] = {}
    for name in _list_modules():
        for expression in find_expressions(importlib.import_module(name)):
            found.setdefault(expression, name)
    assert len(found) > 1000
    ambiguous = []
    for (pattern, flags), name in found.items():
        text = find_ambiguous_loop(pattern, flags & ~re.DEBUG)
        if text is not None:
            ambiguous.append(f"{name}: {pattern!r} matches {text!r} in two ways")
    assert ambiguous == []
