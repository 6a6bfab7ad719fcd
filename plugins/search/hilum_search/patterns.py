"""Translates regular expressions that models write into ones that ripgrep accepts.

ripgrep's two engines accept nearly everything. PCRE2 handles the patterns that the default engine
rejects, such as patterns with look-around, back-references or a literal ``{``. This module
translates the three remaining differences: line endings (``\\n`` also matches ``\\r\\n`` and needs
``--multiline``), anchors (``\\A`` and ``\\Z`` match at the ends of a line), and escapes such as
``\\u20ac``, which PCRE2 does not support.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LINE_END = r"(?:\r?\n)"
_LINE_ENDS = frozenset((r"\n", r"\r\n", "\n", "\r\n"))
_ANCHORS = {r"\A": "^", r"\z": "$", r"\Z": "$"}
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9A-Fa-f]+)\}|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|r\\n|.)", re.DOTALL
)
_TOKEN = re.compile(
    rf"""
    {_ESCAPE.pattern}
    | \r?\n
    | (?P<flags> \(\?[a-zA-Z]*s[a-zA-Z]*[-:)] )
    | (?P<class> \[ \^? \]? (?: \\. | \[:\^?\w+:\] | [^]\\] )* \] )
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


class PatternError(ValueError):
    """Raised if a pattern is not a valid regular expression.

    Attributes:
        problem: A description of the error.
        position: The position of the error, in characters; negative if unknown.
    """

    def __init__(self, problem: str, position: int = -1) -> None:
        super().__init__(problem)
        self.problem = problem
        self.position = position


class Piece(NamedTuple):
    """A part of a pattern, as the model wrote it and in ripgrep's syntax."""

    source: str
    translated: str


class Pattern:
    """A regular expression or text to search for.

    Args:
        source: The pattern, as the model wrote it.
        literal: Whether the pattern is plain text.
        ignore_case: Whether to ignore case.

    Attributes:
        multiline: Whether a match may span several lines.

    Raises:
        PatternError: The pattern ends with a lone backslash.
    """

    def __init__(self, source: str, *, literal: bool = False, ignore_case: bool = False) -> None:
        self.source = source
        self.ignore_case = ignore_case or source.startswith("(?i)")
        self.multiline = False
        self._pieces: list[Piece] = []
        if literal:
            self._add_text(source)
        else:
            self._add_expression(source)

    def for_ripgrep(self) -> str:
        """Return the pattern as an argument for ripgrep."""
        return "".join(piece.translated for piece in self._pieces)

    def position(self, offset: int) -> int:
        """Return the position in ``source`` of a byte offset in the translated pattern."""
        position = 0
        for source, translated in self._pieces:
            encoded = _encode(translated)
            if offset < len(encoded):
                if source == translated:
                    # ripgrep counts bytes, but the model counts characters.
                    position += len(encoded[:offset].decode(errors="ignore"))
                return position
            offset -= len(encoded)
            position += len(source)
        return position

    def _add_text(self, text: str) -> None:
        for part in re.split(r"(\r?\n)", text):
            if part in _LINE_ENDS:
                self._add_line_end(part)
            else:
                # The text is escaped instead of passed with `--fixed-strings`, because LINE_END is
                # an expression.
                self._pieces.append(Piece(part, _SPECIAL.sub(r"\\\g<0>", part)))

    def _add_line_end(self, source: str) -> None:
        self.multiline = True
        self._pieces.append(Piece(source, LINE_END))

    def _add_expression(self, source: str) -> None:
        for token in _TOKEN.finditer(source):
            text = token[0]
            if text == "\\":
                # ripgrep puts the pattern into a group and would report an error in that group.
                raise PatternError("a backslash at the end escapes nothing", token.start())
            if text in _LINE_ENDS:
                self._add_line_end(text)
                continue
            # With the flag `s`, a dot also matches a line ending.
            if token["flags"] or (token["class"] and _class_matches_line_end(text)):
                self.multiline = True
            translated = _ANCHORS.get(text) or _ESCAPE.sub(_code_point, text)
            self._pieces.append(Piece(text, translated))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _code_point(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2] or escape[3]
    if digits:
        return rf"\x{{{digits}}}"
    return escape[0]


def _class_matches_line_end(text: str) -> bool:
    """Return whether a class matches newlines, either explicitly or like ``[\\s\\S]``."""
    if text.startswith("[^"):
        return False
    escapes = {match[0] for match in _ESCAPE.finditer(text)}
    if "\n" in text or escapes & {r"\n", r"\r\n"}:
        return True
    return any({rf"\{letter}", rf"\{letter.upper()}"} <= escapes for letter in "swd")
