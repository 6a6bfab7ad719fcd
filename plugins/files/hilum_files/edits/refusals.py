"""Errors for refused edits, with hints that help the model to send a better edit."""

from __future__ import annotations

from collections.abc import Sequence

from hilum import ToolError, errors

from hilum_files import text as texts
from hilum_files.edits.source import Source

MAX_LINE_NUMBERS = 200
MAX_LINES_SHOWN = 12
MAX_LINE_CHARACTERS = 200


class EditError(ToolError):
    """An edit that was refused; the file is unchanged.

    Attributes:
        code: ``E_NOT_FOUND``, ``E_MULTIPLE_MATCHES`` or ``E_BAD_ARGS``.
        count: The number of matching locations; 0 if the text is not in the file.
        lines: 1-based line numbers at which the matches begin. If nothing matches, the line numbers
            of similar lines, or of lines at which the new text already occurs.
        already: Whether the file contains the new text but not the old one, probably because the
            edit was already made.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = errors.E_NOT_FOUND,
        hint: str = "",
        count: int = 0,
        lines: Sequence[int] = (),
        already: bool = False,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.count = count
        self.lines = tuple(lines)
        self.already = already


def multiple_matches_error(lines: Sequence[int], *, fuzzy: bool = False) -> EditError:
    """Create the error for a text that matches several locations in the file.

    Args:
        lines: 1-based line numbers at which the matches begin.
        fuzzy: Whether the locations match only if whitespace and typography are ignored.
    """
    numbers = _format_numbers(lines)
    if len(lines) > MAX_LINE_NUMBERS:
        numbers += ", …"
    found = "fits, but for whitespace or typography," if fuzzy else "is in the file"
    return EditError(
        f"old_string {found} {len(lines)} times, at lines {numbers}; nothing was changed.",
        code=errors.E_MULTIPLE_MATCHES,
        hint="Include more surrounding lines so that it matches exactly one location.",
        count=len(lines),
        lines=lines,
    )


def uncertain_error(why: str, line: int, source: Source, count: int = 1) -> EditError:
    """Create the error for an edit whose location is known but whose intent is unclear.

    Args:
        why: A sentence that states what is unclear.
        line: 0-based index of the first line of the location.
        source: The file.
        count: Number of lines at the location.
    """
    stop = min(line + min(count, MAX_LINES_SHOWN), len(source.lines))
    # With the exact lines, the model can repeat the edit without reading the file again.
    shown: list[str] = []
    for index in range(line, stop):
        shown.append(f"{index + 1} | {source.lines[index][:MAX_LINE_CHARACTERS]}")
    excerpt = "\n".join(shown)
    return EditError(
        f"{why} Nothing was changed.",
        hint=(
            f"The file contains these lines:\n{excerpt}\nCopy whole lines exactly, whitespace"
            " included."
        ),
        lines=range(line + 1, line + 1 + len(shown)),
    )


def not_found_error(source: Source, old: str, lines_of_new: Sequence[int]) -> EditError:
    """Create the error for a text that is not in the file.

    Args:
        source: The file.
        old: The text.
        lines_of_new: 1-based line numbers at which the new text occurs.
    """
    if lines_of_new:
        return EditError(
            "old_string is not in the file, but new_string is, at line"
            f" {_format_numbers(lines_of_new)}: already applied. Nothing was changed.",
            hint="Continue, or read the file to see what it contains.",
            lines=lines_of_new,
            already=True,
        )
    nearest, only_space = texts.find_nearest(source.text, old)
    hint = "Read the file again and copy the text exactly."
    if texts.is_numbered(old):
        hint = "Leave out the line numbers (N | ): they are not in the file."
    elif only_space:
        hint = (
            "They differ from old_string only in whitespace; copy the whitespace at both ends of"
            " each line exactly."
        )
    if nearest:
        excerpt = "\n".join(nearest)
        hint = f"The nearest lines are:\n{excerpt}\n{hint}"
    numbers = [int(line.partition(" ")[0]) for line in nearest]
    return EditError(
        "old_string is not in the file; nothing was changed.", hint=hint, lines=numbers
    )


def _format_numbers(lines: Sequence[int]) -> str:
    return ", ".join(map(str, lines[:MAX_LINE_NUMBERS]))
