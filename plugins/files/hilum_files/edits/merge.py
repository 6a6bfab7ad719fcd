"""Merging three ways: what the model took the lines for, what they are, and what they are to
become.

Lines that the edit keeps, or moves, have the file's own bytes. A line that is new in the new text
is written as the model sent it; only its indentation follows that of the old text: where the whole
old text stands further in or out than in the file, or has tabs for spaces, the leading white space
of every new line is shifted likewise, and nothing behind it is touched.
"""

from __future__ import annotations

import re

from hilum_files.edits.align import Opcode, TooMuch, align
from hilum_files.edits.characters import Parts, is_blank, key_of, parts_of, plain_spaces
from hilum_files.edits.exact import Span, placed_behind_bare
from hilum_files.edits.indentation import Rule, rule_for, written_for_the_file
from hilum_files.edits.loose import Lines, Place, gaps_of
from hilum_files.edits.source import Source
from hilum_files.edits.typography import Typography, Unsafe, has_more_typography

_CODE = re.compile(
    r"[;{}()\[\],:=\\>]$|^(?:[#@*/<\-]|import|from|def|class|return|if|for|else|end|fn|func|const|let|var)\b"
)
_OPENS = re.compile(r"(?:[:{(\[]|=>|->|\b(?:then|do|else|begin))\s*(?:(?:#|//).*)?$")
_CLOSER = re.compile(r"[})\]]|(?:else|elif|except|finally|end|case|esac|fi|done)\b|</")
_AROUND = 100
_ALIKE = 0.6
_SMALL = 2000


def merge(source: Source, place: Place, old: Lines, new: Lines) -> Span:
    """Return the lines that take the place of those that were found.

    Args:
        source: The file.
        place: What ``old`` was found to mean.
        old: The text to replace, as the model wrote it.
        new: The text to put in its place, as the model wrote it.

    Raises:
        Unsafe: What is meant is not sure.
    """
    try:
        first, ours, theirs = _squared(source, place, old, new)
        merger = _Merger(source, place, first, ours, theirs)
        span = merger.span()
        small = len(ours) + len(theirs) < _SMALL
        for late, trim in (
            ((True, True), (False, False), (True, False)) if small else ((True, True),)
        ):
            if _without_trailing(span) != _without_trailing(merger.span(late=late, trim=trim)):
                raise Unsafe("Which of several like lines are the changed ones is not sure.")
    except TooMuch:
        raise Unsafe("The edit is too long for a text that was not copied exactly.") from None
    return span


def _without_trailing(span: Span) -> list[str]:
    """Return the lines without the white space at their ends: which of several like lines stays is
    all the same then.
    """
    return [line.rstrip() for line in span.lines]


# --- blank lines ----------------------------------------------------------------------------------


def _squared(
    source: Source, place: Place, old: Lines, new: Lines
) -> tuple[int, list[str], list[str]]:
    """Return both texts with as many blank lines as the file has, wherever the edit is not about
    them.

    Returns:
        The index of the first line of the file that is replaced, and the lines of both texts: those
        of the old one go one by one with the lines of the file.
    """
    above, below = _room(source, place)
    top, top_new = _edge(old.before, new.before, above, bool(new.filled))
    bottom, bottom_new = _edge(old.after, new.after, below, bool(new.filled))
    if new.lines and (
        (old.before > above and (not new.filled or old.keys[0] != new.keys[0] in old.keys))
        or (old.after > below and (not new.filled or old.keys[-1] != new.keys[-1] in old.keys))
    ):
        raise Unsafe(
            "old_string has blank lines at an end that the file has not, and what is beside them"
            " goes."
        )
    if not new.filled:
        top_new = len(new.lines)
        bottom_new = 0
    real = gaps_of(place.filled)
    wanted = _gaps(old, new, real) if new.filled else []
    if wanted and wanted != _gaps(old, new, real, late=True):
        raise Unsafe(
            "Blank lines differ from the file, and beside which of several like lines is not sure."
        )
    ours = _spread(old, real, top, bottom)
    theirs = _spread(new, wanted, top_new, bottom_new)
    return place.filled[0] - top, ours, theirs


