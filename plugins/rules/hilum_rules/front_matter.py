"""Reads the front matter of a rules file, which determines when its rules are active."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hilum.errors import similar_names
from hilum.frontmatter import Document, read
from hilum_checks.braces import expand_braces

from hilum_rules.hidden_characters import reveal
from hilum_rules.rule import Mode

# Other agents write these values without quotes, although YAML requires quotes.
_UNQUOTED = ("description", "globs", "alwaysApply", "paths", "applyTo", "fileMatchPattern")
MIN_SIMILARITY = 0.75
"""Minimum similarity, from 0 to 1, for an unknown field to count as a misspelling of a known
one."""
MAX_UNKNOWN = 8
"""Maximum number of unknown fields to list."""
_SECOND = re.compile(r"\s*---[ \t]*\n(?:[\w-]+[ \t]*:.*\n|[ \t]*\n)+---[ \t]*(?:\n|$)")


class FrontMatter(NamedTuple):
    """When the rules in a file are active, and the problems in its front matter.

    Attributes:
        mode: When the rules are active.
        globs: Globs of the files that activate the rules.
        description: The subject of the rules.
        body: The text below the front matter.
        line: The line on which the body begins, from 1.
        problems: Problems, each as a line number and a sentence.
    """

    mode: Mode
    globs: tuple[str, ...]
    description: str
    body: str
    line: int
    problems: list[tuple[int, str]]


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
        return FrontMatter(mode, (), "", document.body, document.line, problems)
    # Imported late, because the module imports cattrs and most files have no front matter.
    from hilum_rules import front_matter_schema as schema

    fields, mistakes = schema.structure_fields(document.fields, dialect)
    mode, globs = schema.find_mode(fields)
    for key, message in mistakes.wrong.items():
        problems.append((document.lines.get(key, 1), f"{key}: {message}"))
    for key, message in schema.find_odd_values(document.fields, dialect):
        problems.append((document.lines.get(key, 1), f"{key}: {message}"))
    if dialect == "instructions" and not globs:
        problems.append((1, _NO_APPLY_TO))
    problems += _report_unknown(document, schema.field_names(dialect), mistakes.unknown)
    if _SECOND.match(document.body):
        problems.append(
            (document.line, "There is a second front matter block here; it is read as text.")
        )
    # The description is shown to the model, so it must not contain text that a person cannot see.
    description, hidden = reveal(" ".join(getattr(fields, "description", "").split()))
    if hidden:
        line = document.lines.get("description", 1)
        problems.append((line, "Hidden characters in the description; shown as <U+…>."))
    return FrontMatter(mode, globs, description, document.body, document.line, problems)


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


def _report_unknown(
    document: Document, names: Iterable[str], unknown_keys: frozenset[str]
) -> Iterator[tuple[int, str]]:
    """Yield problems about fields that the format does not have."""
    known = list(names)
    unknown = []
    for key in document.fields:
        if key not in unknown_keys:
            continue
        similar = similar_names(key, known, 1, cutoff=MIN_SIMILARITY)
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
