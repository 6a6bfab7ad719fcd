"""Why an edit is refused, in words that let the model give a better one."""

from __future__ import annotations

from collections.abc import Sequence

from hilum import ToolError, errors

from hilum_files import text as texts
from hilum_files.edits.source import Source

NUMBERS_SHOWN = 200


class EditError(ToolError):
    """An edit that was refused; the file is as it was.

    Attributes:
        code: ``E_NOT_FOUND``, ``E_MULTIPLE_MATCHES`` or ``E_BAD_ARGS``.
        count: How many places the text was found at; 0 where it is not in the file.
        lines: Numbers, from 1, of the lines at which those places begin; where there is none, of
            the nearest lines, or of those at which the new text is already.
        already: The new text is in the file and the old one is not: the edit was made before.
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


def several(lines: Sequence[int], *, loosely: bool = False) -> EditError:
    """Build the refusal of a text that is in the file at several places.

    ``lines`` are their numbers, from 1.
    """
    numbers = ", ".join(map(str, lines[:NUMBERS_SHOWN])) + (
        ", …" if len(lines) > NUMBERS_SHOWN else ""
    )
    found = "fits, but for white space or typography," if loosely else "is in the file"
    return EditError(
        f"old_string {found} {len(lines)} times, at lines {numbers}; nothing was changed.",
        code=errors.E_MULTIPLE_MATCHES,
        hint="Add lines before or after it so that it names one place.",
        count=len(lines),
        lines=lines,
    )


def unsafe(why: str, line: int, source: Source, count: int = 1) -> EditError:
    """Build the refusal of an edit whose place is known, but not surely what is meant there.

    Args:
        why: What is not sure, a whole sentence.
        line: Index, from 0, of the first line of the place.
        source: The file.
        count: How many lines to show.
    """
    shown = [
        f"{n + 1} | {source.lines[n][:200]}"
        for n in range(line, min(line + min(count, 12), len(source.lines)))
    ]
    return EditError(
        f"{why} Nothing was changed.",
        hint="The file has there:\n"
        + "\n".join(shown)
        + "\nCopy whole lines exactly, white space included.",
        lines=range(line + 1, line + 1 + len(shown)),
    )


def not_found(source: Source, old: str, places_of_new: Sequence[int]) -> EditError:
    """Build the refusal of a text that is not in the file.

    Args:
        source: The file.
        old: The text.
        places_of_new: Numbers, from 1, of the lines at which the new text is.
    """
    if places_of_new:
        where = ", ".join(map(str, places_of_new[:NUMBERS_SHOWN]))
        return EditError(
            f"old_string is not in the file, but new_string is, at line {where}: already applied."
            " Nothing was changed.",
            hint="Go on, or read the file to see what it holds.",
            lines=places_of_new,
            already=True,
        )
    near, only_space = texts.nearest(source.text, old)
    hint = "Read the file again and copy the text exactly."
    if texts.is_numbered(old):
        hint = "Leave the line numbers (N | ) out: they are not in the file."
    elif only_space:
        hint = (
            "They differ from old_string in white space only; copy it exactly, at both ends of each"
            " line."
        )
    if near:
        hint = "The nearest lines are:\n" + "\n".join(near) + "\n" + hint
    numbers = [int(line.partition(" ")[0]) for line in near]
    return EditError(
        "old_string is not in the file; nothing was changed.", hint=hint, lines=numbers
    )
