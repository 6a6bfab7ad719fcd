"""Finds the lines that match an inexact copy.

Every line must contain the same words, numbers and operators as in the file. Only typography and
whitespace may differ. Exactly one location must match.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from hilum_files.edits.align import find_runs
from hilum_files.edits.characters import (
    is_blank,
    is_inside_quotes,
    normalize_line,
    split_line,
    to_plain,
    to_plain_spaces,
    tokenize,
)
from hilum_files.edits.refusals import multiple_matches_error, uncertain_error
from hilum_files.edits.source import Source

SLIPS = ("line ends", "trailing blanks", "indentation", "blank lines", "spaces", "typography")
"""The accepted differences, under the names that are reported to the model."""
MAX_COMPARED = 200_000
"""Maximum number of lines to compare when a text matches several locations."""


class TextLines:
    """The lines of a text that a model wrote.

    A trailing newline does not begin another line.

    Attributes:
        lines: The lines.
        filled: The indexes of the non-blank lines.
    """

    def __init__(self, text: str) -> None:
        self.lines = text.removesuffix("\n").split("\n") if text else []
        self.filled = [index for index, line in enumerate(self.lines) if not is_blank(line)]

    @cached_property
    def keys(self) -> list[str]:
        """The normalized text of each non-blank line."""
        return [normalize_line(self.lines[index]) for index in self.filled]

    @property
    def blank_before(self) -> int:
        """The number of leading blank lines."""
        return self.filled[0] if self.filled else len(self.lines)

    @property
    def blank_after(self) -> int:
        """The number of trailing blank lines."""
        if self.filled:
            return len(self.lines) - 1 - self.filled[-1]
        return 0

    def gaps(self) -> list[int]:
        """Return the number of blank lines between each non-blank line and the next."""
        return gaps_between(self.filled)


def gaps_between(indexes: Sequence[int]) -> list[int]:
    """Return the number of lines between each index and the next."""
    return [b - a - 1 for a, b in pairwise(indexes)]


class FuzzyMatch:
    """A candidate match: lines of the file to which a text may refer.

    Attributes:
        filled: The indexes of the file's non-blank lines, one for each non-blank line of the text.
        slips: The differences, as names from ``SLIPS``.
        first_bare: Whether only the first line lacks its indentation, because the model copied that
            line from its first letter on.
        problem: A sentence about a difference that is not accepted; empty if there is none.
    """

    def __init__(self, source: Source, old: TextLines, filled: Sequence[int]) -> None:
        self.filled = filled
        self.slips = set[str]()
        self.first_bare = False
        self.problem = ""
        indents: list[tuple[str, str]] = []
        for index, at in zip(old.filled, filled, strict=True):
            self._compare(old.lines[index], source.lines[at], indents)
        if old.gaps() != gaps_between(filled):
            self.slips.add("blank lines")
        self._check_indents(indents)

    def _compare(self, old: str, file: str, indents: list[tuple[str, str]]) -> None:
        ours = split_line(old)
        theirs = split_line(file)
        our_indent = to_plain_spaces(ours.indent)
        indents.append((our_indent, theirs.indent))
        if old == file:
            return
        if ours.trailing != theirs.trailing:
            self.slips.add("trailing blanks")
        if our_indent != theirs.indent:
            self.slips.add("indentation")
        if our_indent != ours.indent != theirs.indent:
            self.slips.add("typography")
        if ours.body != theirs.body:
            self._compare_bodies(ours.body, theirs.body)

    def _compare_bodies(self, old: str, file: str) -> None:
        our_tokens = tokenize(old)
        their_tokens = tokenize(file)
        # The lines contain the same words, so only unusual whitespace can change the number of
        # tokens.
        if len(our_tokens) != len(their_tokens):
            self.problem = "Whitespace other than spaces and tabs differs."
            return
        our_offset = 0
        their_offset = 0
        for ours, theirs in zip(our_tokens, their_tokens, strict=True):
            slip = _describe_slip(ours, theirs)
            if slip == "text":
                self.problem = "Whitespace other than spaces and tabs differs."
            elif slip == "spaces" and (
                is_inside_quotes(file, their_offset) or is_inside_quotes(old, our_offset)
            ):
                self.problem = "Whitespace inside quotes differs between old_string and the file."
            elif slip:
                self.slips.add(slip)
            our_offset += len(ours)
            their_offset += len(theirs)

    def _check_indents(self, indents: list[tuple[str, str]]) -> None:
        """Check that the indentations in the text and those in the file correspond one to one."""
        pairs = set(indents)
        old_depths = {old for old, _ in pairs}
        file_depths = {file for _, file in pairs}
        if len(old_depths) == len(file_depths) == len(pairs):
            return
        # Models often copy from the first letter on, without the indentation.
        (first, _), *others = indents
        self.first_bare = first == "" and all(old == file for old, file in others)
        if not self.first_bare:
            self.problem = (
                "The relative indentation of the lines in old_string differs from that in the file."
            )


def _describe_slip(ours: str, theirs: str) -> str:
    """Return how two tokens differ: a name from ``SLIPS``, ``text``, or empty if equal."""
    if ours == theirs:
        return ""
    if to_plain(ours) == to_plain(theirs):
        return "typography"
    if is_blank(ours) and is_blank(theirs):
        return "spaces"
    return "text"


def find_match(source: Source, old: TextLines) -> FuzzyMatch | None:
    """Find the single location that matches.

    Returns:
        The match, or ``None`` if the file does not contain the words.

    Raises:
        EditError: Several locations match, or the only match has a difference that may matter.
    """
    starts = find_runs(old.keys, source.keys)
    if not starts:
        return None
    count = len(old.filled)
    # A repetitive file would take quadratic time and end in the same error.
    if len(starts) > 1 and len(starts) * count > MAX_COMPARED:
        raise multiple_matches_error([source.filled[start] + 1 for start in starts], fuzzy=True)
    matches = [FuzzyMatch(source, old, source.filled[start : start + count]) for start in starts]
    # A match with a difference that may matter does not compete with one without.
    candidates = [match for match in matches if not match.problem] or matches
    if len(candidates) > 1:
        raise multiple_matches_error([match.filled[0] + 1 for match in candidates], fuzzy=True)
    match = candidates[0]
    if match.problem:
        raise uncertain_error(match.problem, match.filled[0], source, count)
    return match
