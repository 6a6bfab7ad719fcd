"""Typographic characters that a model wrote for plain ones, and what the new text must have instead."""

from __future__ import annotations

from collections.abc import Iterable

from hilum_files.edits.characters import PLAIN, is_blank, plain, tokens_of

_TYPOGRAPHIC = {chr(code): to for code, to in PLAIN.items()}


class Unsafe(Exception):
    """What is meant is not sure; the message is a whole sentence."""


class Typography:
    """What is known from the lines that were matched.

    Args:
        pairs: The text of each line as the model wrote it, and as it is in the file.
        indents: Likewise the indentation of each.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], indents: Iterable[tuple[str, str]]) -> None:
        self._slips: dict[str, str] = {}  # character, or run of spaces, of the model → what the file has there
        self._right: set[str] = set()  # characters that the model wrote as they are
        for old, file in indents:
            self._slips.update((char, " ") for char in old if char in _TYPOGRAPHIC and char not in file)
        for old, file in pairs:
            if old == file:
                self._right.update(old)
                continue
            for o, f in zip(tokens_of(old), tokens_of(file), strict=True):
                if o == f:
                    self._right.update(o, (o,))
                elif is_blank(o) and plain(o) != plain(f):
                    self._slips[o] = f
                else:
                    self._slips.update((a, b) for a, b in zip(o, f, strict=True) if a != b)
        self._plain = {to for char, to in self._slips.items() if char in _TYPOGRAPHIC and to == _TYPOGRAPHIC[char]}

    def mended(self, text: str) -> str:
        """Give text that is new in the file with the characters that are meant.

        Raises:
            Unsafe: It has a character that stood for another one in the lines that were matched, but not always.
        """
        if not self._slips:
            return text
        tokens = tokens_of(text)
        return "".join(self._run(t) if is_blank(t) else "".join(map(self._meant, t)) for t in tokens)

    def check(self, line: str) -> None:
        """Look at a whole line of the new text.

        Raises:
            Unsafe: It has both plain quotes and typographic ones, where the model wrote the latter for the former.
        """
        for plain_quote in self._plain & {'"', "'"}:
            if plain_quote in line and any(_TYPOGRAPHIC.get(char) == plain_quote for char in line):
                raise Unsafe(f"It is not sure which quotes in new_string stand for {plain_quote!r}.")

    def _run(self, run: str) -> str:
        if run not in self._slips or run == " " or (len(run) == 1 and run in _TYPOGRAPHIC):
            return "".join(map(self._meant, run))
        if run in self._right:
            raise Unsafe("Runs of spaces in old_string differ from the file; which new ones are meant is not sure.")
        return self._slips[run]

    def _meant(self, char: str) -> str:
        meant = _TYPOGRAPHIC.get(char)
        if meant is None:
            if char in self._slips and char not in " \t" and char not in self._right:
                raise Unsafe(
                    f"The file has {self._slips[char]!r} where old_string has {char!r}, and new_string adds one."
                )
            return char
        quotes = self._plain & {'"', "'"} if meant in "\"'" else set()
        if char not in self._slips and meant not in self._plain and (not quotes or meant in self._right):
            return char
        if char in self._right:
            raise Unsafe(f"It is not sure where {char!r} in new_string stands for {meant!r}.")
        return meant


def merged(old: str, file: str, new: str, typography: Typography) -> str:
    """Give the text of a line in which only that is changed which differs between ``old`` and ``new``.

    Args:
        old: The line as the model wrote it, without white space at its ends.
        file: The line as it is in the file; the words are the same.
        new: The line as it is to be.
        typography: What the matched lines tell of characters.

    Raises:
        Unsafe: The white space at one place is a third one in ``new``.
    """
    if old == new:
        return file
    typography.check(new)
    if old == file:
        return typography.mended(new)
    from difflib import SequenceMatcher  # 2 ms, only where a changed line was not copied exactly

    ours, theirs, wanted = tokens_of(old), tokens_of(file), tokens_of(new)
    said = [[" " if is_blank(token) else plain(token) for token in tokens] for tokens in (ours, wanted)]
    out: list[str] = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, said[0], said[1], autojunk=False).get_opcodes():
        if kind != "equal":
            out += map(typography.mended, wanted[j1:j2])
            continue
        for o, f, n in zip(ours[i1:i2], theirs[i1:i2], wanted[j1:j2], strict=True):
            if n not in (o, f) and o != f:
                raise Unsafe("Spaces in a changed line differ from the file in old_string, and again in new_string.")
            out.append(f if o == n else typography.mended(n))
    return "".join(out)
