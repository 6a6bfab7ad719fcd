"""Finding the lines that a text means although it was not copied exactly.

The words, numbers and operators of every line must be those of the file. White space around them
and typography may differ; and of all places that fit so there must be only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from hilum_files.edits.align import runs_of
from hilum_files.edits.characters import (
    inside_quotes,
    is_blank,
    key_of,
    parts_of,
    plain,
    plain_spaces,
    tokens_of,
)
from hilum_files.edits.refusals import several, unsafe
from hilum_files.edits.source import Source

# What may differ; the names are told to the model.
SLIPS = ("line ends", "trailing blanks", "indentation", "blank lines", "spaces", "typography")
_MOST_COMPARED = 200_000


class Lines:
    """A text that a model wrote, as lines; a line end at its end is none of them."""

    def __init__(self, text: str) -> None:
        self.lines = text.removesuffix("\n").split("\n") if text else []
        self.filled = [index for index, line in enumerate(self.lines) if not is_blank(line)]

    @cached_property
    def keys(self) -> list[str]:
        """What each line that is not blank says."""
        return [key_of(self.lines[index]) for index in self.filled]

    @property
    def before(self) -> int:
        """The number of blank lines it begins with."""
        return self.filled[0] if self.filled else len(self.lines)

    @property
    def after(self) -> int:
        """The number of blank lines it ends with."""
        if self.filled:
            return len(self.lines) - 1 - self.filled[-1]
        return 0

    def gaps(self) -> list[int]:
        """Return the number of blank lines between each line that is not blank and the next."""
        return gaps_of(self.filled)


def gaps_of(filled: Sequence[int]) -> list[int]:
    """Return the number of lines that are left out between each index and the next."""
    return [b - a - 1 for a, b in pairwise(filled)]


class Place:
    """Lines of the file that a text means.

    Attributes:
        filled: Indexes of the lines of the file that are not blank, one for each such line of the
            text.
        slips: What differs, of ``SLIPS``.
        first_bare: Only the first line lacks its indentation: the text was cut out where the line's
            text begins.
    """

    def __init__(self, source: Source, old: Lines, filled: Sequence[int]) -> None:
        self.filled = filled
        self.slips = set[str]()
        self.first_bare = False
        self.problem = ""
        indents: list[tuple[str, str]] = []
        for index, at in zip(old.filled, filled, strict=True):
            self._compare(old.lines[index], source.lines[at], indents)
        if old.gaps() != gaps_of(filled):
            self.slips.add("blank lines")
        self._look_at(indents)

    def _compare(self, old: str, file: str, indents: list[tuple[str, str]]) -> None:
        o = parts_of(old)
        f = parts_of(file)
        indents.append((plain_spaces(o.indent), f.indent))
        if old == file:
            return
        if o.trailing != f.trailing:
            self.slips.add("trailing blanks")
        if plain_spaces(o.indent) != f.indent:
            self.slips.add("indentation")
        if plain_spaces(o.indent) != o.indent != f.indent:
            self.slips.add("typography")
        if o.body != f.body:
            self._compare_bodies(o.body, f.body)

    def _compare_bodies(self, old: str, file: str) -> None:
        ours = tokens_of(old)
        theirs = tokens_of(file)
        if len(ours) != len(theirs):
            self.problem = "White space that is no space or tab differs."
            return
        at = before = 0
        for o, f in zip(ours, theirs, strict=True):
            if o == f:
                pass
            elif plain(o) == plain(f):
                self.slips.add("typography")
            elif not (is_blank(o) and is_blank(f)):
                self.problem = "White space that is no space or tab differs."
            elif inside_quotes(file, at) or inside_quotes(old, before):
                self.problem = "White space inside of quotes differs from old_string."
            else:
                self.slips.add("spaces")
            at = at + len(f)
            before = before + len(o)

    def _look_at(self, indents: list[tuple[str, str]]) -> None:
        """One depth must not be two in the file, nor two depths one."""
        pairs = set(indents)
        if len({o for o, _ in pairs}) == len({f for _, f in pairs}) == len(pairs):
            return
        self.first_bare = indents[0][0] == "" and all(o == f for o, f in indents[1:])
        if not self.first_bare:
            self.problem = (
                "The lines of old_string are not indented among themselves as those of the file"
                " are."
            )


def find(source: Source, old: Lines) -> Place | None:
    """Find the one place that fits.

    Returns:
        The place, or ``None`` where not even the words are there.

    Raises:
        EditError: Several places fit, or the only one differs in what may matter.
    """
    starts = runs_of(old.keys, source.keys)
    count = len(old.filled)
    if len(starts) * count > _MOST_COMPARED and len(starts) > 1:
        raise several([source.filled[start] + 1 for start in starts], loosely=True)
    places = [Place(source, old, source.filled[start : start + count]) for start in starts]
    fit = [place for place in places if not place.problem]
    if not fit and len(places) == 1:
        raise unsafe(places[0].problem, places[0].filled[0], source, count)
    if not fit and places:
        raise several([place.filled[0] + 1 for place in places], loosely=True)
    if len(fit) > 1:
        raise several([place.filled[0] + 1 for place in fit], loosely=True)
    return fit[0] if fit else None
