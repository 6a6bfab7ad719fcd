"""What a command wrote, as a model gets it: the head and the tail of it, as plain text."""

from __future__ import annotations

import codecs
import re

_ESCAPES = re.compile(
    r"\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # titles, links, pictures: everything up to their end
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours and movements
    r"|\x1b[ -/]*[0-~]"
    r"|[^\n]\x08"  # overstriking, as old manual pages do it
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_RETURNS = re.compile(r"(?<!\r)\r+(?=\n|\Z)")  # looking back keeps it linear


def clean(text: str) -> str:
    """Take out terminal escapes and other control characters; of a line written over and over keep the last version."""
    text = _RETURNS.sub("", _ESCAPES.sub("", text))
    if "\r" not in text:
        return text
    return "\n".join(line.rpartition("\r")[2] for line in text.split("\n"))


class Kept:
    """The head and the tail of a stream of bytes of any length.

    Args:
        limit: Characters wanted of it later. A character may take four bytes, and escapes come on top, so more is kept.
    """

    def __init__(self, limit: int) -> None:
        self._room = 4 * limit
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, chunk: bytes) -> str:
        """Take the next bytes; give their text, to be shown as it comes, with a character cut in two left for later."""
        free = max(self._room - len(self._head), 0)
        self._head += chunk[:free]
        self._tail += chunk[free:]
        if len(self._tail) > 2 * self._room + 65536:  # rarely, as it moves the tail
            self._dropped += len(self._tail) - self._room
            del self._tail[: len(self._tail) - self._room]
        return self._decoder.decode(chunk)

    def text(self) -> tuple[str, str, int]:
        """Give the text of the head, that of the tail, and how many bytes are missing in between.

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
    first, last = head[: limit - limit // 2], (tail or head)[max(len(tail or head) - limit // 2, 0) :]
    left_out = missing + len(head) + len(tail) - len(first) - len(last)
    return f"{first}\n[… {left_out:,} characters left out …]\n{last}", left_out
