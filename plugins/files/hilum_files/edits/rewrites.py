"""Other readings of what a model wrote: without line numbers, without one level of escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
    """Another reading of both texts.

    Attributes:
        kind: What the reading leaves out.
        old: The old text.
        new: The new text.
        doubt: Why the new text cannot be read so, if it cannot; a whole sentence.
        line: Number of the line, from 1, at which the old text must begin, or 0 where that is not
            known.
    """

    kind: str
    old: str
    new: str
    doubt: str = ""
    line: int = 0


def without_escapes(old: str, new: str) -> list[Reading]:
    """Return the readings of both texts with one level of escapes less."""
    if "\\" not in old:
        return []
    found = (_unescaped(old, new, known) for known in ("nt\"'\\", "nt\"'", "\"'", "\"'\\"))
    return list(dict.fromkeys(reading for reading in found if reading))


def without_numbers(old: str, new: str) -> Iterator[Reading]:
    """Yield the readings of both texts without line numbers.

    Where a space behind each number may belong to it or not, both readings are given. Numbers on
    some lines only count in the old text where they are those of the file (``Reading.line``), and
    in the new one where the numbered lines stand in the old.
    """
    ours = _numbered_lines(old)
    theirs = _numbered_lines(new)
    found = {index: match for index, match in ours.items() if match}
    if not _are_in_order(found):
        return
    mark = next(match[2] for match in found.values() if match[2])
    numbered = {index: match for index, match in theirs.items() if match and match[2] == mark}
    if any(not match[2] for match in found.values()):  # blank lines lost their mark in the old text
        following = {int(match[1]) + 1 for match in theirs.values() if match}
        lone = {i: m for i, m in theirs.items() if m and not m[2] and int(m[1]) in following}
        numbered.update(lone if numbered else {})
    numbers = {int(match[1]) for match in found.values()}
    bare = {i for i, m in theirs.items() if m and not m[2] and int(m[1]) in numbers}
    doubtful = numbered.keys() | bare
    doubt = ""
    if doubtful and len(numbered) < len(theirs):
        known = {match[0].rstrip() for match in found.values()}
        new_lines = new.split("\n")
        if not all(new_lines[index].rstrip() in known for index in doubtful):
            doubt = (
                "Some lines of new_string begin with a number as those of old_string do, and some"
                " do not."
            )
        numbered = {index: match for index, match in theirs.items() if match and index in doubtful}
    first_index, first_match = next(iter(found.items()))
    first = int(first_match[1]) - first_index
    most = len(ours) + len(theirs)
    if any(not first <= int(match[1]) <= first + most for match in numbered.values()):
        doubt = "The lines of new_string begin with numbers, but not with those of old_string."
    certain = len(found) == len(ours) and (len(found) > 1 or mark != ":")
    line = 0 if certain else first
    spaced = all(match[3] or not match[4] for match in (*found.values(), *numbered.values()))
    for space in (True, False) if spaced else (False,):
        yield Reading(
            "line numbers", _bare(old, found, space), _bare(new, numbered, space), doubt, line
        )


def _numbered_lines(text: str) -> dict[int, re.Match[str] | None]:
    """Return for each line that is not blank, by its index, how it begins with a number, if it
    does.
    """
    lines = enumerate(text.split("\n"))
    return {index: _NUMBERED.match(line) for index, line in lines if not is_blank(line)}


def _are_in_order(found: dict[int, re.Match[str]]) -> bool:
    """Return whether the numbers go up by one from line to line, and have one kind of mark behind
    them.
    """
    marks = {
        match[2] for match in found.values() if match[2]
    }  # a blank line may have lost its mark
    return len(marks) == 1 and len({int(match[1]) - index for index, match in found.items()}) == 1


def _bare(text: str, numbered: Mapping[int, re.Match[str]], space: bool) -> str:
    """Return a text without the numbers of these lines, and with ``space`` without the space behind
    each.
    """
    lines = text.split("\n")
    for index, match in numbered.items():
        lines[index] = match[4] if space or not match[4] else match[3] + match[4]
    return "\n".join(lines)


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
            "escapes",
            text,
            new,
            "old_string has too many escapes; which of new_string's are meant is not sure.",
        )
    doubt = ""
    if "n" in known and ("\n" in new.strip("\n")) != ("\n" in old.strip("\n")):
        doubt = "new_string has both line ends and escaped ones."
    if not ("\\" in known and (_has(old, '"') or _has(old, "\\"))) and _breaks_quotes(
        new, old, known
    ):
        doubt = "An escaped line end in new_string may belong to a string."
    for quote in "\"'":
        if _has(new, quote) and (
            _plainly(new, quote) or (_plainly(old, quote) and not _has(old, quote))
        ):
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
    """Return whether in a line that is not in ``old`` an escaped line end stands where quotes are
    open.

    Then it may be one that is meant as it stands.
    """
    if "n" not in known:
        return False
    pieces = _TRIPLE.sub("", text).split("\\n")
    ours = set(_TRIPLE.sub("", old).split("\\n"))
    lines = [
        piece.rpartition("\n")[2].replace('\\"', '"').replace("\\'", "'") for piece in pieces[:-1]
    ]
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
