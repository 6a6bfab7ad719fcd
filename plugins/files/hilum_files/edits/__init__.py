"""Edits of text: replace a piece of a file, although the model that asks for it did not copy it
exactly.

Pure functions: nothing here reads or writes a file. A text that is there just so is replaced to the
letter; otherwise it is looked for as lines, and then without line numbers or escapes, and must name
the only place that fits. Where what is meant is not sure, the edit is refused: a wrong edit is far
worse than a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from hilum import errors

from hilum_files.edits.align import runs_of
from hilum_files.edits.characters import is_blank, key_of
from hilum_files.edits.exact import Span, replace_exactly
from hilum_files.edits.loose import SLIPS, Lines, find
from hilum_files.edits.merge import merge
from hilum_files.edits.refusals import EditError, not_found, unsafe
from hilum_files.edits.rewrites import Reading, without_escapes, without_numbers
from hilum_files.edits.source import Source
from hilum_files.edits.typography import Unsafe
from hilum_files.text import BOM

__all__ = ["Edit", "EditError", "apply_edit", "apply_edits"]


class Edit(NamedTuple):
    """What an edit makes of a content.

    Attributes:
        content: The new content.
        match: How the text was found: ``exact``, ``identical`` (there was nothing to do), or what
            differed, separated by commas: ``line ends``, ``trailing blanks``, ``indentation``,
            ``blank lines``, ``spaces``, ``typography``, ``line numbers``, ``escapes``.
        removed: Numbers, from 1, of the lines of the old content that are changed or gone; may be
            empty.
        added: Numbers, from 1, of the lines of the new content that stand in their place; may be
            empty.
    """

    content: str
    match: str
    removed: range
    added: range


def apply_edit(content: str, old: str, new: str) -> Edit:
    """Replace one piece of a text.

    Line ends and a byte order mark do not count: the file keeps its own.

    Args:
        content: All the text of the file.
        old: The piece to replace, as a model copied it. Empty only for an empty content.
        new: What takes its place. Where ``old`` is not exact, the file's own form of the lines that
            both share stays, and the other lines are written as they are here; where all of ``old``
            is indented otherwise than the file, their leading white space is shifted as that of
            ``old`` is.

    Returns:
        The new content, how the piece was found, and which lines changed.

    Raises:
        EditError: The piece is not there, is there several times, or what is meant is not sure;
            ``E_NOT_FOUND``, ``E_MULTIPLE_MATCHES``, or ``E_BAD_ARGS`` for an empty ``old``.
    """
    old, new = (text.replace("\r\n", "\n").removeprefix(BOM) for text in (old, new))
    source = Source(content)
    if not old and source.text:
        raise EditError(
            "old_string is empty, and the file is not.",
            code=errors.E_BAD_ARGS,
            hint="Give the text to replace.",
        )
    if old == new:
        return Edit(content, "identical", range(1, 1), range(1, 1))
    if not old:
        return _edit(source, Span(0, 1, new.split("\n"), []), "exact")
    span = replace_exactly(source, old, new)
    if span:
        return _edit(source, span, span.slip or "exact")
    edit = _loosely(source, old, new, "") or _reread(source, old, new)
    if edit:
        return edit
    raise not_found(source, old, _places_of(source, new))


def apply_edits(content: str, edits: Sequence[tuple[str, str]]) -> list[Edit]:
    """Apply several edits to a text, each to what the one before it made; all or none.

    Args:
        content: All the text of the file.
        edits: Old and new text of each.

    Returns:
        One result for each; the last one has the content.

    Raises:
        EditError: One of them cannot be applied; the message names it.
    """
    done: list[Edit] = []
    for number, (old, new) in enumerate(edits, 1):
        try:
            done.append(apply_edit(done[-1].content if done else content, old, new))
        except EditError as error:
            if len(edits) > 1:
                error.message = f"Edit {number}: {error.message}"
            raise
    return done


def _edit(source: Source, span: Span, match: str) -> Edit:
    before = source.lines[span.first : span.stop]
    after = span.lines
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    begin = span.first + head + 1
    content = source.replaced(span.first, span.stop, after, span.kept or [None] * len(after))
    return Edit(
        content,
        match,
        range(begin, span.first + len(before) - tail + 1),
        range(begin, span.first + len(after) - tail + 1),
    )


def _loosely(source: Source, old: str, new: str, kind: str) -> Edit | None:
    # Taken at its word, a line end that only the new text has is a blank line, as is nothing for a
    # line without its end.
    blank = not old.endswith("\n") and (not new or new.endswith("\n"))
    ours = Lines(old)
    theirs = Lines(new + "\n" * blank)
    if not ours.filled:
        return None
    place = find(source, ours)
    if place is None:
        return None
    count = place.filled[-1] - place.filled[0] + 1
    if _is_there(source, theirs, place.filled[0], place.filled[-1]):
        raise not_found(source, old, [place.filled[0] + 1])
    try:
        span = merge(source, place, ours, theirs)
    except Unsafe as error:
        raise unsafe(str(error), place.filled[0], source, count) from None
    if span.lines == source.lines[span.first : span.stop]:
        raise not_found(source, old, [place.filled[0] + 1])
    slips = [slip for slip in SLIPS if slip in place.slips] or ([] if kind else ["line ends"])
    return _edit(source, span, ", ".join([kind, *slips] if kind else slips))


def _is_there(source: Source, new: Lines, first: int, last: int) -> bool:
    """Return whether the new text stands, line by line, where the old one was found, and holds all
    of it.
    """
    lines = [new.lines[index] for index in new.filled]
    if not lines:
        return False
    found = (source.filled[start : start + len(lines)] for start in runs_of(new.keys, source.keys))
    return any(
        at[0] <= first and last <= at[-1] and [source.lines[i] for i in at] == lines for at in found
    )


def _reread(source: Source, old: str, new: str) -> Edit | None:
    """Try the other readings; those that fit must agree."""
    edit = _unnumbered(source, old, new)
    if edit:
        return edit
    edits = [edit for reading in without_escapes(old, new) if (edit := _as_read(source, reading))]
    if len({re.sub(r"[ \t]+$", "", edit.content, flags=re.MULTILINE) for edit in edits}) > 1:
        raise unsafe(
            "The escapes in the texts can be read in two ways.", edits[0].removed.start - 1, source
        )
    return edits[0] if edits else None


def _unnumbered(source: Source, old: str, new: str) -> Edit | None:
    """Try without line numbers; best where the indentation is the file's."""
    outcomes: list[Edit | EditError] = []
    for reading in without_numbers(old, new):
        try:
            edit = _as_read(source, reading)
        except EditError as error:
            outcomes.append(error)
            continue
        if edit and "indentation" not in edit.match:
            return edit
        if edit:
            outcomes.append(edit)
    first = outcomes[0] if outcomes else None
    if isinstance(first, EditError):
        raise first
    return first


