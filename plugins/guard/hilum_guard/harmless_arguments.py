"""Check whether the arguments of a program keep it harmless.

The options must be listed, and the operands must be files that may be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from hilum_guard.options import Parsed, Syntax, parse
from hilum_guard.shell_words import Word

if TYPE_CHECKING:
    from hilum_guard.shell_commands import ParsedCommand


GLOB_AS_TEXT = "A glob pattern is used where a text is expected."


def _add_dashes(text: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in text.split())


@attrs.frozen(slots=False)
class Program:
    """The arguments with which a program is harmless.

    Attributes:
        flags: Short options without a value.
        valued: Short options whose value is not a file.
        longs: Long options without a value, or with an optional one after `=`.
        long_valued: Long options whose value is not a file.
        operands: `paths`, `text` (never opened), `first` (the first is text, the others are paths)
            or `none`.
        instead: Options that replace the first operand as the text, so that all operands are paths.
        numbers: Whether a number may be an option (`head -20`).
        most: The maximum number of operands.
        least: The minimum number of operands.
        deep: Options with which it reads everything below its paths; `*` if always.
        check: A further check of option values and operands, which returns why they are not
            harmless, or an empty text.
    """

    flags: str = ""
    valued: str = ""
    longs: frozenset[str] = attrs.field(default="", converter=_add_dashes)
    long_valued: frozenset[str] = attrs.field(default="", converter=_add_dashes)
    operands: str = "paths"
    instead: str = ""
    numbers: bool = False
    most: int = 1000
    least: int = 0
    deep: str = ""
    check: Callable[[list[tuple[str, str]], list[Word]], str] | None = None

    @cached_property
    def syntax(self) -> Syntax:
        """The options as the option parser needs them."""
        return Syntax(
            flags=frozenset(self.flags),
            valued=frozenset(self.valued),
            longs=self.longs,
            long_valued=self.long_valued,
            numbers=self.numbers,
            complete=True,
            exact=True,
        )


def find_argument_doubt(known: Program, command: ParsedCommand, words: Sequence[Word]) -> str:
    """Return why the arguments of a program are not harmless; empty if they are."""
    name = command.words[0].value
    parsed = parse([word.value for word in words], known.syntax)
    odd = _find_odd_option(words, parsed)
    if odd:
        return f"`{name}` with {odd} is not on the list of harmless commands."
    operands = [words[position] for position in parsed.positions]
    why = known.check(list(parsed.options), operands) if known.check else ""
    if why:
        return why
    most = 0 if known.operands == "none" else known.most
    if not known.least <= len(operands) <= most:
        return f"`{name}` with {len(operands)} arguments is not on the list of harmless commands."
    texts = _count_texts(known, operands, parsed)
    if any(word.glob for word in operands[:texts]):
        return GLOB_AS_TEXT
    deep = known.deep == "*" or parsed.has(*known.deep.split())
    paths = operands[texts:] or ([Word(".")] if deep else [])
    return _find_read_doubt(command, paths, deep)


def _find_odd_option(words: Sequence[Word], parsed: Parsed) -> str:
    """Return an option that is not listed; empty if there is none."""
    for position, word in enumerate(words):
        # A file may be named like a dangerous option, and the pattern would then insert that
        # option.
        if word.glob and word.value.startswith("-") and position not in parsed.positions:
            return "a pattern as an option"
    for number in parsed.values("-#"):
        if not number.isdecimal():
            return f"-{number}"
    return parsed.unknown[0] if parsed.unknown else ""


def _count_texts(known: Program, operands: Sequence[Word], parsed: Parsed) -> int:
    """Return how many of the operands are texts rather than files."""
    if known.operands == "text":
        return len(operands)
    if known.operands == "first" and not parsed.has(*known.instead.split()):
        return 1
    return 0


def _find_read_doubt(command: ParsedCommand, paths: Sequence[Word], deep: bool) -> str:
    for word in paths:
        if word.value != "-":
            why = command.checker.read_doubt(word, list(command.cwds), deep=deep)
            if why:
                return why
    return ""
