"""A file's content as lines, with its byte order mark and its line ends put aside, and put back
when lines are replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from hilum_files.edits.characters import key_of
from hilum_files.text import BOM


class Source:
    """The content of a file, split at its line ends.

    Attributes:
        text: The content without byte order mark, with plain line ends.
        lines: ``text`` split at the line ends; the last one is empty where the content ends with a
            line end.

    Args:
        content: The content as it is in the file.
    """

    def __init__(self, content: str) -> None:
        self._bom = BOM if content.startswith(BOM) else ""
        self._body = content.removeprefix(BOM)
        self.text = self._body.replace("\r\n", "\n")
        self.lines = self.text.split("\n")
        crlf = len(self._body) - len(self.text)
        ends = len(self.lines) - 1
        self._newline = "\r\n" if crlf * 2 > ends else "\n"
        self.mixed = crlf not in (0, ends)

    @cached_property
    def filled(self) -> list[int]:
        """The indexes of the lines that are not blank."""
        return [index for index, line in enumerate(self.lines) if line and not line.isspace()]

    @cached_property
    def keys(self) -> list[str]:
        """What each line that is not blank says, without its white space and typography.

        Goes with ``filled``.
        """
        return [key_of(self.lines[index]) for index in self.filled]

    @cached_property
    def _ends(self) -> list[str]:
        return ["\r\n" if part.endswith("\r") else "\n" for part in self._body.split("\n")]

    def line_at(self, offset: int) -> tuple[int, int]:
        """Return line index and column of an offset in ``text``."""
        return self.text.count("\n", 0, offset), offset - self.text.rfind("\n", 0, offset) - 1

    def replaced(
        self, first: int, stop: int, lines: Sequence[str], kept: Sequence[int | None]
    ) -> str:
        """Return the content with other lines from ``first`` up to ``stop``.

        Args:
            first: Index of the first line to replace.
            stop: Index after the last one.
            lines: What takes their place.
            kept: For each of ``lines`` the index of the line of the file whose line end it keeps,
                if there is one.
        """
        before = self.lines[:first]
        after = self.lines[stop:]
        if not lines and not after and before:
            lines = [""]
            kept = [None]  # the line before the end keeps its line end
        if not self.mixed:
            return self._bom + self._newline.join([*before, *lines, *after])
        around = set(self._ends[first : min(stop, len(self.lines) - 1)])
        usual = around.pop() if len(around) == 1 else self._newline
        last = len(self.lines) - 1
        ends = [usual if index is None or index == last else self._ends[index] for index in kept]
        pairs = zip(
            [*before, *lines, *after], [*self._ends[:first], *ends, *self._ends[stop:]], strict=True
        )
        joined = [part for pair in pairs for part in pair]
        return self._bom + "".join(joined[:-1])
