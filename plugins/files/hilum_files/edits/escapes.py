"""Removes a superfluous level of escaping that a model added to the text."""

from __future__ import annotations

import re
from itertools import pairwise

from hilum_files.edits.characters import is_inside_quotes
from hilum_files.edits.readings import Reading

_ESCAPE = re.compile(r"""\\(.)""", re.DOTALL)
_TRIPLE_QUOTES = re.compile(r"""(?:\\?["']){3}""")
_TAB = re.compile(r"\\t")
# TeX commands and Windows folder names that begin like an escape.
_NO_ESCAPE = re.compile(
    r"\\(?:n(?:u|e|eq|abla|ot|ewline|ewcommand|oindent)|t(?:o|au|heta|imes|ext\w*|ilde|op|able))\b"
    r"|\b[A-Za-z]:\\[nt]"
)
# An escaped newline that is probably intentional, as in a regular expression, a format string or a
# list.
_LITERAL = re.compile(r"(?:[?^|%$]|(?<!\*)/)\n|\[\n\]|`\n`|\(\n\)|\n(?:\+|/[^/*])")
_PLAIN = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
_KNOWN = ("nt\"'\\", "nt\"'", "\"'", "\"'\\")
"""The sets of escapes that models add, in the order in which they are tried."""


def without_escapes(old: str, new: str) -> list[Reading]:
    """Return the interpretations of both texts with one level of escapes removed."""
    if "\\" not in old:
        return []
    # A dict preserves the order and drops equal interpretations.
    readings: dict[Reading, None] = {}
    for known in _KNOWN:
        reading = _read_both(old, new, known)
        if reading:
            readings[reading] = None
    return list(readings)


def _read_both(old: str, new: str, known: str) -> Reading | None:
    """Interpret both texts with one level of escapes removed.

    Args:
        old: The old text.
        new: The new text.
        known: The characters that are escaped.
    """
    plain_old = _unescape(old, known)
    if plain_old is None or plain_old == old:
        return None
    if not any(match[1] in known for match in _ESCAPE.finditer(new)):
        return Reading("escapes", plain_old, new)
    plain_new = _unescape(new, known)
    if plain_new is None:
        doubt = (
            "old_string has too many escapes; it is unclear which of those in new_string are"
            " intended."
        )
        return Reading("escapes", plain_old, new, doubt)
    return Reading("escapes", plain_old, plain_new, _find_doubt(old, new, known))


def _find_doubt(old: str, new: str, known: str) -> str:
    """Return why the new text's escapes may be intentional, or an empty string if they are not."""
    for quote in "\"'":
        old_has_plain = _has_plain(old, quote) and not _has_escaped(old, quote)
        if _has_escaped(new, quote) and (_has_plain(new, quote) or old_has_plain):
            return "new_string has both quotes and escaped quotes."
    # If quotes or backslashes are escaped as well, the whole old text was escaped.
    is_escaped = "\\" in known and (_has_escaped(old, '"') or _has_escaped(old, "\\"))
    if not is_escaped and "n" in known and _has_literal_escape(new, old):
        return "An escaped newline in new_string may belong to a string literal."
    if "n" in known and ("\n" in new.strip("\n")) != ("\n" in old.strip("\n")):
        return "new_string has both newlines and escaped newlines."
    return ""


def _unescape(text: str, known: str) -> str | None:
    """Remove one level of escapes; return ``None`` if the model cannot have added it."""
    # Text that was escaped as a whole has no lone backslash.
    if "\\" in known and any(match[1] not in known for match in _ESCAPE.finditer(text)):
        return None
    return _ESCAPE.sub(lambda match: _PLAIN[match[1]] if match[1] in known else match[0], text)


def _has_escaped(text: str, char: str) -> bool:
    return any(match[1] == char for match in _ESCAPE.finditer(text))


def _has_plain(text: str, char: str) -> bool:
    return char in _ESCAPE.sub("", text)


def _has_literal_escape(text: str, old: str) -> bool:
    """Return whether a new line that ``old`` lacks contains an escape that may be intended."""
    added = [line for line in text.split("\n") if line not in old]
    if any(_NO_ESCAPE.search(line) for line in added):
        return True
    for whole in text.split("\n"):
        for line in whole.split("\\n"):
            if line not in old and _has_quoted_tab(line):
                return True
    return _has_quoted_line_end(text, old)


def _has_quoted_tab(line: str) -> bool:
    return any(is_inside_quotes(line, match.start()) for match in _TAB.finditer(line))


def _has_quoted_line_end(text: str, old: str) -> bool:
    """Return whether an escaped newline is inside quotes or looks like part of a pattern."""
    # Triple-quoted strings may span lines, so a single line does not show whether they are open.
    pieces = _TRIPLE_QUOTES.sub("", text).split("\\n")
    old_pieces = set(_TRIPLE_QUOTES.sub("", old).split("\\n"))
    for piece, after in pairwise(pieces):
        line = piece.rpartition("\n")[2].replace('\\"', '"').replace("\\'", "'")
        if not line or (piece in old_pieces and after in old_pieces):
            continue
        # Two escaped newlines in a row may be in a string literal, too.
        if is_inside_quotes(line, len(line)):
            return True
        if after and _LITERAL.search(f"{line}\n{after}"):
            return True
    return False