def _spread(text: Lines, gaps: list[int], top: int, bottom: int) -> list[str]:
    """Return the lines of a text with so many blank lines between them.

    Where the number stays, its own.
    """
    out = [""] * top
    for at, stop, gap in zip(text.filled, [*text.filled[1:], None], [*gaps, bottom], strict=False):
        blank = text.lines[at + 1 : stop]
        out += [text.lines[at], *(blank if len(blank) == gap else [""] * gap)]
    return out


def _room(source: Source, place: Place) -> tuple[int, int]:
    """Count the blank lines of the file above and below the place."""
    first = place.filled[0]
    last = place.filled[-1]
    above = below = 0
    while first - above and is_blank(source.lines[first - above - 1]):
        above += 1
    end = len(source.lines) - (source.lines[-1] == "")
    while last + below + 1 < end and is_blank(source.lines[last + below + 1]):
        below += 1
    return above, below


def _edge(old: int, new: int, real: int, stays: bool) -> tuple[int, int]:
    """Return the blank lines at one end that belong to the place, and that it is to have."""
    if old <= real:
        return old, new
    if stays and new != old and (new or real):
        raise Unsafe(
            "old_string and new_string have blank lines at an end, and the file has others."
        )
    return real, real


def _gaps(old: Lines, new: Lines, real: list[int], *, late: bool = False) -> list[int]:
    """Return the blank lines that are to be between the lines of the new text."""
    gaps, wanted, theirs_before = old.gaps(), new.gaps(), new.gaps()
    if gaps == real:
        return wanted
    chunk = {
        i: code for code in align(old.keys, new.keys, late=late) for i in range(code[1], code[2])
    }
    for at, (ours, theirs) in enumerate(zip(gaps, real, strict=True)):
        if ours == theirs:
            continue
        here = chunk[at]
        after = chunk[at + 1]
        to = _counterpart(at, here, after, gaps, theirs_before, real)
        if to is None:
            continue
        # A line that became quite another one may as well be one that went, and one that came
        # beyond the gap.
        above = to < 0 or here[0] != "replace" or _likeness(old.keys[at], new.keys[to]) >= _ALIKE
        below = (
            to < 0
            or after[0] != "replace"
            or _likeness(old.keys[at + 1], new.keys[to + 1]) >= _ALIKE
        )
        if to < 0 or not above or not below or wanted[to] not in (ours, theirs):
            raise Unsafe("Blank lines differ from the file just where the edit changes lines.")
        wanted[to] = theirs
    return wanted


def _counterpart(
    at: int, here: Opcode, after: Opcode, gaps: list[int], wanted: list[int], real: list[int]
) -> int | None:
    """Find the gap of the new text that is the one behind line ``at`` of the old text.

    Returns:
        Its index, ``None`` if the gap goes with the lines around it, or -1 where it cannot be told.
    """
    kind, i1, i2, j1, j2 = here
    if here == after:
        if kind == "equal" or (kind == "replace" and i2 - i1 == j2 - j1):
            return j1 + at - i1
        # Lines went on both sides of a gap. If it was the only one there, it may be what is to part
        # those that stay.
        alone = i1 > 0 and i2 <= len(real) and real[i1 - 1] == real[i2 - 1] == 0
        return None if kind == "delete" and not alone else -1
    if any(
        code[0] == "replace" and code[2] - code[1] != code[4] - code[3] for code in (here, after)
    ):
        return -1
    if "delete" in (kind, after[0]):
        # Lines went; the gap on their other side must be none, so that the one that is left is this
        # one.
        if kind == "delete":
            other = i1 - 1
        else:
            other = after[2] - 1
        alone = 0 <= other < len(gaps) and gaps[other] == real[other] == 0
        to = (j1 if kind == "delete" else j2) - 1
        if alone and 0 <= to < len(wanted) and wanted[to] == gaps[at] > 0:
            return to
        return -1
    if after[3] != j2:
        # Lines came; one of the two gaps around them must be none.
        above = wanted[j2 - 1]
        below = wanted[after[3] - 1]
        if gaps[at] == 0 or sorted((above, below)) != [0, gaps[at]]:
            return -1
        return j2 - 1 if above else after[3] - 1
    return j2 - 1


