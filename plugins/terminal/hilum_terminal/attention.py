"""Gets the user's attention while the terminal is in the background."""

from __future__ import annotations

from typing import Literal

from hilum_terminal.text_width import one_line

Way = Literal["bell", "desktop", "off"]
BELL = b"\a"
MAX_TEXT = 120


def attention(way: Way, text: str) -> bytes:
    """Return the bytes that ring the bell or show a desktop notification.

    Args:
        way: Value of the setting ``terminal.notify``.
        text: What happened, in a few words.
    """
    if way == "off":
        return b""
    if way == "bell":
        return BELL
    # iTerm2, WezTerm, kitty, Ghostty and Windows Terminal show OSC 9 as a notification; other
    # terminals ignore it. A BEL character ends OSC 9, so a semicolon or an escape character in the
    # text cannot end it.
    shown = one_line(text, MAX_TEXT).replace(";", ",")
    return f"\x1b]9;{shown}\a".encode()