def _as_read(source: Source, reading: Reading) -> Edit | None:
    kind, old, new, doubt, line = reading
    if not old or (line and not _begins_at(source, old, line)):
        return None
    if doubt:
        place = _place_of(source, old)
        if place:
            raise unsafe(doubt, place.start, source, len(place))
        return None
    span = replace_exactly(source, old, new)
    if span:
        return _edit(source, span, kind)
    return _loosely(source, old, new, kind)


def _begins_at(source: Source, old: str, line: int) -> bool:
    """Return whether the lines of the file from this one on say what a text says, blank lines
    included.
    """
    lines = old.removesuffix("\n").split("\n")
    there = source.lines[line - 1 : line - 1 + len(lines)] if line > 0 else []
    return [key_of(text) for text in there] == [key_of(text) for text in lines]


def _place_of(source: Source, old: str) -> range | None:
    """Return the indexes of the lines that a text means; ``None`` where it is not in the file."""
    span = replace_exactly(source, old, old)
    if span:
        return range(span.first, max(span.stop - old.endswith("\n"), span.first + 1))
    place = find(source, Lines(old)) if not is_blank(old) else None
    if place:
        return range(place.filled[0], place.filled[-1] + 1)
    return None


def _places_of(source: Source, new: str) -> list[int]:
    lines = Lines(new)
    if is_blank(new) or not any(char.isalnum() for char in new):
        return []
    return [source.filled[start] + 1 for start in runs_of(lines.keys, source.keys)]
