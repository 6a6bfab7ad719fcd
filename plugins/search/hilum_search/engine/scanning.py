"""Finds the matching lines of one file, with the lines around them."""

from __future__ import annotations

import codecs
import re

from .literals import required

TYPE_CHECKING = False  # importing typing would be a fifth of the worker's start
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LONG = 4
"""Characters of a class in a row that are rare enough to look for them first."""
# The characters beyond ASCII that are, case ignored, the same as one of ASCII: ſ, K (Kelvin), ı.
_ODD_CASES = ("\u017f".encode(), "\u212a".encode(), "\u0131".encode())


class Scanner:
    """A pattern made ready.

    Args:
        for_bytes: The pattern over ASCII bytes; empty if it names other characters.
        for_text: The pattern over text.
        run: A class that each match begins with, and how often it is there at least.
        flags: For ``re``.
        multiline: Whether a match may cross lines.
        context: Lines to give before and after each match.
        most: Matching lines of one file after which it is left.
    """

    def __init__(
        self,
        for_bytes: str,
        for_text: str,
        run: tuple[str, int],
        flags: int,
        multiline: bool,
        context: int,
        most: int,
    ) -> None:
        self._bytes = re.compile(for_bytes.encode(), flags) if for_bytes else None
        self._text = (for_text, flags)
        self._folds = bool(flags & re.IGNORECASE)
        self._multiline = multiline
        self._context = context
        self._most = most
        # Parts of lines, as files differ in how these end.
        found = [
            [max(text.split("\n"), key=len) for text in texts]
            for texts in required(for_text, flags)
        ]
        self._needles = [needles for needles in found if all(needles)]
        if self._folds:
            self._needles = [
                [n.lower() for n in needles]
                for needles in self._needles
                if all(map(str.isascii, needles))
            ]
        self._raw = [
            [n.encode("utf-8", "surrogateescape") for n in needles] for needles in self._needles
        ]

        item, least = run
        self._run = b"\1" * least if least >= _LONG and not self._raw else b""
        if (
            self._run
        ):  # makes 1 of each byte of the class, and of all beyond ASCII, which may be of it
            of_class = re.compile(item.encode(), flags).match
            self._ones = bytes(
                byte > 127 or of_class(bytes((byte,))) is not None for byte in range(256)
            )

    def lines(self, data: bytes) -> list[tuple[int, bytes, int]]:
        """Return the lines to show of a file's content.

        None where nothing matches, or the file is binary.

        Of each its number, its bytes, and where in them the match begins (below zero: no match).
        """
        data = data.removeprefix(codecs.BOM_UTF8)
        if data.startswith(_UTF16):
            data = data.decode("utf-16", "replace").encode()
        folded = data.lower() if self._folds and self._needles else data
        if not self._possible(folded) or b"\0" in data:
            return []
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
            folded = data.lower() if folded is not data and self._folds else data
        if data.isascii() and self._bytes:
            spans = self._spans(
                self._bytes, data, folded if self._folds else data, self._raw, b"\n"
            )
            return list(_shown(data, spans, self._context, b"\n"))
        text = data.decode("utf-8", "surrogateescape")
        # Lower case may be longer, so that places in it are not those in the text: then no short
        # cut.
        if self._folds:
            needles = []
        else:
            needles = self._needles
        spans = self._spans(re.compile(*self._text), text, text, needles, "\n")
        shown: Iterator[tuple[int, str, int]] = _shown(text, spans, self._context, "\n")
        return [
            (number, line.encode("utf-8", "surrogateescape"), _bytes_before(line, column))
            for number, line, column in shown
        ]

    def _possible(self, folded: bytes) -> bool:
        if self._run:
            return self._run in folded.translate(self._ones)
        if all(any(needle in folded for needle in needles) for needles in self._raw):
            return True
        return self._folds and not folded.isascii() and any(odd in folded for odd in _ODD_CASES)

    def _spans(
        self, pattern: Any, text: Any, folded: Any, choices: list[list[Any]], end: Any
    ) -> list[tuple[int, int, int]]:
        """Return begin and end of each matching line (or lines), and where in the text the match
        begins.
        """
        search = pattern.search
        size = len(text)
        found: list[tuple[int, int, int]] = []
        if choices and not self._multiline:
            # Of all that a line must contain, what the fewest lines do.
            if len(choices) > 1:
                needles = min(choices, key=lambda some: sum(map(folded.count, some)))
            else:
                needles = choices[0]
            return _in_lines(search, text, folded, needles, end, self._most)
        at = 0
        while at < size and len(found) < self._most and (match := search(text, at)):
            first = match.start()
            if first == size and text.endswith(end):  # behind the last line's end there is no line
                break
            begin = text.rfind(end, 0, first) + 1
            stop = text.find(end, max(match.end() - 1, first))
            stop = size if stop < 0 else stop
            if found and begin <= found[-1][1]:  # goes on in a line that is shown already
                begin = found[-1][1] + 1
            if begin < stop or first >= begin:
                found.append((begin, stop, first))
            at = max(match.end(), first + 1) if self._multiline else stop + 1
        return found


def _in_lines(
    search: Any, text: Any, folded: Any, needles: list[Any], end: Any, most: int
) -> list[tuple[int, int, int]]:
    """Search in the lines that contain one of some texts."""
    found: list[tuple[int, int, int]] = []
    # One flat loop: it goes round once for each line with a common word, in all files.
    find, line_begin, line_end, size = folded.find, folded.rfind, folded.find, len(folded)
    needle = needles[0]
    if len(needles) > 1:
        union = re.compile((b"|" if isinstance(end, bytes) else "|").join(map(re.escape, needles)))

        def find(_: Any, at: int) -> int:
            place = union.search(folded, at)
            return place.start() if place else -1

    at = 0
    while (at := find(needle, at)) >= 0:
        begin = line_begin(end, 0, at) + 1
        stop = line_end(end, at)
        if stop < 0:
            stop = size
        match = search(text, begin, stop)
        if match:
            found.append((begin, stop, match.start()))
            if len(found) >= most:
                break
        at = stop + 1
    return found


def _shown(text: Any, spans: list[tuple[int, int, int]], context: int, end: Any) -> Iterator[Any]:
    """Yield the lines of all spans and those around them, each once, with their numbers."""
    number = 1
    counted = 0
    done = 0  # the number of the line at ``counted``; what lies before ``done`` was given
    size = len(text)
    for index, (begin, stop, first) in enumerate(spans):
        start = begin
        for _ in range(context):
            if start <= done:
                break
            start = max(text.rfind(end, 0, start - 1) + 1, done)
        number = number + text.count(end, counted, start)
        counted = start
        until = spans[index + 1][0] if index + 1 < len(spans) else size
        at = start
        after = context
        while at < until and (at <= stop or after):
            close = text.find(end, at)
            close = size if close < 0 else close
            matches = begin <= at <= stop
            after -= not matches and at > stop
            yield number, text[at:close], max(first - at, 0) if matches else -1
            number = number + 1
            counted = close + 1
            at = close + 1
        done = at


def _bytes_before(line: str, column: int) -> int:
    if column < 0:
        return column
    return len(line[:column].encode("utf-8", "surrogateescape"))
