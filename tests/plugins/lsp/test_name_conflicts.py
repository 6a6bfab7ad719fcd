"""Renames after which one name would mean two things."""

import re

import pytest
from hilum_lsp.name_conflicts import find_conflict

CONFLICTS = {
    "an import and a variable": ("from a import f\nx = f()\n", "the module"),
    "two functions": ("def f(): ...\ndef x(): ...\n", "the module"),
    "two methods": ("class C:\n    def f(self): ...\n    def x(self): ...\n", "C"),
    "a local variable that hides the global one": ("def g():\n    x = 1\n    return f(x)\n", "g"),
    "two parameters": ("def g(f, x):\n    return f\n", "a function"),
    "a built-in that a function calls": ("def f(): ...\ndef g():\n    return x()\n", "g"),
    "a variable that a nested function uses": (
        "def g(f):\n    def h():\n        return x\n    return h, f\n",
        "h",
    ),
    "a name in a comprehension": ("def g(f):\n    return [x for x in f if f]\n", "listcomp"),
}
HARMLESS = {
    "a local variable elsewhere": "def f(): ...\ndef g():\n    x = 1\n    return x\n",
    "an attribute": "def f(): ...\nf().x = 1\n",
    "a keyword": "def f(): ...\nf(x=1)\n",
    "a comment and a text": "def f(): ...  # x\n'x'\n",
    "a method elsewhere": "def f(): ...\nclass C:\n    def x(self): ...\n",
    "a method and a variable": "class C:\n    def f(self): ...\n    def g(self):\n        return x\n",
    "code that cannot be parsed": "def f(:\nx = f\n",
    "a null character": "f = 1\0\nx = f\n",
}


@pytest.mark.parametrize(("before", "where"), CONFLICTS.values(), ids=CONFLICTS)
def test_a_conflict_is_found_in_its_scope(before, where):
    after = re.sub(r"\bf\b", "x", before)
    assert find_conflict(before, after, "f", "x") == where


@pytest.mark.parametrize("before", HARMLESS.values(), ids=HARMLESS)
def test_other_uses_of_the_word_are_no_conflict(before):
    after = re.sub(r"\bf\b", "x", before)
    assert find_conflict(before, after, "f", "x") == ""


def test_deep_nesting_is_no_failure():
    deep = "(" * 5_000 + ")" * 5_000
    assert find_conflict(f"f = {deep}\n", f"x = {deep}\n", "f", "x") == ""
