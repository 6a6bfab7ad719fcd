"""Reads the front matter of a rules file, which determines when its rules are active."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from hilum.errors import similar_names
from hilum.frontmatter import Document, flag, globs, read, text
from hilum_checks.braces import expand_braces

from hilum_rules.hidden_characters import reveal
from hilum_rules.rule import Mode, Problems

# The fields of each format; other formats have none.
_FIELDS = {
    "mdc": ("description", "globs", "alwaysApply"),
    "claude-rules": ("paths", "globs", "description"),
    "instructions": ("applyTo", "description", "name", "excludeAgent"),
    "windsurf": ("trigger", "globs", "description"),
    "kiro": ("inclusion", "fileMatchPattern", "name", "description"),
}
# Fields with patterns, beginning with those that take precedence; the field that is true or false;
# and fields that name a mode. The others are texts.
_PATTERNS = ("applyTo", "fileMatchPattern", "paths", "globs")
_SWITCH = "alwaysApply"
_NAMING = {"windsurf": "trigger", "kiro": "inclusion"}
# The modes that a word in the front matter names, in lower case.
_MODES = {
    "always": Mode.ALWAYS,
    "always_on": Mode.ALWAYS,
    "model_decision": Mode.AGENT,
    "auto": Mode.AGENT,
    "manual": Mode.MANUAL,
}
_EVERYWHERE = frozenset(("*", "**", "**/*", "**/**", "/**"))
# Other agents write these values without quotes, although YAML requires quotes.
_UNQUOTED = ("description", _SWITCH, *_PATTERNS)
MIN_SIMILARITY = 0.75
"""Minimum similarity, from 0 to 1, for an unknown field to count as a misspelling of a known
one."""
MAX_UNKNOWN = 8
"""Maximum number of unknown fields to list."""
_SECOND = re.compile(r"\s*---[ \t]*\n(?:[\w-]+[ \t]*:.*\n|[ \t]*\n)+---[ \t]*(?:\n|$)")


class FrontMatter(NamedTuple):
    """When the rules in a file are active, and the problems in its front matter.

    Attributes:
        body: The text below the front matter.
        problems: Problems, each as a line number and a sentence.
        line: The line on which the body begins, from 1.
        mode: When the rules are active.
        globs: Globs of the files that activate the rules.
        description: The subject of the rules.
    """

    body: str
    problems: Problems
    line: int = 1
    mode: Mode = Mode.ALWAYS
    globs: tuple[str, ...] = ()
    description: str = ""


def read_front_matter(data: bytes, dialect: str) -> FrontMatter:
    """Read the front matter of a file.

    Args:
        data: The whole file.
        dialect: The format. ``markdown`` accepts the fields of all formats, for a file whose name
            does not determine the format.
    """
    document = read(data, raw=_UNQUOTED)
    problems = [(problem.line, problem.message) for problem in document.problems]
    if dialect == "markdown":
        dialect = _guess_dialect(document)
    if not document.present:
        mode, message = _ABSENT.get(dialect, (Mode.ALWAYS, ""))
        problems += [(1, message)] if message else []
        return FrontMatter(document.body, problems, document.line, mode)
    names = _FIELDS.get(dialect, ())
    mode, patterns = _find_mode(document, dialect, names)
    for name in names:
        value = _explain_odd_value(document, name)
        if value:
            problems.append((document.lines.get(name, 1), f"{name}: found {value}"))
    if dialect == "instructions" and not patterns:
        problems.append((1, _NO_APPLY_TO))
    problems += _report_unknown(document, names)
    if _SECOND.match(document.body):
        problems.append(
            (document.line, "There is a second front matter block here; it is read as text.")
        )
    # The description is shown to the model, so it must not contain text that a person cannot see.
    written = text(document, "description") if "description" in names else ""
    description, hidden = reveal(" ".join(written.split()))
    if hidden:
        line = document.lines.get("description", 1)
        problems.append((line, "Hidden characters in the description; shown as <U+…>."))
    return FrontMatter(document.body, problems, document.line, mode, patterns, description)


_NO_APPLY_TO = (
    "There is no applyTo: the rules apply only when they are requested, or named (@name)."
)
# The mode of files without front matter, and the problem to report, by format.
_ABSENT = {
    "mdc": (
        Mode.MANUAL,
        "There is no front matter: the rules apply only when you name the file (@name).",
    ),
    "instructions": (Mode.MANUAL, _NO_APPLY_TO),
}


def _guess_dialect(document: Document) -> str:
    keys = document.fields.keys()
    if keys & {"globs", "alwaysApply"}:
        return "mdc"
    if "paths" in keys:
        return "claude-rules"
    return "instructions" if "applyTo" in keys else "markdown"


def _find_mode(
    document: Document, dialect: str, names: Collection[str]
) -> tuple[Mode, tuple[str, ...]]:
    """Return when rules are active, and the patterns of the files that activate them."""
    found = [globs(document, name) for name in _PATTERNS if name in names]
    patterns = next(filter(None, found), ())
    if dialect in _NAMING:
        mode = _MODES.get(text(document, _NAMING[dialect]).casefold())
        if mode is not None:
            return mode, ()
    is_always = _SWITCH in names and flag(document, _SWITCH)
    if is_always or (dialect == "instructions" and _EVERYWHERE.intersection(patterns)):
        return Mode.ALWAYS, patterns
    if patterns:
        return Mode.AUTO, patterns
    if dialect not in _ABSENT:
        return Mode.ALWAYS, ()
    return (Mode.AGENT if text(document, "description") else Mode.MANUAL), ()


def _explain_odd_value(document: Document, name: str) -> str:
    """Return what is unexpected about the value of a field, or nothing."""
    value = document.fields.get(name)
    written = text(document, name)
    shown = repr(written[:40])
    if name == _SWITCH:
        is_odd = written and flag(document, name) is None
        return f"{shown}, expected true or false; it is read as false." if is_odd else ""
    if name not in _PATTERNS:
        if not isinstance(value, list | dict):
            return ""
        kind = "list" if isinstance(value, list) else "mapping"
        return f"the {kind} {shown}, expected a string; it is read as one."
    if isinstance(value, dict) and any(value.values()):
        return f"the mapping {shown}, expected a pattern or a list of them."
    is_open = isinstance(value, str) and value.count("[") != value.count("]")
    return f"{shown}, in which a bracket is not closed." if is_open else ""


def _report_unknown(document: Document, names: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield problems about fields that the format does not have."""
    unknown = []
    for key in document.fields:
        if key in names:
            continue
        similar = similar_names(key, list(names), 1, cutoff=MIN_SIMILARITY)
        if similar:
            message = f"The field {key[:40]!r} is unknown; did you mean {similar[0]!r}?"
            yield document.lines.get(key, 1), message
        else:
            unknown.append(key)
    if unknown:
        listed = ", ".join(repr(key[:40]) for key in unknown[:MAX_UNKNOWN])
        more = ", …" if len(unknown) > MAX_UNKNOWN else ""
        message = f"Unknown fields are ignored: {listed}{more}."
        yield document.lines.get(unknown[0], 1), message


def gitignore_patterns(globs: Iterable[str]) -> list[str]:
    """Convert globs to .gitignore patterns, without a leading ``./``."""
    patterns = []
    for glob in globs:
        patterns += [pattern.removeprefix("./") for pattern in expand_braces(glob)]
    return patterns
