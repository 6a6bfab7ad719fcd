"""What the front matter of a rules file says: when its rules are in play."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from hilum_frontmatter import Document, flag, globs, read, text

from hilum_rules.hidden import reveal
from hilum_rules.rule import Mode

RAW = ("description", "globs", "alwaysApply", "paths", "applyTo")
# The fields that mean something in each dialect; in the others, which are plain Markdown, none
# does.
KNOWN = {
    "mdc": frozenset({"description", "globs", "alwaysApply"}),
    "claude-rules": frozenset({"paths", "globs", "description"}),
    "instructions": frozenset({"applyTo", "description", "name", "excludeAgent"}),
}
_EVERYWHERE = {"*", "**", "**/*", "**/**", "/**"}


class Fields(NamedTuple):
    """When the rules of a file are in play, and what was odd about how it is said."""

    mode: Mode
    globs: tuple[str, ...]
    description: str
    body: str
    line: int
    problems: list[tuple[int, str]]


def read_fields(data: bytes, dialect: str) -> Fields:
    """Read the front matter of a file.

    Args:
        data: The whole file.
        dialect: Whose format it is; ``markdown`` takes the fields of any, for a file whose name
            says nothing.
    """
    document = read(data, raw=RAW)
    problems = [(problem.line, problem.message) for problem in document.problems]
    if dialect == "markdown":
        dialect = _guess(document)
    mode = Mode.ALWAYS
    patterns = tuple[str, ...]()
    if dialect == "mdc":
        mode, patterns, found = _mdc(document)
        problems += found
    elif dialect == "claude-rules" and (
        patterns := globs(document, "paths") or globs(document, "globs")
    ):
        mode = Mode.AUTO
    elif dialect == "instructions":
        mode, patterns, found = _instructions(document)
        problems += found
    problems += _unknown(document, dialect)
    description, hidden = reveal(
        " ".join(text(document, "description").split()) if dialect in KNOWN else ""
    )
    if hidden:
        problems.append(
            (
                document.lines.get("description", 1),
                "Hidden characters in the description; shown as <U+…>.",
            )
        )
    return Fields(mode, patterns, description, document.body, document.line, problems)


def _guess(document: Document) -> str:
    keys = document.fields.keys()
    if keys & {"globs", "alwaysApply"}:
        return "mdc"
    if "paths" in keys:
        return "claude-rules"
    return "instructions" if "applyTo" in keys else "markdown"


def _mdc(document: Document) -> tuple[Mode, tuple[str, ...], list[tuple[int, str]]]:
    patterns = globs(document, "globs")
    problems = []
    if not document.present:
        why = "There is no front matter: the rules are in play only when you name the file (@name)."
        return Mode.MANUAL, (), [(1, why)]
    always = flag(document, "alwaysApply")
    if always is None and text(document, "alwaysApply"):
        told = (
            f"alwaysApply is {text(document, 'alwaysApply')[:40]!r}, neither true nor false: read"
            " as false."
        )
        problems.append((document.lines.get("alwaysApply", 1), told))
    if always:
        return Mode.ALWAYS, patterns, problems
    mode = Mode.AUTO if patterns else Mode.AGENT if text(document, "description") else Mode.MANUAL
    return mode, patterns, problems


def _instructions(document: Document) -> tuple[Mode, tuple[str, ...], list[tuple[int, str]]]:
    patterns = globs(document, "applyTo")
    if patterns:
        return (Mode.ALWAYS if _EVERYWHERE.intersection(patterns) else Mode.AUTO), patterns, []
    why = (
        "There is no applyTo: the rules are in play only when they are asked for, or named (@name)."
    )
    return (Mode.AGENT if text(document, "description") else Mode.MANUAL), (), [(1, why)]


def _unknown(document: Document, dialect: str) -> list[tuple[int, str]]:
    """Tell of fields that mean nothing here."""
    known = KNOWN.get(dialect, frozenset())
    plain = {key.lower(): key for key in known}
    told = []
    unknown = []
    for key in document.fields:
        meant = plain.get(re.sub(r"[-_ ]", "", key.lower()))
        if key not in known and meant and meant not in document.fields:
            told.append(
                (
                    document.lines.get(key, 1),
                    f"The field {key!r} means nothing here: {meant!r} may be meant.",
                )
            )
        elif key not in known:
            unknown.append(key)
    if unknown:
        names = ", ".join(repr(key[:40]) for key in unknown[:8]) + (
            ", …" if len(unknown) > 8 else ""
        )
        told.append(
            (
                document.lines.get(unknown[0], 1),
                f"Fields that mean nothing here are passed over: {names}.",
            )
        )
    if document.present and re.match(
        r"\s*---[ \t]*\n(?:[\w-]+[ \t]*:.*\n|[ \t]*\n)+---[ \t]*(?:\n|$)", document.body
    ):
        told.append((document.line, "A second front matter stands here; it is read as text."))
    return told


def expand(pattern: str, most: int = 200) -> list[str]:
    """Write a pattern with ``{a,b}`` as patterns without.

    At most ``most``, as braces in braces multiply.
    """
    done: list[str] = []
    open_ones = [pattern]
    while open_ones and len(done) + len(open_ones) <= most:
        one = open_ones.pop()
        match = re.search(r"\{([^{},]*,[^{}]*)\}", one)
        if match:
            open_ones += [
                one[: match.start()] + choice.strip() + one[match.end() :]
                for choice in reversed(match[1].split(","))
            ]
        else:
            done.append(one)
    return done + open_ones


def patterns_of(globs: tuple[str, ...]) -> Iterator[str]:
    """Yield globs as patterns of a .gitignore: a leading ``./`` means nothing there."""
    for glob in globs:
        for pattern in expand(glob):
            yield pattern.removeprefix("./")
