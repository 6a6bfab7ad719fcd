"""What a command wrote, as a model gets it: plain text, the head and the tail of it, or what came
since an offset.
"""

from __future__ import annotations

import codecs
import functools
import re
from typing import Any

from hilum import ToolError, errors

PAGE = 65536
"""Bytes in which a pattern is searched at once."""
PATTERN_SECONDS = 0.25
"""Seconds that one search of a page may take: some patterns take for ever on some texts."""
_LONG_LINE = 4096  # bytes of an unfinished line that are searched again when it goes on

_ESCAPES = re.compile(
    r"\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # titles, links, pictures: everything up to their end
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours and movements
    r"|\x1b[ -/]*[0-~]"
    r"|[^\n]\x08"  # overstriking, as old manual pages do it
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_RETURNS = re.compile(r"(?<!\r)\r+(?=\n|\Z)")  # looking back keeps it linear


def clean(text: str) -> str:
    """Take out terminal escapes and other control characters.

    Of a line written over and over keep the last version.
    """
    if text.replace("\n", "").replace("\t", "").isprintable():  # as most is: twenty times as fast
        return text
    text = _RETURNS.sub("", _ESCAPES.sub("", text))
    if "\r" not in text:
        return text
    return "\n".join(line.rpartition("\r")[2] for line in text.split("\n"))


class Kept:
    """The head and the tail of a stream of bytes of any length.

    Args:
        limit: Characters wanted of it later. A character may take four bytes, and escapes come on
            top, so more is kept.
    """

    def __init__(self, limit: int) -> None:
        self._room = 4 * limit
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, chunk: bytes) -> str:
        """Take the next bytes.

        Give their text, to be shown as it comes, with a character cut in two left for later.
        """
        free = max(self._room - len(self._head), 0)
        self._head += chunk[:free]
        self._tail += chunk[free:]
        if len(self._tail) > 2 * self._room + 65536:  # rarely, as it moves the tail
            self._dropped += len(self._tail) - self._room
            del self._tail[: len(self._tail) - self._room]
        return self._decoder.decode(chunk)

    def text(self) -> tuple[str, str, int]:
        """Return the text of the head, that of the tail, and how many bytes are missing in between.

        Where nothing is missing all of it is head.
        """
        if not self._dropped:
            return clean((self._head + self._tail).decode(errors="replace")), "", 0
        return (
            clean(self._head.decode(errors="ignore")),
            clean(self._tail.decode(errors="ignore")),
            self._dropped,
        )


def cut(parts: tuple[str, str, int], limit: int) -> tuple[str, int]:
    """Shorten a text to a number of characters, in its middle.

    Args:
        parts: What ``Kept.text`` gave.
        limit: Characters that may stay; a notice in place of the rest comes on top.

    Returns:
        The text, and how many characters were left out.
    """
    head, tail, missing = parts
    if not missing and len(head) <= limit:
        return head, 0
    first = head[: limit - limit // 2]
    last = (tail or head)[max(len(tail or head) - limit // 2, 0) :]
    left_out = missing + len(head) + len(tail) - len(first) - len(last)
    return f"{first}\n[… {left_out:,} characters left out …]\n{last}", left_out


class Spool:
    """The last bytes of a stream, found by their offset from its beginning.

    Args:
        limit: Bytes that are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self.start = 0
        """Offset of the first byte that is still kept."""

    @property
    def end(self) -> int:
        """Offset of the byte that comes next: how much was written so far."""
        return self.start + len(self._bytes)

    def add(self, chunk: bytes) -> None:
        """Take the next bytes; old ones are let go."""
        self._bytes += chunk
        if len(self._bytes) > 2 * self._limit:  # rarely, as it moves the rest
            self.start += len(self._bytes) - self._limit
            del self._bytes[: len(self._bytes) - self._limit]

    def read(self, offset: int, size: int | None = None) -> bytes:
        """Return what is kept from an offset on, at most ``size`` bytes.

        A character cut in two at its end is left out.
        """
        at = max(offset - self.start, 0)
        data = bytes(self._bytes[at : None if size is None else at + size])
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(data[-4:])
        unfinished = len(decoder.getstate()[0])
        if 0 < unfinished < len(data):
            return data[:-unfinished]
        return data


class Finder:
    """Searches for a pattern in a spool, from an offset on, and goes on where it stopped when more
    has come.

    Args:
        pattern: A regular expression; ``^`` and ``$`` match at the ends of lines.
        spool: Where to search.
        offset: Where to begin.

    Raises:
        ToolError: The pattern is not valid.
    """

    def __init__(self, pattern: str, spool: Spool, offset: int) -> None:
        self._pattern = _compiled(pattern)
        self._spool = spool
        self._at = offset

    def step(self) -> tuple[str, bool]:
        """Search one page.

        Returns:
            The line with the match, empty if there is none, and whether more is there to be
            searched.

        Raises:
            ToolError: The search takes too long.
        """
        self._at = max(self._at, self._spool.start)
        data = self._spool.read(self._at, PAGE)
        text = clean(data.decode(errors="replace"))
        try:
            found = self._pattern.search(text, timeout=PATTERN_SECONDS)
        except TimeoutError:
            problem = "The search for this pattern takes too long."
            raise ToolError(
                problem, code=errors.E_BAD_ARGS, hint="Give a simpler pattern."
            ) from None
        if found:
            begin = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", found.end())
            return text[begin : end if end >= 0 else None].strip() or "an empty line", False
        more = self._at + len(data) < self._spool.end and len(data) >= PAGE - 4
        done = data.rfind(b"\n") + 1
        self._at += max(
            done, len(data) - _LONG_LINE if more or len(data) - done > _LONG_LINE else 0
        )
        return "", more


@functools.lru_cache(16)
def _compiled(pattern: str) -> Any:
    # Unlike re it has a time limit. It takes 15 ms to import, so only where a pattern is used.
    import regex  # type: ignore[import-untyped]

    try:
        return regex.compile(pattern, regex.MULTILINE)
    except (regex.error, OverflowError, RecursionError) as error:
        problem = f"This is no regular expression: {error}."
        hint = "Escape what is meant literally: \\( \\[ \\. \\*"
        raise ToolError(problem, code=errors.E_BAD_ARGS, hint=hint) from None
