"""Narrow rules about code to the files that a heading or a label names: "Tests", "Python"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import attrs

from hilum_checks.lexicon import FILLERS, lexicon
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
    r"c#|csharp|\.?net": ("*.cs",),
    "ruby": ("*.rb",),
    "php": ("*.php",),
}
# Languages that only a heading or a label names: in a sentence, the words may mean something else.
_MORE_FILES = {
    "c": ("*.c", "*.h"),
    "css": ("*.css",),
    "scss|sass": ("*.scss", "*.sass"),
    "html": ("*.html", "*.htm"),
    "vue": ("*.vue",),
    "svelte": ("*.svelte",),
    "react|jsx|tsx": ("*.tsx", "*.jsx"),
    "sql": ("*.sql",),
    "shell|bash|sh": ("*.sh", "*.bash", "*.zsh"),
    "powershell": ("*.ps1", "*.psm1"),
    "lua": ("*.lua",),
    "perl": ("*.pl", "*.pm", "*.t"),
    "scala": ("*.scala", "*.sc"),
    "dart": ("*.dart",),
    "elixir": ("*.ex", "*.exs"),
    "erlang": ("*.erl", "*.hrl"),
    "haskell": ("*.hs",),
    "ocaml": ("*.ml", "*.mli"),
    r"f#|fsharp": ("*.fs", "*.fsx"),
    "clojure": ("*.clj", "*.cljs", "*.cljc"),
    "julia": ("*.jl",),
    "zig": ("*.zig",),
    "groovy": ("*.groovy",),
    "objective-c": ("*.m", "*.mm"),
    "terraform|hcl": ("*.tf", "*.tfvars"),
}
# Single words that name no technology, besides those of the lexicon and words such as "logging".
_GENERAL = frozenset(
    """
    all always api apis architecture assertions async attention avoid bans behaviour behavior
    boundaries boundary checklist checks ci clean cleanup colors concurrency config conformance
    consistency constants constraints conventions core critical dates debug debugging default
    defaults design details do don't donts don'ts errors exceptions exports general git globals
    gotchas guard guards guidelines hard helpers idioms important imports independence info
    invariants item keep key l10n i18n a11y language law laws layers layout legal limits lint lints
    logs maintenance mandatory markup memory must musts names never no non-negotiable
    non-negotiables nope nos note notes nulls observability other others output overview paths
    patterns performance permissions philosophy policies policy practices principles print privacy
    prohibited project prose purity quality reason reliability reminder required requirements
    restrictions rule rules safety scope secrets section security setup simplicity stack standard
    standards state status strict strictly structure style styles stop syntax taboos tabs text time
    tip todo todos tooling tools topic tricks types ui usage ux variables versions warning what
    workflow workflows workspace writing ground house golden cardinal basic basics main common global
    team agent agents base absolute binding fundamental fundamentals essential essentials
    """.split()
)
_GENERAL_ENDING = re.compile(
    r"(?!spring$|bing$).*(?:ing|tion|tions|ment|ments|ness|ity|ance|ency|ability)"
)


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
    r"|specific|only|requirements?|scripts?|modules?|sources?))*"
)


@lru_cache(4096)
def _find_files(label: str) -> tuple[str, ...]:
    """Return the files that a heading or a label names; empty if it names none."""
    # "Code style (Python)" names the files as well.
    texts = [normalize_heading(text) for text in (label, *re.findall(r"\(([^()]*)\)", label))]
    for words, files in (_FILES | _MORE_FILES).items():
        pattern = rf"(?:(?:in|for) )?(?:{words}){_REST}"
        if any(re.fullmatch(pattern, text) for text in texts):
            return files
    return ()


@lru_cache(4096)
def _may_name_technology(label: str) -> bool:
    """Return whether a heading or label is one unknown word, such as the name of a framework."""
    text = re.sub(rf"{_REST}$", "", normalize_heading(label))
    if not re.fullmatch(r"[a-z][\w+#.-]*", text) or text in _GENERAL or text in FILLERS:
        return False
    return text not in lexicon() and _GENERAL_ENDING.fullmatch(text) is None


def narrow(constraint: Constraint, labels: Iterable[str], *, title: str = "") -> Constraint | None:
    """Return a constraint for the files that labels or headings name.

    Args:
        constraint: What a rule forbids. Only constraints on text are narrowed.
        labels: The labels before the rule, or the headings above it.
        title: A label that may be the name of the project.

    Returns:
        The constraint; ``None`` if its files and those of a label cannot be told together, or if a
        label may be the name of a technology that hilum does not know.
    """
    if not isinstance(constraint, Content):
        return constraint
    labels = list(labels)
    unknown = [label for label in labels if label != title and not _find_files(label)]
    if any(map(_may_name_technology, unknown)):
        return None
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
    # The outermost of several headings is the title of the file.
    title = headings[0] if len(headings) > 1 else ""
    parts = []
    for effect, constraint in check.parts:
        narrowed = narrow(constraint, headings, title=title)
        if narrowed is None:
            return None
        parts.append((effect, narrowed))
    return Check(tuple(parts))
