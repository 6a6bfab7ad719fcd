"""What checkers find: one form for all of them, what is new in it, and how the model reads it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

SEVERITIES = ("error", "warning", "info")
LONGEST = 300
"""Characters of a message that are shown."""
_ODD = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")

Key = tuple[str, str, str, str]


@attrs.frozen
class Diagnostic:
    """One thing that a checker found.

    Args:
        path: The file, as paths are shown: relative to the workspace.
        line: Line, from 1; 0 where the checker names none.
        column: Column, from 1; 0 where the checker names none.
        severity: ``error``, ``warning`` or ``info``.
        code: The checker's name for this kind of thing; may be empty.
        message: What it says, on one line.
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
        where = ":".join(str(part) for part in (self.path, self.line, self.column) if part)
        return " ".join(
            part
            for part in (where, self.severity, self.code, self.message, f"({self.checker})")
            if part
        )

    @property
    def key(self) -> Key:
        """What it is, wherever it stands: lines move with each edit, also those that a message
        names.
        """
        return (self.checker, self.path, self.code, re.sub(r"\d+", "#", self.message))

    @property
    def order(self) -> tuple[int, str, int, int]:
        """Errors first, then by place."""
        return (SEVERITIES.index(self.severity), self.path, self.line, self.column)


def one_line(text: str, longest: int = LONGEST) -> str:
    """Make one plain line of a checker's text: it quotes files, which may hold anything."""
    text = _ODD.sub(" ", text).strip()
    if len(text) <= longest:
        return text
    return text[: longest - 1] + "…"


def counted(diagnostics: Iterable[Diagnostic]) -> Counter[Key]:
    """Count diagnostics by what they are."""
    return Counter(diagnostic.key for diagnostic in diagnostics)


def new_ones(diagnostics: Iterable[Diagnostic], before: Counter[Key]) -> list[Diagnostic]:
    """Return those that were not there before.

    Of several that say the same in one file the last ones count as new.
    """
    left = before.copy()
    new = []
    for diagnostic in diagnostics:
        if left[diagnostic.key] > 0:
            left[diagnostic.key] -= 1
        else:
            new.append(diagnostic)
    return new


def listed(
    diagnostics: Sequence[Diagnostic], limit: int, rest_by: str = "read_lints shows them"
) -> str:
    """Write diagnostics down, errors first, each on a line, with a notice where the limit cuts and
    how to see the rest.
    """
    ordered = sorted(diagnostics, key=lambda each: each.order)
    lines = [str(each) for each in ordered[:limit]]
    if len(ordered) > limit:
        rest = summed(ordered[limit:])
        lines.append(f"[{len(ordered) - limit} more are not shown: {rest}; {rest_by}.]")
    return "\n".join(lines)


def summed(diagnostics: Sequence[Diagnostic]) -> str:
    """Return how many there are of each severity, and in how many files."""
    kinds = Counter(each.severity for each in diagnostics)
    names = {"error": "error", "warning": "warning", "info": "note"}
    parts = [
        f"{kinds[kind]} {name}{'s' * (kinds[kind] != 1)}"
        for kind, name in names.items()
        if kinds[kind]
    ]
    files = len({each.path for each in diagnostics})
    return f"{', '.join(parts)} in {files} file{'s' * (files != 1)}"
