"""Positions in a text: the protocol counts lines and code units, Python counts characters."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Literal

Encoding = Literal["utf-8", "utf-16", "utf-32"]
BOM = b"\xef\xbb\xbf"
"""The byte order mark at the beginning of a file, which is not part of the text."""
# The protocol knows only these ends of lines; `splitlines` would split at others as well.
_NEWLINE = re.compile(r"\r\n|\n|\r")


class TextLines:
    """A text with the beginnings of its lines.

    Args:
        text: The text, without a byte order mark.
        encoding: The unit in which a server counts the columns.
    """

    def __init__(self, text: str, encoding: Encoding = "utf-16") -> None:
        self.text = text
        self.encoding = encoding
        self._starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]

    @property
    def count(self) -> int:
        """Number of lines."""
        return len(self._starts)

    def line(self, number: int) -> str:
        """Return a line without its newline; empty if there is no such line.

        Args:
            number: The number of the line, from 0.
        """
        if not 0 <= number < len(self._starts):
            return ""
        return self.text[self._starts[number] : self._end(number)]

    def _end(self, number: int) -> int:
        """Return where a line ends, before its newline."""
        if number + 1 == len(self._starts):
            return len(self.text)
        end = self._starts[number + 1]
        return end - 2 if self.text[end - 2 : end] == "\r\n" else end - 1

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a position in the text.

        A column behind the end of its line counts as the end, as the protocol says.

        Args:
            line: The number of the line, from 0.
            column: The number of code units before the position.

        Raises:
            ValueError: There is no such line.
        """
        # A range may end at the line after the last one.
        if line == len(self._starts) and column == 0:
            return len(self.text)
        if not 0 <= line < len(self._starts) or column < 0:
            raise ValueError("The position is not in the text.")
        return self._starts[line] + self._characters(self.line(line), column)

    def _characters(self, line: str, column: int) -> int:
        """Return how many characters a number of code units is, at most the whole line."""
        if self.encoding == "utf-32" or line.isascii():
            return min(column, len(line))
        if self.encoding == "utf-8":
            return len(line.encode(errors="surrogatepass")[:column].decode(errors="ignore"))
        units = line.encode("utf-16-le", "surrogatepass")[: 2 * column]
        return len(units.decode("utf-16-le", errors="ignore"))

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line, from 0, and the column in code units of an offset in the text."""
        line = bisect_right(self._starts, offset) - 1
        before = self.text[self._starts[line] : offset]
        if self.encoding == "utf-8":
            return line, len(before.encode(errors="surrogatepass"))
        if self.encoding == "utf-16":
            return line, len(before.encode("utf-16-le", "surrogatepass")) // 2
        return line, len(before)
