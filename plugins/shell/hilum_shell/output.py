"""Prepares command output for models: plain text, head and tail, or the part after an offset."""

from __future__ import annotations

import codecs
import functools
import re
from typing import Any, NamedTuple

from hilum import ToolError, errors

PAGE_BYTES = 65536
"""Number of bytes to search for a pattern at once."""
PATTERN_TIMEOUT = 0.25
"""Maximum time to search a page, in seconds, because some patterns take forever on some texts."""
# Maximum number of bytes of an incomplete line to search again when the line continues.
_LONG_LINE = 4096

_ESCAPES = (
    # The limit keeps an unterminated sequence from causing a search through the whole text.
    r"\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # window titles, links and pictures
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours and movements
    r"|\x1b[ -/]*[0-~]"
    r"|[^\n]\x08"  # overstriking, as in manual pages
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_RETURNS = r"(?<!\r)\r+(?=\n|\Z)"  # the look-behind makes the search take linear time


def strip_escapes(text: str) -> str:
    """Return the text without terminal escapes and other control characters.

    For an overwritten line, the last version is kept.
    """
    # Most text is printable, and this check is 20 times as fast as the substitution.
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    text = re.sub(_RETURNS, "", re.sub(_ESCAPES, "", text))
    if "\r" not in text:
        return text
    return "\n".join(line.rpartition("\r")[2] for line in text.split("\n"))


class OutputBuffer:
    """The head and the tail of a byte stream of any length.

    Args:
        limit: Number of characters to keep, not counting escapes. The buffer keeps more bytes,
            because a character may take four bytes and escapes are removed later.
    """

    def __init__(self, limit: int) -> None:
        self._room = 4 * limit
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._characters = 0
        self._lines = 0
        self._unfinished = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, chunk: bytes) -> str:
        """Add the next bytes and return their text, without a trailing incomplete character.

        The text still contains escapes, because faces show it as it arrives.
        """
        # The head is filled first and never dropped, because errors often occur at the beginning.
        free = max(self._room - len(self._head), 0)
        self._head += chunk[:free]
        self._tail += chunk[free:]
        if len(self._tail) > 2 * self._room + 65536:  # seldom, because deleting copies the tail
            self._dropped += len(self._tail) - self._room
            del self._tail[: len(self._tail) - self._room]
        text = self._decoder.decode(chunk)
        if text:
            self._characters += len(text)
            self._lines += text.count("\n")
            self._unfinished = not text.endswith("\n")
        return text

    def text(self) -> StreamText:
        """Return the kept text and the size of the whole text.

        If no bytes were dropped, the head is the whole text, and the size excludes escapes.
        """
        if not self._dropped:
            text = strip_escapes((self._head + self._tail).decode(errors="replace"))
            lines = text.count("\n") + bool(text and not text.endswith("\n"))
            return StreamText(text, "", len(text), lines)
        return StreamText(
            # A character may have been split between the head and the tail.
            strip_escapes(self._head.decode(errors="ignore")),
            strip_escapes(self._tail.decode(errors="ignore")),
            self._characters,
            self._lines + self._unfinished,
        )


class StreamText(NamedTuple):
    """The text of one stream.

    Attributes:
        head: The beginning of the text; the whole text if there is no tail.
        tail: The end of the text.
        characters: Number of characters in the whole text.
        lines: Number of lines in the whole text.
    """

    head: str
    tail: str
    characters: int
    lines: int


def cut_middle(written: StreamText, limit: int) -> tuple[str, int]:
    """Return a text without its middle, and the number of omitted characters.

    Args:
        written: The text.
        limit: Maximum number of characters, not counting the notice about the omission.
    """
    head = written.head
    if not written.tail and len(head) <= limit:
        return head, 0
    end = written.tail or head
    first = head[: limit - limit // 2]
    last = end[max(len(end) - limit // 2, 0) :]
    left_out = written.characters - len(first) - len(last)
    if left_out <= 0:  # only escapes and overwritten lines are missing
        return f"{first}\n{last}", 0
    notice = f"[… {left_out:,} of {written.characters:,} characters left out …]"
    return f"{first}\n{notice}\n{last}", left_out


class Spool:
    """The last bytes of a stream, addressed by their offset from its beginning.

    Args:
        limit: Maximum number of bytes to keep.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self.start = 0
        """Offset of the first byte that is still kept."""

    @property
    def end(self) -> int:
        """Offset of the next byte, which equals the number of bytes so far."""
        return self.start + len(self._bytes)

    def add(self, chunk: bytes) -> None:
        """Add the next bytes, and drop old ones."""
        self._bytes += chunk
        if len(self._bytes) > 2 * self._limit:  # seldom, because deleting copies the rest
            self.start += len(self._bytes) - self._limit
            del self._bytes[: len(self._bytes) - self._limit]

    def read(self, offset: int, size: int | None = None) -> bytes:
        """Return the kept bytes from an offset, at most ``size`` of them.

        A trailing incomplete character is left out.
        """
        at = max(offset - self.start, 0)
        stop = None if size is None else at + size
        data = bytes(self._bytes[at:stop])
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # An incomplete character at the end is within the last four bytes.
        decoder.decode(data[-4:])
        unfinished = len(decoder.getstate()[0])
        if 0 < unfinished < len(data):
            return data[:-unfinished]
        return data


class PatternSearch:
    """A search for a pattern in a spool, which resumes when more output arrives.

    Args:
        pattern: A regular expression; ``^`` and ``$`` match at the start and end of each line.
        spool: The spool.
        offset: The offset at which the search begins.

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
            The line with the match, or an empty string, and whether there is more to search.

        Raises:
            ToolError: The search takes too long.
        """
        self._at = max(self._at, self._spool.start)
        data = self._spool.read(self._at, PAGE_BYTES)
        text = strip_escapes(data.decode(errors="replace"))
        try:
            found = self._pattern.search(text, timeout=PATTERN_TIMEOUT)
        except TimeoutError:
            problem = "The search for this pattern takes too long."
            raise ToolError(
                problem, code=errors.E_BAD_ARGS, hint="Use a simpler pattern."
            ) from None
        if found:
            before = text[: found.start()].rpartition("\n")[2]
            after = text[found.end() :].partition("\n")[0]
            line = f"{before}{found[0]}{after}".strip()
            return line or "an empty line", False
        # An incomplete character at the end of a page takes up to three bytes.
        is_full_page = len(data) >= PAGE_BYTES - 4
        has_more = is_full_page and self._at + len(data) < self._spool.end
        # An incomplete line is searched again when it continues, but only the end of a very long
        # line.
        searched = data.rfind(b"\n") + 1
        if has_more or len(data) - searched > _LONG_LINE:
            searched = max(searched, len(data) - _LONG_LINE)
        self._at += searched
        return "", has_more


@functools.lru_cache(16)
def _compiled(pattern: str) -> Any:
    # Unlike re, regex supports a timeout. Its import takes 15 ms, so it is imported only for a
    # pattern.
    import regex  # type: ignore[import-untyped]

    try:
        return regex.compile(pattern, regex.MULTILINE)
    except (regex.error, OverflowError, RecursionError) as error:
        problem = f"This is not a valid regular expression: {error}."
        hint = "Escape literal characters: \\( \\[ \\. \\*"
        raise ToolError(problem, code=errors.E_BAD_ARGS, hint=hint) from None
