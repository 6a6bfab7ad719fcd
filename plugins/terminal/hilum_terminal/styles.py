"""The terminal's colors: which ones it supports, and the sequence for each style."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

import attrs

Depth = Literal["none", "16", "256", "truecolor"]
Style = Literal[
    "plain",
    "dim",
    "bold",
    "italic",
    "accent",
    "good",
    "bad",
    "warning",
    "heading",
    "code",
    "link",
    "prompt",
    "selected",
    "added",
    "removed",
    "added_word",
    "removed_word",
    "code_keyword",
    "code_string",
    "code_number",
    "code_name",
    "code_builtin",
    "code_comment",
]
RESET = "\x1b[0m"
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""The frames of the progress spinner."""
# Parameters of SGR sequences. With 16 colors, the user's palette determines the appearance of the
# colors, so that they are readable on both dark and light backgrounds.
_ANY: dict[str, str] = {
    "plain": "",
    "dim": "2",
    "bold": "1",
    "italic": "3",
    "selected": "7",
}
_16: dict[str, str] = {
    "accent": "36",
    "good": "32",
    "bad": "31",
    "warning": "33",
    "heading": "1;36",
    "code": "36",
    "link": "4;34",
    "prompt": "1",
    "added": "32",
    "removed": "31",
    "added_word": "1;32;7",
    "removed_word": "1;31;7",
    # Yellow is unreadable on white, and dark blue on black.
    "code_keyword": "35",
    "code_string": "32",
    "code_number": "36",
    "code_name": "1",
    "code_builtin": "36",
    "code_comment": "2",
}
_DARK: dict[str, str] = {
    "accent": "38;5;80",
    "good": "38;5;114",
    "bad": "38;5;210",
    "warning": "38;5;221",
    "heading": "1;38;5;80",
    "code": "38;5;180",
    "link": "4;38;5;111",
    "added": "38;5;151;48;5;22",
    "removed": "38;5;217;48;5;52",
    "added_word": "1;38;5;231;48;5;28",
    "removed_word": "1;38;5;231;48;5;88",
    "code_keyword": "38;5;176",
    "code_string": "38;5;114",
    "code_number": "38;5;180",
    "code_name": "38;5;111",
    "code_builtin": "38;5;80",
    "code_comment": "38;5;246",
}
_LIGHT: dict[str, str] = {
    "accent": "38;5;23",
    "good": "38;5;28",
    "bad": "38;5;124",
    "warning": "38;5;130",
    "heading": "1;38;5;23",
    "code": "38;5;94",
    "link": "4;38;5;25",
    "added": "38;5;22;48;5;194",
    "removed": "38;5;88;48;5;224",
    "added_word": "1;38;5;22;48;5;157",
    "removed_word": "1;38;5;88;48;5;217",
    "code_keyword": "38;5;90",
    "code_string": "38;5;28",
    "code_number": "38;5;130",
    "code_name": "38;5;25",
    "code_builtin": "38;5;23",
    "code_comment": "38;5;242",
}
# Attributes for styles that must differ from the surrounding text even without colors.
_NO_COLOR: dict[str, str] = {
    "heading": "1",
    "prompt": "1",
    "link": "4",
    "added_word": "1;4",
    "removed_word": "1;4",
    "bad": "1",
    "warning": "1",
}


@attrs.frozen
class Theme:
    """The appearance of styles on one terminal.

    Attributes:
        depth: The color depth that the terminal supports.
        dark: Whether the terminal's background is dark.
        attributes: Whether to use bold, dim and underlined text. ``--plain`` uses none.
    """

    depth: Depth = "16"
    dark: bool = True
    attributes: bool = True

    def paint(self, text: str, style: Style) -> str:
        """Return text in a style; the text must not contain a newline."""
        code = self.code(style)
        if not code or not text:
            return text
        # A sequence that resets an inner style would also end this style.
        inner = text.replace(RESET, f"{RESET}\x1b[{code}m") if RESET in text else text
        return f"\x1b[{code}m{inner}{RESET}"

    def code(self, style: Style) -> str:
        """Return the SGR parameters of a style; empty if it looks like plain text."""
        if not self.attributes:
            return ""
        if style in _ANY:
            return _ANY[style]
        if self.depth == "none":
            return _NO_COLOR.get(style, "")
        if self.depth == "16":
            return _16.get(style, "")
        table = _DARK if self.dark else _LIGHT
        return table.get(style) or _16.get(style, "")


PLAIN = Theme(depth="none", attributes=False)


def find_theme(environ: Mapping[str, str] | None = None, *, background: str = "") -> Theme:
    """Return the theme for the terminal described by the environment.

    ``NO_COLOR`` (no-color.org) removes all colors; bold and underlined text remain.

    Args:
        environ: The environment variables; by default, those of this process.
        background: The setting: ``dark``, ``light``, or empty to guess from ``COLORFGBG``.
    """
    env = os.environ if environ is None else environ
    dark = background != "light" if background else not _is_light(env.get("COLORFGBG", ""))
    return Theme(_find_depth(env), dark)


def _find_depth(env: Mapping[str, str]) -> Depth:
    term = env.get("TERM", "")
    if env.get("NO_COLOR") or term in ("", "dumb") or term.endswith("-m"):
        return "none"
    if env.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return "truecolor"
    if "256" in term or env.get("COLORTERM"):
        return "256"
    return "16"


def _is_light(colors: str) -> bool:
    """Return whether ``COLORFGBG`` ("foreground;background") has a light background."""
    background = colors.rpartition(";")[2]
    return background.isdigit() and int(background) in (7, 9, 10, 11, 12, 13, 14, 15)