# --- lines ----------------------------------------------------------------------------------------


class _Merger:
    def __init__(
        self, source: Source, place: Place, first: int, old: list[str], new: list[str]
    ) -> None:
        self.source = source
        self.first = first
        self.old = old
        self.new = new
        self.file = source.lines[first : first + len(old)]
        if place.first_bare:
            self._indent_first()
        pairs = [
            (parts_of(o), parts_of(f))
            for o, f in zip(self.old, self.file, strict=True)
            if not is_blank(o)
        ]
        written = [pair for o, f in pairs for pair in ((o.indent, f.indent), (o.body, f.body))]
        self.typography = Typography(written, source.text)
        self.indents = [(plain_spaces(o.indent), f.indent) for o, f in pairs]
        self.keys = [key_of(line) for line in self.old], [key_of(line) for line in self.new]
        self.said = [
            [plain_spaces(line).rstrip() for line in lines] for lines in (self.old, self.new)
        ]
        self.for_file: bool | None = False
        self.rule = self._rule()

    def _moved(self, stays: set[int]) -> dict[str, int | None]:
        """Return which old line says each text that does not stay in its place.

        ``None`` where the file has several forms.
        """
        moved: dict[str, int | None] = {}
        for index, line in enumerate(self.old):
            if index in stays:
                continue
            key = parts_of(line).body or line
            other = moved.setdefault(key, index)
            if other is not None and _said(self.file[other]) != _said(self.file[index]):
                moved[key] = None
        return moved

    def _aligned(self, *, late: bool = False, trim: bool = True) -> list[Opcode]:
        """Align both texts by their lines, and what is left by lines that differ in white space
        only.
        """
        codes: list[Opcode] = []
        for code in align(*self.said, late=late, trim=trim):
            kind, i1, i2, j1, j2 = code
            if kind != "replace":
                codes.append(code)
                continue
            inner = align(self.keys[0][i1:i2], self.keys[1][j1:j2], late=late, trim=trim)
            codes += [(kind, i1 + a, i1 + b, j1 + c, j1 + d) for kind, a, b, c, d in inner]
        return codes

    def _indent_first(self) -> None:
        """Give the first line of both texts the indentation that was left out."""
        at = next(index for index, line in enumerate(self.old) if not is_blank(line))
        indent = parts_of(self.file[at]).indent
        self.old[at] = indent + self.old[at]
        at = next((index for index, line in enumerate(self.new) if not is_blank(line)), -1)
        if at < 0:
            return
        has = parts_of(self.new[at]).indent
        if has not in ("", indent):
            raise Unsafe(
                "old_string lacks the indentation of its first line, and new_string has another"
                " one."
            )
        self.new[at] = indent.removeprefix(has) + self.new[at] if not has else self.new[at]
        if not placed_behind_bare(indent, "\n".join(self.old), self.new[at:]):
            raise Unsafe(
                "old_string lacks the indentation of its first line; what new_string's should be is"
                " not sure."
            )

    def _rule(self) -> Rule:
        new = [self._depth(line) for line in self.new if not is_blank(line)]
        if all(o == f for o, f in self.indents):
            return lambda indent: indent
        if not any(char.isalnum() for key in self.keys[0] for char in key):
            raise Unsafe("Brackets alone do not say where they stand.")
        rule = rule_for(self.indents, new, self._around)
        if rule is None:
            raise Unsafe(
                "The lines of old_string are not indented among themselves as those of the file"
                " are."
            )
        if not new:
            return rule
        alike = [code for code in align(*self.keys) if code[0] == "equal"]
        head = self._shared([code for code in alike if code[1] == code[3] == 0])
        tail = self._shared(
            [code for code in alike if (code[2], code[4]) == (len(self.old), len(self.new))]
        )
        common = head + tail if head and tail else self._shared(alike)
        if head and head[0][0] == head[0][1]:
            common = self._shared(alike, wrapped=False)
        if len(self.indents) == 1 and self.indents[0][0] == "" and len(new) > 1 and not common:
            raise Unsafe(
                "old_string lacks the indentation of its line; what new_string's should be is not"
                " sure."
            )
        closes = bool(_CLOSER.match(next(line for line in self.new if not is_blank(line)).strip()))
        for_file = self.for_file = written_for_the_file(self.indents, new, common, closes)
        if for_file and alike[0][1] > 0 == alike[0][3] and self._may_move_in(common[0]):
            raise Unsafe(
                "old_string is not indented as the file is, and its first lines go: how deep the"
                " rest is, is not sure."
            )
        if for_file is None:
            raise Unsafe(
                "The indentation of old_string is not the file's, and that of new_string fits"
                " neither."
            )
        if for_file and self._may_open():
            raise Unsafe(
                "Whether the lines are to be indented deeper, or only old_string is not indented,"
                " is not sure."
            )
        return (lambda indent: indent) if for_file else rule

    def _shared(self, codes: list[Opcode], *, wrapped: bool = True) -> list[tuple[str, str, str]]:
        """Return the indentation of each line that both texts have: in the old one, in the new one,
        in the file.

        Args:
            codes: Where both texts are alike.
            wrapped: Whether to count lines that the new text moves into a block that it adds.
        """
        shared: list[tuple[str, str, str]] = []
        moved = set[int]()
        for _, i1, i2, j1, j2 in codes:
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                depth = self._depth(self.new[j])
                if not self.keys[0][i]:
                    continue
                if (
                    not wrapped
                    and len(depth) > len(self._depth(self.old[i]))
                    and self._in_added_block(j, moved)
                ):
                    moved.add(j)
                    continue
                shared.append((self._depth(self.old[i]), depth, parts_of(self.file[i]).indent))
        return shared

    def _in_added_block(self, j: int, moved: set[int]) -> bool:
        """Return whether a new line is the first in a block that a new line opens, or comes after
        one in such a block.
        """
        above = next((index for index in range(j - 1, -1, -1) if self.keys[1][index]), -1)
        if above < 0:
            return False
        if above in moved:
            return True
        deeper = len(self._depth(self.new[j])) > len(self._depth(self.new[above]))
        return (
            deeper
            and self.keys[1][above] not in self.keys[0]
            and bool(_OPENS.search(self.new[above]))
        )

    def _may_open(self) -> bool:
        """Return whether the line above the place opens a block that the place does not stand
        in.
        """
        above = next(
            (line for line in reversed(self.source.lines[: self.first]) if not is_blank(line)), ""
        )
        return bool(_OPENS.search(above)) and len(self.indents[0][1]) <= len(parts_of(above).indent)

    def _may_move_in(self, shared: tuple[str, str, str]) -> bool:
        """Return whether a line, what stood above it being gone, may be moved into what is above
        the place now.
        """
        old, new, file = map(len, shared)
        above = next(
            (line for line in reversed(self.source.lines[: self.first]) if not is_blank(line)), ""
        )
        return bool(_OPENS.search(above)) or len(parts_of(above).indent) >= new + file - old

    @staticmethod
    def _depth(line: str) -> str:
        return plain_spaces(parts_of(line).indent)

    def _around(self) -> list[str]:
        lines = self.source.lines[
            max(self.first - _AROUND, 0) : self.first + len(self.old) + _AROUND
        ]
        return [parts_of(line).indent for line in lines if not is_blank(line)]

    def span(self, *, late: bool = False, trim: bool = True) -> Span:
        """Merge all lines, aligned in one of several ways."""
        pairs: list[tuple[int | None, int, str]] = []
        for kind, i1, i2, j1, j2 in self._aligned(late=late, trim=trim):
            partners = list(range(i1, i2)) if i2 - i1 == j2 - j1 else self._partners(i1, i2, j1, j2)
            pairs += [(i, j, kind) for i, j in zip(partners, range(j1, j2), strict=True)]
        stays = {
            i
            for i, j, _ in pairs
            if i is not None and parts_of(self.old[i]).body == parts_of(self.new[j]).body
        }
        moved = self._moved(stays)
        lines = [self._line(i, j, kind, moved) for i, j, kind in pairs]
        kept = [None if i is None else self.first + i for i, _, _ in pairs]
        return Span(self.first, self.first + len(self.old), lines, kept)

    def _partners(self, i1: int, i2: int, j1: int, j2: int) -> list[int | None]:
        """Find for changed lines those they were made of, as far as it matters: where they were not
        copied exactly.
        """
        partners: list[int | None] = [None] * (j2 - j1)
        for i in range(i1, i2):
            ours = parts_of(self.old[i])
            file = parts_of(self.file[i])
            if (ours.body, ours.trailing) == (file.body, file.trailing) or j1 == j2:
                continue
            if j2 - j1 > 200:
                raise TooMuch
            ratios = [_likeness(self.keys[0][i], key) for key in self.keys[1][j1:j2]]
            best = max(ratios)
            if best >= _ALIKE and partners[ratios.index(best)] is None:
                partners[ratios.index(best)] = i
        return partners

    def _line(self, i: int | None, j: int, kind: str, moved: dict[str, int | None]) -> str:
        """Return a line of the new text as it is to be written: the file's own where it is kept,
        else as it was sent.
        """
        line = self.new[j]
        new = parts_of(self.new[j])
        if not new.body:
            index = (
                i if kind == "equal" and i is not None and self.old[i] == line else moved.get(line)
            )
            return line if index is None else self.file[index]
        stays = i is not None and parts_of(self.old[i]).body == new.body
        index = i if stays else moved.get(new.body)
        if index is None:
            self.typography.check(line)
            if i is not None:
                self._check_changed(i, j)
            return self._indent(new.indent) + new.body + new.trailing
        old = parts_of(self.old[index])
        file = parts_of(self.file[index])
        in_place = stays and new.indent == old.indent and not self.for_file
        indent = file.indent if in_place else self._indent(plain_spaces(new.indent))
        return indent + file.body + self._trailing(old, file, new)

    def _check_changed(self, i: int, j: int) -> None:
        """Raise ``Unsafe`` where a changed line has something in the file that the model did not
        see, and that may matter.
        """
        old = parts_of(self.old[i])
        file = parts_of(self.file[i])
        new = parts_of(self.new[j])
        lost = has_more_typography(file.body, old.body)
        if lost and _likeness(self.keys[0][i], self.keys[1][j]) >= _ALIKE:
            raise Unsafe(
                "A line that changes has typographic characters or tabs in the file that old_string"
                " does not have."
            )
        if old.trailing != file.trailing == "  " != new.trailing and self._prose():
            raise Unsafe(
                "A line that changes has spaces at its end in the file: whether they are to stay is"
                " not sure."
            )

    def _indent(self, indent: str) -> str:
        plain = plain_spaces(indent)
        found = self.rule(plain)
        if found is None or (found != plain != indent):
            raise Unsafe(
                "The indentation of old_string is not the file's; what a new line should have is"
                " not sure."
            )
        return indent if found == plain else found

    @staticmethod
    def _trailing(old: Parts, file: Parts, new: Parts) -> str:
        if old.trailing == file.trailing:
            return new.trailing
        if old.trailing != new.trailing and (new.trailing or file.trailing):
            raise Unsafe(
                "Spaces at the end of a line that stays differ from the file in both texts."
            )
        return file.trailing

    def _prose(self) -> bool:
        """Return whether the lines around look like text to read, where spaces at the end of a line
        may mean something.
        """
        around = self.source.lines[
            max(self.first - _AROUND, 0) : self.first + len(self.old) + _AROUND
        ]
        filled = [line.strip() for line in around if not is_blank(line)]
        return sum(bool(_CODE.search(line)) for line in filled) < 0.4 * len(filled)


def _said(line: str) -> tuple[str, str]:
    """Return a line without its indentation: its text, and the white space at its end.

    A blank line as it is.
    """
    parts = parts_of(line)
    if parts.body:
        return (parts.body, parts.trailing)
    return (line, "")


def _likeness(a: str, b: str) -> float:
    """Return how much two lines have in common, from 0 to 1."""
    from difflib import SequenceMatcher  # 2 ms, only where a text was not copied exactly

    return SequenceMatcher(None, a[:500], b[:500], autojunk=False).ratio()
