"""Splits a file's content into lines, without its byte order mark and line endings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from hilum_files.edits.characters import normalize_line
from hilum_files.text import BOM


class Source:
    """The content of a file, split into lines.

    Attributes:
        text: The content without a byte order mark, with ``\\n`` as line endings.
        lines: ``text`` split at the line endings; the last one is empty if the content ends with a
            newline.
        mixed: Whether the file has both LF and CRLF line endings.

    Args:
        content: The content as it is in the file.
    """

    def __init__(self, content: str) -> None:
        self._bom = BOM if content.startswith(BOM) else ""
        self._body = content.removeprefix(BOM)
        self.text = self._body.replace("\r\n", "\n")
        self.lines = self.text.split("\n")
        # Each `\r\n` that was replaced made the text one character shorter.
        crlf_count = len(self._body) - len(self.text)
        end_count = len(self.lines) - 1
        # New lines get the more common line ending.
        self._newline = "\r\n" if crlf_count * 2 > end_count else "\n"
        self.mixed = crlf_count not in (0, end_count)

    @cached_property
    def filled(self) -> list[int]:
        """The indexes of the non-blank lines."""
        return [index for index, line in enumerate(self.lines) if line and not line.isspace()]

    @cached_property
    def keys(self) -> list[str]:
        """The normalized text of each non-blank line, in the order of ``filled``."""
        return [normalize_line(self.lines[index]) for index in self.filled]

    @cached_property
    def _ends(self) -> list[str]:
        return ["\r\n" if part.endswith("\r") else "\n" for part in self._body.split("\n")]

    def locate(self, offset: int) -> tuple[int, int]:
        """Return the line index and the column of an offset in ``text``."""
        line_start = self.text.rfind("\n", 0, offset) + 1
        return self.text.count("\n", 0, offset), offset - line_start

    def replace_lines(
        self, first: int, stop: int, lines: Sequence[str], ends_from: Sequence[int | None]
    ) -> str:
        """Return the content with the lines from ``first`` up to ``stop`` replaced.

        Args:
            first: Index of the first line to replace.
            stop: Index one past the last line to replace.
            lines: The new lines.
            ends_from: For each of ``lines``, the index of the line of the file whose newline it
                keeps, or ``None``.
        """
        before = self.lines[:first]
        after = self.lines[stop:]
        if not lines and not after and before:
            # The last replaced line keeps its line ending.
            lines = [""]
            ends_from = [None]
        all_lines = [*before, *lines, *after]
        if not self.mixed:
            return self._bom + self._newline.join(all_lines)
        new_ends = self._new_ends(first, stop, ends_from)
        all_ends = [*self._ends[:first], *new_ends, *self._ends[stop:]]
        all_ends[-1] = ""  # the last line has no line ending
        ended = map(str.__add__, all_lines, all_ends)
        return self._bom + "".join(ended)

    def _new_ends(self, first: int, stop: int, ends_from: Sequence[int | None]) -> list[str]:
        """Return the line endings of new lines in a file with mixed line endings."""
        last = len(self.lines) - 1
        # Line endings near the edit take precedence over those of the whole file.
        around = set(self._ends[first : min(stop, last)])
        usual = around.pop() if len(around) == 1 else self._newline
        ends: list[str] = []
        for index in ends_from:
            if index is None or index == last:
                ends.append(usual)
            else:
                ends.append(self._ends[index])
        return ends
