"""A three-way merge of the model's old text, the lines of the file, and the model's new text.

Lines that the edit keeps or moves are preserved byte for byte. A new line is written as the model
sent it, except for its indentation: if the whole old text is indented by a larger or smaller amount
than the file's lines, or has tabs instead of spaces, the leading whitespace of every new line is
adjusted in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hilum_files.edits.align import Opcode, TooMuch, align
from hilum_files.edits.blank_lines import align_blank_lines
from hilum_files.edits.characters import (
    LineParts,
    is_blank,
    normalize_line,
    split_line,
    to_plain_spaces,
)
from hilum_files.edits.exact import LineReplacement, fits_bare_first_line
from hilum_files.edits.fuzzy import FuzzyMatch, TextLines
from hilum_files.edits.indentation import (
    Rule,
    SharedIndent,
    find_rule,
    follows_file,
    keep_indent,
)
from hilum_files.edits.likeness import ALIKE, likeness
from hilum_files.edits.source import Source
from hilum_files.edits.typography import Typography, UncertainEdit, has_more_typography

_CODE = re.compile(
    r"[;{}()\[\],:=\\>]$|"
    r"^(?:[#@*/<\-]|import|from|def|class|return|if|for|else|end|fn|func|const|let|var)\b"
)
_OPENS_BLOCK = re.compile(r"(?:[:{(\[]|=>|->|\b(?:then|do|else|begin))\s*(?:(?:#|//).*)?$")
_CLOSES_BLOCK = re.compile(r"[})\]]|(?:else|elif|except|finally|end|case|esac|fi|done)\b|</")
LINES_AROUND = 100
MAX_SMALL = 2000
"""Maximum number of lines for which all alignments of both texts are compared."""
# Maximum number of new lines with which one old line is compared, character by character.
MAX_PARTNERS = 200
_MAX_CODE_SHARE = 0.4

_Pair = tuple[int | None, int, str]
"""The indexes of an old line and the new line made from it, and the kind of opcode."""


def merge(source: Source, match: FuzzyMatch, old: TextLines, new: TextLines) -> LineReplacement:
    """Return the replacement for the matched lines.

    Args:
        source: The file.
        match: The lines that match ``old``.
        old: The text to replace, as the model wrote it.
        new: The new text, as the model wrote it.

    Raises:
        UncertainEdit: The intent is unclear.
    """
    try:
        texts = align_blank_lines(source, match, old, new)
        merger = _Merger(source, match.first_bare, texts.first, texts.old, texts.new)
        merged = merger.merge_lines()
        variants = [(True, True)]
        if len(texts.old) + len(texts.new) < MAX_SMALL:
            variants += [(False, False), (True, False)]
        for late, trim in variants:
            # The result must not depend on which of several equal lines the alignment matches.
            other = merger.merge_lines(late=late, trim=trim)
            if _rstrip_lines(merged) != _rstrip_lines(other):
                raise UncertainEdit("It is unclear which of several similar lines are changed.")
    except TooMuch:
        raise UncertainEdit("The edit is too long for an inexact match.") from None
    return merged


def _rstrip_lines(merged: LineReplacement) -> list[str]:
    """Return the lines without trailing whitespace.

    Apart from trailing whitespace, it does not matter which of several equal lines is kept.
    """
    return [line.rstrip() for line in merged.lines]


class _Merger:
    """Merges lines that were not copied exactly.

    Args:
        source: The file.
        first_bare: Whether only the first line lacks its indentation.
        first: Index of the first replaced line in the file.
        old: The lines of the old text, which correspond one to one to those of the file.
        new: The lines of the new text.
    """

    def __init__(
        self, source: Source, first_bare: bool, first: int, old: list[str], new: list[str]
    ) -> None:
        self.source = source
        self.first = first
        self.old = old
        self.new = new
        self.file = source.lines[first : first + len(old)]
        if first_bare:
            self._indent_first()
        self.old_parts = [split_line(line) for line in self.old]
        self.new_parts = [split_line(line) for line in self.new]
        self.file_parts = [split_line(line) for line in self.file]
        self.old_keys = [normalize_line(line) for line in self.old]
        self.new_keys = [normalize_line(line) for line in self.new]
        self.old_texts = [to_plain_spaces(line).rstrip() for line in self.old]
        self.new_texts = [to_plain_spaces(line).rstrip() for line in self.new]
        self.indents: list[tuple[str, str]] = []
        self.typography = self._compare_lines()
        self.for_file = False
        self.rule = self._find_rule()

    def _compare_lines(self) -> Typography:
        """Collect the indentation and the typography of each non-blank old line."""
        written: list[tuple[str, str]] = []
        for line, ours, theirs in zip(self.old, self.old_parts, self.file_parts, strict=True):
            if is_blank(line):
                continue
            written.append((ours.indent, theirs.indent))
            written.append((ours.body, theirs.body))
            self.indents.append((to_plain_spaces(ours.indent), theirs.indent))
        return Typography(written, self.source.text)

    # --- indentation ------------------------------------------------------------------------------

    def _indent_first(self) -> None:
        """Add the indentation that the first lines of both texts lack."""
        at = _first_filled(self.old)
        indent = split_line(self.file[at]).indent
        self.old[at] = indent + self.old[at]
        at = _first_filled(self.new)
        if at == len(self.new):
            return
        new_indent = split_line(self.new[at]).indent
        if new_indent not in ("", indent):
            raise UncertainEdit(
                "The first line of old_string lacks its indentation, and that of new_string"
                " differs."
            )
        if not new_indent:
            self.new[at] = indent + self.new[at]
        if not fits_bare_first_line(indent, "\n".join(self.old), self.new[at:]):
            raise UncertainEdit(
                "old_string lacks the indentation of its first line; it is unclear how new_string"
                " should be indented."
            )

    def _find_rule(self) -> Rule:
        """Find the rule for the indentation of new lines."""
        if all(old == file for old, file in self.indents):
            return keep_indent
        # Lines that consist only of brackets occur everywhere, with any indentation.
        if not any(map(str.isalnum, "".join(self.old_keys))):
            raise UncertainEdit("Brackets alone do not identify a location.")
        new_lines = [line for line in self.new if not is_blank(line)]
        new = [_depth(split_line(line)) for line in new_lines]
        rule = find_rule(self.indents, new, self._indents_around)
        if rule is None:
            raise UncertainEdit(
                "The relative indentation of the lines in old_string differs from that in the file."
            )
        if new:
            closes = bool(_CLOSES_BLOCK.match(new_lines[0].strip()))
            self.for_file = self._follows_file(new, closes=closes)
        return keep_indent if self.for_file else rule

    def _follows_file(self, new: list[str], *, closes: bool) -> bool:
        """Return whether the new text is indented like the file, although the old text is not.

        Args:
            new: The indentations of the non-blank new lines.
            closes: Whether the first non-blank new line closes a block.
        """
        equal = [code for code in align(self.old_keys, self.new_keys) if code.kind == "equal"]
        shared = self._shared_indents(equal)
        is_one_bare_line = len(self.indents) == 1 and self.indents[0][0] == ""
        if is_one_bare_line and len(new) > 1 and not shared:
            raise UncertainEdit(
                "old_string lacks the indentation of its line; it is unclear how new_string should"
                " be indented."
            )
        follows = follows_file(self.indents, new, shared, closes)
        if follows is None:
            raise UncertainEdit(
                "The indentation of old_string differs from that in the file, and that of"
                " new_string matches neither."
            )
        if follows:
            self._check_block(equal, shared)
        return follows

    def _check_block(self, equal: list[Opcode], shared: list[SharedIndent]) -> None:
        """Check that the edit is not meant to move the lines into the block above them."""
        # The old text begins with lines that the new text lacks.
        is_start_removed = equal[0].start > 0 == equal[0].new_start
        if is_start_removed and self._may_move_in(shared[0]):
            raise UncertainEdit(
                "old_string is not indented as in the file, and its first lines are removed: the"
                " indentation of the rest is unclear."
            )
        above = self._line_above()
        is_not_deeper = len(self.indents[0][1]) <= len(split_line(above).indent)
        if _OPENS_BLOCK.search(above) and is_not_deeper:
            raise UncertainEdit(
                "It is unclear whether the edit should indent the lines, or old_string only lacks"
                " indentation."
            )

    def _may_move_in(self, shared: SharedIndent) -> bool:
        """Return whether the edit may be meant to move a line into the block above the match."""
        above = self._line_above()
        least = len(shared.new) + len(shared.file) - len(shared.old)
        return bool(_OPENS_BLOCK.search(above)) or len(split_line(above).indent) >= least

    def _line_above(self) -> str:
        """Return the nearest non-blank line above the match; empty if there is none."""
        for line in reversed(self.source.lines[: self.first]):
            if not is_blank(line):
                return line
        return ""

    def _shared_indents(self, equal: list[Opcode]) -> list[SharedIndent]:
        """Return the indentations of the lines that show how the new text is indented."""
        ends = (len(self.old), len(self.new))
        first = [code for code in equal if code.start == code.new_start == 0]
        last = [code for code in equal if (code.stop, code.new_stop) == ends]
        head = self._indents_of(first)
        if head and head[0].old == head[0].new:
            return self._indents_of(equal, wrapped=False)
        tail = self._indents_of(last)
        if head and tail:
            return head + tail
        return self._indents_of(equal)

    def _indents_of(self, codes: list[Opcode], *, wrapped: bool = True) -> list[SharedIndent]:
        """Return the indentations of each line that is in both texts.

        Args:
            codes: The opcodes of equal lines.
            wrapped: Whether to include lines that the new text moves into a block that it adds.
        """
        shared: list[SharedIndent] = []
        moved = set[int]()
        for _, i1, i2, j1, j2 in codes:
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                if not self.old_keys[i]:
                    continue
                old = _depth(self.old_parts[i])
                new = _depth(self.new_parts[j])
                if not wrapped and len(new) > len(old) and self._is_in_added_block(j, moved):
                    moved.add(j)
                else:
                    shared.append(SharedIndent(old, new, self.file_parts[i].indent))
        return shared

    def _is_in_added_block(self, j: int, moved: set[int]) -> bool:
        """Return whether a new line is in a block that another new line opens.

        Args:
            j: Index of the line.
            moved: The preceding new lines that are in a block opened by another new line.
        """
        above = j - 1
        while above >= 0 and not self.new_keys[above]:
            above -= 1
        if above < 0:
            return False
        if above in moved:
            return True
        depth = len(_depth(self.new_parts[j]))
        is_deeper = depth > len(_depth(self.new_parts[above]))
        is_added = self.new_keys[above] not in self.old_keys
        return is_deeper and is_added and bool(_OPENS_BLOCK.search(self.new[above]))

    def _indents_around(self) -> list[str]:
        return [split_line(line).indent for line in self._lines_around()]

    def _lines_around(self) -> list[str]:
        """Return the non-blank lines around the match in the file."""
        start = max(self.first - LINES_AROUND, 0)
        stop = self.first + len(self.old) + LINES_AROUND
        return [line for line in self.source.lines[start:stop] if not is_blank(line)]

    # --- lines ------------------------------------------------------------------------------------

    def merge_lines(self, *, late: bool = False, trim: bool = True) -> LineReplacement:
        """Merge all lines, passing the given arguments to ``align``."""
        pairs: list[_Pair] = []
        for kind, i1, i2, j1, j2 in self._align(late=late, trim=trim):
            partners: list[int | None] = list(range(i1, i2))
            if i2 - i1 != j2 - j1:
                partners = self._find_partners(i1, i2, j1, j2)
            for i, j in zip(partners, range(j1, j2), strict=True):
                pairs.append((i, j, kind))
        moved = self._find_moved(pairs)
        lines = [self._merge_line(i, j, kind, moved) for i, j, kind in pairs]
        ends_from = [None if i is None else self.first + i for i, _, _ in pairs]
        return LineReplacement(self.first, self.first + len(self.old), lines, ends_from)

    def _align(self, *, late: bool, trim: bool) -> list[Opcode]:
        """Align both texts by equal lines, then by lines that differ only in whitespace."""
        codes: list[Opcode] = []
        for code in align(self.old_texts, self.new_texts, late=late, trim=trim):
            if code.kind != "replace":
                codes.append(code)
                continue
            old_keys = self.old_keys[code.start : code.stop]
            new_keys = self.new_keys[code.new_start : code.new_stop]
            inner = align(old_keys, new_keys, late=late, trim=trim)
            codes += [each.shift(code.start, code.new_start) for each in inner]
        return codes

    def _find_partners(self, i1: int, i2: int, j1: int, j2: int) -> list[int | None]:
        """Find the inexactly copied old lines from which the changed lines were made."""
        partners: list[int | None] = [None] * (j2 - j1)
        if not partners:
            return partners
        for i in range(i1, i2):
            # Replacing a line that was copied exactly loses nothing.
            if self.old_parts[i][1:] == self.file_parts[i][1:]:
                continue
            if len(partners) > MAX_PARTNERS:
                raise TooMuch
            # The most similar new line must not lose typography, tabs or blanks that are only in
            # the file.
            ratios = [likeness(self.old_keys[i], key) for key in self.new_keys[j1:j2]]
            best = max(ratios)
            at = ratios.index(best)
            if best >= ALIKE and partners[at] is None:
                partners[at] = i
        return partners

    def _find_moved(self, pairs: list[_Pair]) -> dict[str, int | None]:
        """Return the index of the old line for each line text that the edit moves.

        The index is ``None`` if the file has several forms of the text.
        """
        staying = {i for i, j, _ in pairs if self._stays(i, j)}
        moved: dict[str, int | None] = {}
        for index, line in enumerate(self.old):
            if index in staying:
                continue
            text = self.old_parts[index].body or line
            other = moved.setdefault(text, index)
            if other is not None and self._file_text(other) != self._file_text(index):
                moved[text] = None
        return moved

    def _file_text(self, index: int) -> str:
        """Return a line of the file without its indentation; a blank line is returned unchanged."""
        parts = self.file_parts[index]
        return parts.body + parts.trailing if parts.body else self.file[index]

    def _stays(self, i: int | None, j: int) -> bool:
        return i is not None and self.old_parts[i].body == self.new_parts[j].body

    def _merge_line(self, i: int | None, j: int, kind: str, moved: dict[str, int | None]) -> str:
        """Return a line of the new text in the form in which it is written to the file.

        Args:
            i: Index of the old line from which the new line was made.
            j: Index of the new line.
            kind: The kind of the new line's opcode.
            moved: The index of the old line for each moved text.
        """
        line = self.new[j]
        new = self.new_parts[j]
        if not new.body:
            is_same = kind == "equal" and i is not None and line in (self.old[i], self.file[i])
            index = i if is_same else moved.get(line)
            return line if index is None else self.file[index]
        stays = self._stays(i, j)
        index = i if stays else moved.get(new.body)
        if index is not None:
            return self._kept_line(index, new, in_place=stays)
        # A line that is neither kept nor moved is new to the file.
        self.typography.check(line)
        if i is not None:
            self._check_changed(i, j)
        return self._indent(new.indent) + new.body + new.trailing

    def _kept_line(self, index: int, new: LineParts, *, in_place: bool) -> str:
        """Return a line of the file that the edit keeps or moves."""
        old = self.old_parts[index]
        file = self.file_parts[index]
        # The model did not change the indentation, so the file's indentation is kept even if it is
        # unusual.
        if in_place and new.indent == old.indent and not self.for_file:
            indent = file.indent
        else:
            indent = self._indent(to_plain_spaces(new.indent))
        return indent + file.body + _merge_trailing(old, file, new)

    def _check_changed(self, i: int, j: int) -> None:
        """Check that a changed line of the file has no characters that the model did not see.

        Raises:
            UncertainEdit: The file's line contains typography, tabs or trailing spaces that may
                matter.
        """
        old = self.old_parts[i]
        file = self.file_parts[i]
        new = self.new_parts[j]
        loses_typography = has_more_typography(file.body, old.body)
        if loses_typography and likeness(self.old_keys[i], self.new_keys[j]) >= ALIKE:
            raise UncertainEdit(
                "In the file, a changed line contains typographic characters or tabs that"
                " old_string lacks."
            )
        # Two trailing spaces are a line break in Markdown.
        if old.trailing != file.trailing == "  " != new.trailing and self._is_prose():
            raise UncertainEdit(
                "In the file, a changed line has trailing spaces: it is unclear whether to keep"
                " them."
            )

    def _indent(self, indent: str) -> str:
        plain = to_plain_spaces(indent)
        found = self.rule(plain)
        if found is None or (found != plain != indent):
            raise UncertainEdit(
                "The indentation of old_string differs from that in the file; it is unclear how to"
                " indent a new line."
            )
        return indent if found == plain else found

    def _is_prose(self) -> bool:
        """Return whether the surrounding lines look like prose, where trailing spaces matter."""
        around = self._lines_around()
        code = [line for line in around if _CODE.search(line.strip())]
        return len(code) < _MAX_CODE_SHARE * len(around)


def _first_filled(lines: Sequence[str]) -> int:
    """Return the index of the first non-blank line, or the number of lines if all are blank."""
    for index, line in enumerate(lines):
        if not is_blank(line):
            return index
    return len(lines)


def _depth(parts: LineParts) -> str:
    return to_plain_spaces(parts.indent)


def _merge_trailing(old: LineParts, file: LineParts, new: LineParts) -> str:
    """Return the trailing whitespace of a line that is kept."""
    if old.trailing == file.trailing:
        return new.trailing
    if old.trailing != new.trailing and (new.trailing or file.trailing):
        raise UncertainEdit(
            "In both old_string and new_string, the trailing spaces of an unchanged line differ"
            " from those in the file."
        )
    return file.trailing
