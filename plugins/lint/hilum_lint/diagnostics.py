"""The common form of all checkers' diagnostics, and how they are compared and formatted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

SEVERITIES = ("error", "warning", "info")
# Maximum number of characters of a message to show.
MAX_MESSAGE = 300
# Whitespace, and control and invisible characters, which could hide text from the user.
_ODD = r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+"

Key = tuple[str, str, str, str]


@attrs.frozen
class Diagnostic:
    """A diagnostic that a checker reported.

    Args:
        path: The file, relative to the workspace.
        line: Line number, from 1; 0 if unknown.
        column: Column number, from 1; 0 if unknown.
        severity: ``error``, ``warning`` or ``info``.
        code: The checker's code for this kind of diagnostic; may be empty.
        message: The message, on one line.
        checker: Name of the checker.
    """

    path: str
    line: int
    column: int
    severity: str
    code: str
    message: str
    checker: str

    def __str__(self) -> str:
        place = (self.path, self.line, self.column)
        where = ":".join(str(part) for part in place if part)
        parts = (where, self.severity, self.code, self.message, f"({self.checker})")
        return " ".join(filter(None, parts))

    @property
    def key(self) -> Key:
        """The identity of the diagnostic, without line numbers, which edits change."""
        # Messages may also contain line numbers, for example "redefinition of f from line 3".
        return (self.checker, self.path, self.code, re.sub(r"\d+", "#", self.message))

    @property
    def order(self) -> tuple[int, str, int, int]:
        """The sort key: errors first, then by file, line and column."""
        return (SEVERITIES.index(self.severity), self.path, self.line, self.column)


def to_one_line(text: str, longest: int = MAX_MESSAGE) -> str:
    """Return a checker's message as one line; it may quote arbitrary file content."""
    text = re.sub(_ODD, " ", text).strip()
    if len(text) <= longest:
        return text
    return text[: longest - 1] + "…"


def count_by_key(diagnostics: Iterable[Diagnostic]) -> Counter[Key]:
    """Count diagnostics by their key."""
    return Counter(diagnostic.key for diagnostic in diagnostics)


def find_new(diagnostics: Iterable[Diagnostic], before: Counter[Key]) -> list[Diagnostic]:
    """Return the diagnostics that did not exist before an edit.

    If a file has several equal diagnostics, the last ones count as new.
    """
    left = before.copy()
    new = []
    for diagnostic in diagnostics:
        if left[diagnostic.key] > 0:
            left[diagnostic.key] -= 1
        else:
            new.append(diagnostic)
    return new


def format_diagnostics(
    diagnostics: Sequence[Diagnostic], limit: int, rest_by: str = "read_lints shows them"
) -> str:
    """Return diagnostics as text, errors first, each on one line.

    Args:
        diagnostics: The diagnostics.
        limit: Maximum number of lines.
        rest_by: How to see all diagnostics, for the notice about omitted ones.
    """
    ordered = sorted(diagnostics, key=lambda each: each.order)
    lines = [str(each) for each in ordered[:limit]]
    rest = ordered[limit:]
    if rest:
        lines.append(f"[{len(rest)} more are not shown: {summarize(rest)}; {rest_by}.]")
    return "\n".join(lines)


def summarize(diagnostics: Sequence[Diagnostic]) -> str:
    """Return the number of diagnostics of each severity, and the number of files."""
    counts = Counter(each.severity for each in diagnostics)
    names = {"error": "error", "warning": "warning", "info": "note"}
    parts: list[str] = []
    for kind, name in names.items():
        if counts[kind]:
            parts.append(_count(counts[kind], name))
    files = {each.path for each in diagnostics}
    return f"{', '.join(parts)} in {_count(len(files), 'file')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
