"""Collects the matches that ``rg --json`` writes."""

from __future__ import annotations

import os
from binascii import a2b_base64
from collections.abc import Callable

import msgspec


class _Text(msgspec.Struct):
    """Text in ripgrep's output, encoded in base64 if it is not valid UTF-8."""

    text: str | None = None
    base64: str | None = msgspec.field(name="bytes", default=None)

    def raw(self) -> bytes:
        if self.text is not None:
            return self.text.encode()
        return a2b_base64(self.base64 or "")


class _Submatch(msgspec.Struct):
    start: int


class _Stats(msgspec.Struct):
    searches: int


class _Data(msgspec.Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    submatches: list[_Submatch] = []
    binary_offset: int | None = None
    stats: _Stats | None = None


class _Message(msgspec.Struct):
    type: str
    data: _Data


# A typed decoder skips all other fields, without creating objects for them.
_decode = msgspec.json.Decoder(_Message).decode


class MatchedLine(msgspec.Struct):
    """A matching line in a file, or a context line.

    Attributes:
        number: The line number, from 1.
        text: The bytes of the line, without the newline.
        column: The byte offset at which the match begins; negative for a context line.
    """

    number: int
    text: bytes
    column: int


class MatchedFile(msgspec.Struct):
    """A file with matches, whose ``lines`` include the context lines."""

    path: str
    lines: list[MatchedLine] = msgspec.field(default_factory=list)
    matches: int = 0


class MatchCollector(msgspec.Struct):
    """The matches of a search so far, collected from ripgrep's messages.

    Args:
        wanted: A function that returns whether matches in the file at a path count.
        on_file: A function that is called with each file when all its matches are known.
        max_matches: Number of matches after which the search may end.
        sorted: Whether ripgrep must return files in order, which prevents it from searching several
            files at once.

    Attributes:
        files: Files with matches.
        matches: Number of matching lines.
        searched: Number of files that were searched; ``None`` while unknown.
        complete: Whether ripgrep has reported the end of the search.
        unfinished: Wanted files that PCRE2 did not search completely because the pattern backtracks
            too much.
    """

    wanted: Callable[[str], bool]
    on_file: Callable[[MatchedFile], None]
    max_matches: int
    sorted: bool = False
    files: list[MatchedFile] = []
    matches: int = 0
    searched: int | None = None
    complete: bool = False
    unfinished: list[str] = []
    _open: MatchedFile | None = None

    def take(self, records: list[bytes]) -> bool:
        """Collect messages, and return whether there are enough matches."""
        for record in records:
            self._collect(_decode(record))
            if self.matches > self.max_matches:
                return True
        return False

    def _collect(self, message: _Message) -> None:
        data = message.data
        if message.type == "begin" and data.path:
            # ripgrep's paths begin with `./`, because the base of the search does.
            path = os.fsdecode(data.path.raw()).removeprefix("./")
            self._open = MatchedFile(path) if self.wanted(path) else None
        elif message.type == "end":
            self._end_file(binary=data.binary_offset is not None)
        elif message.type == "summary" and data.stats:
            self.searched = data.stats.searches
            self.complete = True
        elif self._open is not None:
            _add_lines(self._open, data)
            # This check limits the number of matches collected from a single file.
            if self._open.matches > self.max_matches:
                self._end_file(binary=False)

    def _end_file(self, *, binary: bool) -> None:
        file = self._open
        self._open = None
        # ripgrep treats a file as binary from its first NUL byte on, so matches before it may have
        # arrived.
        if file is None or binary:
            return
        self.files.append(file)
        self.matches += file.matches
        self.on_file(file)


def _add_lines(file: MatchedFile, data: _Data) -> None:
    """Add the lines in a message; a match that spans lines has several."""
    if data.lines is None or data.line_number is None:
        return
    is_match = bool(data.submatches)
    column = data.submatches[0].start if is_match else -1
    raw = data.lines.raw()
    number = data.line_number
    # ripgrep sends a multi-line match as one message.
    for text in raw.removesuffix(b"\n").split(b"\n"):
        file.lines.append(MatchedLine(number, text.removesuffix(b"\r"), column))
        number += 1
        if is_match:
            file.matches += 1
            # A match that spans lines continues at the beginning of each following line.
            column = 0
