"""Other readings of what a model wrote: without line numbers, without one level of escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from hilum_files.edits.characters import inside_quotes, is_blank

# `12 | text` as read_file shows it, `12→text`, `12: text`, and a tab as of cat -n.
_NUMBERED = re.compile(r"[ \t]*(\d+)( ?\||→|:|\t|$)( ?)(.*)", re.DOTALL)
_ESCAPE = re.compile(r"""\\(.)""", re.DOTALL)
_TRIPLE = re.compile(r"""(?:\\?["']){3}""")
_TAB = re.compile(r"\\t")
# Commands of TeX and folders of Windows that begin like an escape.
_NO_ESCAPE = re.compile(
    r"\\(?:n(?:u|e|eq|abla|ot|ewline|ewcommand|oindent)|t(?:o|au|heta|imes|ext\w*|ilde|op|able))\b|\b[A-Za-z]:\\[nt]"
)
# What stands around an escaped line end that is a character of its own: of a pattern, of a format.
_LITERAL = re.compile(r"(?:[?^|%$]|(?<!\*)/)\n|\[\n\]|`\n`|\(\n\)|\n(?:\+|/[^/*])")
_PLAIN = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}


class Reading(NamedTuple):
    """Another reading of both texts; ``doubt`` says why the new one cannot be read so, if it cannot."""

    kind: str
    old: str
    new: str
    doubt: str = ""
    number: int = 0


def without_escapes(old: str, new: str) -> list[Reading]:
    """Give the readings of both texts with one level of escapes less."""
    if "\\" not in old:
        return []
    found = (_unescaped(old, new, known) for known in ("nt\"'\\", "nt\"'", "\"'", "\"'\\"))
    return list(dict.fromkeys(reading for reading in found if reading))


def without_numbers(old: str, new: str) -> Iterator[Reading]:
    """Read both texts without line numbers; where a space behind each may belong to it or not, give both readings."""
    ours, theirs = ([_NUMBERED.match(line) for line in text.split("\n") if not is_blank(line)] for text in (old, new))
    found = [match for match in ours if match]
    if not found or len(found) < len(ours):
        return
    numbers = [int(match[1]) for match in found]
    every = [index for index, line in enumerate(old.strip("\n").split("\n")) if not is_blank(line)]
    marks = {match[2] for match in found if match[2]}  # a blank line may have lost its mark
    if [n - numbers[0] for n in numbers] != [i - every[0] for i in every] or len(marks) != 1:
        return
    numbered = [match for match in theirs if match and match[2] in marks]
    if numbered and any(not match[2] for match in found):  # blank lines lost their mark in the old text
        next_ones = {int(match[1]) + 1 for match in theirs if match}
        numbered += [match for match in theirs if match and not match[2] and int(match[1]) in next_ones]
    doubt = ""
    lone = any(match and not match[2] and int(match[1]) in numbers for match in theirs)
    if (numbered or lone) and len(numbered) < len(theirs):
        doubt = "Some lines of new_string begin with a number as those of old_string do, and some do not."
    spaced = all(match[3] or not match[4] for match in (*found, *numbered))
    for space in (True, False) if spaced else (False,):
        texts = (_bare(old, space), _bare(new, space) if numbered else new)
        yield Reading("line numbers", *texts, doubt, numbers[0] if len(found) == 1 and marks == {":"} else 0)


def _bare(text: str, space: bool) -> str:
    """Take the line numbers away, and with ``space`` the space behind them."""
    matches = [(line, _NUMBERED.match(line)) for line in text.split("\n")]
    return "\n".join(line if m is None else m[4] if space or not m[4] else m[3] + m[4] for line, m in matches)


def _unescaped(old: str, new: str, known: str) -> Reading | None:
    """Read both texts with one level of escapes less; ``known`` are the escapes."""
    text = _read(old, known)
    if text is None or text == old:
        return None
    if not any(match[1] in known for match in _ESCAPE.finditer(new)):
        return Reading("escapes", text, new)
    wanted = _read(new, known)
    if wanted is None:
        return Reading(
            "escapes", text, new, "old_string has too many escapes; which of new_string's are meant is not sure."
        )
    doubt = ""
    if "n" in known and ("\n" in new.strip("\n")) != ("\n" in old.strip("\n")):
        doubt = "new_string has both line ends and escaped ones."
    if not ("\\" in known and (_has(old, '"') or _has(old, "\\"))) and _breaks_quotes(new, old, known):
        doubt = "An escaped line end in new_string may belong to a string."
    for quote in "\"'":
        if _has(new, quote) and (_plainly(new, quote) or (_plainly(old, quote) and not _has(old, quote))):
            doubt = "new_string has both quotes and escaped ones."
    return Reading("escapes", text, wanted, doubt)


def _read(text: str, known: str) -> str | None:
    """Take one level of escapes away, or give ``None`` where it cannot have been put on."""
    if "\\" in known and any(match[1] not in known for match in _ESCAPE.finditer(text)):
        return None
    return _ESCAPE.sub(lambda match: _PLAIN[match[1]] if match[1] in known else match[0], text)


def _has(text: str, char: str) -> bool:
    return any(match[1] == char for match in _ESCAPE.finditer(text))


def _plainly(text: str, char: str) -> bool:
    return char in _ESCAPE.sub("", text)


def _breaks_quotes(text: str, old: str, known: str) -> bool:
    """Say whether in a line that is not in ``old`` an escaped line end stands where quotes are open.

    Then it may be one that is meant as it stands.
    """
    if "n" not in known:
        return False
    pieces, ours = _TRIPLE.sub("", text).split("\\n"), set(_TRIPLE.sub("", old).split("\\n"))
    lines = [piece.rpartition("\n")[2].replace('\\"', '"').replace("\\'", "'") for piece in pieces[:-1]]
    fresh = [line for whole in text.split("\n") for line in whole.split("\\n") if line not in old]
    if any(inside_quotes(line, match.start()) for line in fresh for match in _TAB.finditer(line)):
        return True
    if any(_NO_ESCAPE.search(line) for line in text.split("\n") if line not in old):
        return True
    return any(
        inside_quotes(line, len(line)) or _LITERAL.search(f"{line}\n{after}")
        for piece, line, after in zip(pieces, lines, pieces[1:], strict=False)
        if (piece not in ours or after not in ours) and line and after
    )
