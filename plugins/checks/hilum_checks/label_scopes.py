"""Narrows rules about code to the files that a heading or a label names: "Tests", "Python"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import attrs

from hilum_checks.limiting import normalize_heading
from hilum_checks.model import EVERYTHING, Check, Constraint, Content

# Whole words: `latest.go`, `inspector.go` and `contest/` contain no tests.
_TEST_NAMES = ("test", "tests", "test[_-]*", "*[._-]test", "*[._-]tests", "*[._-]spec", "conftest")
_TEST_FOLDERS = ("test", "tests", "__tests__", "androidTest", "*[._-]tests")


def _test_files(ending: str) -> tuple[str, ...]:
    """Return patterns of the files of tests with an ending, such as ``.py``; ``.*`` for all."""
    names = [f"{name}{ending}" for name in _TEST_NAMES]
    inner = "**" if ending == ".*" else f"**/*{ending}"
    return (*names, *(f"**/{folder}/{inner}" for folder in _TEST_FOLDERS))


TESTS = _test_files(".*")
_FILES = {
    r"(?:unit |integration |e2e |end-to-end )?(?:tests?|testing|specs)": TESTS,
    "python": ("*.py", "*.pyi"),
    "typescript|ts": ("*.ts", "*.tsx", "*.mts", "*.cts", "*.vue", "*.svelte"),
    "javascript|js": ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.vue", "*.svelte"),
    "rust": ("*.rs",),
    r"c\+\+|cpp": ("*.cpp", "*.cc", "*.cxx", "*.h", "*.hpp", "*.hh"),
    "go|golang": ("*.go",),
    "java": ("*.java",),
    "kotlin": ("*.kt", "*.kts"),
    "swift": ("*.swift",),
    r"c#|csharp|\.net": ("*.cs",),
    "ruby": ("*.rb",),
    "php": ("*.php",),
}


class Language(NamedTuple):
    """A programming language that a sentence names.

    Attributes:
        words: The words that name it.
        files: Patterns of its files.
    """

    words: frozenset[str]
    files: tuple[str, ...]


def narrow_to_language(words: Iterable[str]) -> Language | None:
    """Return the programming language that some words name; ``None`` for none or several."""
    found = [
        Language(frozenset([word]), files)
        for word in words
        for pattern, files in _FILES.items()
        if files != TESTS and re.fullmatch(pattern, word)
    ]
    return found[0] if len(found) == 1 else None


_REST = (
    r"(?: (?:code|coding|style|files?|rules?|conventions?|guidelines?|standards?|practices|best"
    r"|specific|only|requirements?))*"
)


@lru_cache(4096)
def _find_files(label: str) -> tuple[str, ...]:
    """Return the files that a heading or a label names; empty if it names none."""
    # "Code style (Python)" names the files as well.
    texts = [normalize_heading(text) for text in (label, *re.findall(r"\(([^()]*)\)", label))]
    for words, files in _FILES.items():
        pattern = rf"(?:(?:in|for) )?(?:{words}){_REST}"
        if any(re.fullmatch(pattern, text) for text in texts):
            return files
    return ()


def narrow(constraint: Constraint, labels: Iterable[str]) -> Constraint | None:
    """Return a constraint for the files that labels or headings name.

    Args:
        constraint: What a rule forbids. Only constraints on text are narrowed.
        labels: The labels before the rule, or the headings above it.

    Returns:
        The constraint; ``None`` if its files and those of a label cannot be told together.
    """
    if not isinstance(constraint, Content):
        return constraint
    # Nested headings may name the same files.
    named = dict.fromkeys(map(_find_files, labels))
    for files in filter(None, named):
        if set(TESTS) <= set(constraint.unless):
            return None
        common = tuple(pattern for pattern in constraint.patterns if pattern in files)
        if constraint.patterns == EVERYTHING:
            common = files
        elif files == TESTS and all(each.startswith("*.") for each in constraint.patterns):
            common = tuple(test for each in constraint.patterns for test in _test_files(each[1:]))
        if not common:
            return None
        constraint = attrs.evolve(constraint, patterns=common)
    return constraint


def narrow_check(check: Check, headings: Iterable[str]) -> Check | None:
    """Return a check for the files that the headings above a rule name; ``None`` if unclear.

    Args:
        check: The check of the rule.
        headings: The headings.
    """
    headings = list(headings)
    parts = []
    for effect, constraint in check.parts:
        narrowed = narrow(constraint, headings)
        if narrowed is None:
            return None
        parts.append((effect, narrowed))
    return Check(tuple(parts))
