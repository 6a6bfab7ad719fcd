"""Check whether a program is harmless with its arguments.

A program is harmless only if its options are listed and its operands are files that may be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from hilum_guard.commands.harmless_values import CHECKS
from hilum_guard.commands.shell_words import Word
from hilum_guard.programs.options import Parsed, Syntax, make_syntax, parse
from hilum_guard.programs.tables import parse_switch, read_table

if TYPE_CHECKING:
    from hilum_guard.commands.shell_commands import ParsedCommand


GLOB_AS_TEXT = "A glob pattern is used where a text is expected."


@attrs.frozen(slots=False)
class Program:
    """The arguments that keep a program harmless.

    Attributes:
        flags: Short options without a value.
        valued: Short options whose value is not a file.
        long_options: Long options without their dashes. A `=` marks options that take the next word
            as their value, which is not a file.
        numbers: Whether a number may be an option (`head -20`).
        operands: `paths`, `text` (never opened), `first` (the first is text, the others are paths)
            or `none`.
        instead: Options whose value replaces the first operand as the text, so that all operands
            are paths.
        most: The maximum number of operands.
        least: The minimum number of operands.
        deep: Options with which the program reads everything below its paths; `*` if it always
            does.
        check: The name of an additional check in `harmless_values.CHECKS`.
    """

    flags: str = ""
    valued: str = ""
    long_options: str = ""
    numbers: bool = attrs.field(default=False, converter=parse_switch)
    operands: str = "paths"
    instead: str = ""
    most: int = attrs.field(default=1000, converter=int)
    least: int = attrs.field(default=0, converter=int)
    deep: str = ""
    check: str = ""

    @cached_property
    def syntax(self) -> Syntax:
        """The program's options, in the form that the option parser needs."""
        complete = make_syntax(
            flags=self.flags,
            valued=self.valued,
            long_options=self.long_options,
            numbers=self.numbers,
        )
        return attrs.evolve(complete, exact=True)


def read_programs(table: str) -> dict[str, Program]:
    """Return the rows of the table of harmless programs."""
    return {name: Program(**columns) for name, columns in read_table(table).items()}


def find_argument_doubt(known: Program, command: ParsedCommand, words: Sequence[Word]) -> str:
    """Return why a program's arguments are not harmless; empty if they are."""
    name = command.words[0].value
    parsed = parse([word.value for word in words], known.syntax)
    odd = _find_odd_option(words, parsed)
    if odd:
        return f"`{name}` with {odd} is not on the list of harmless commands."
    operands = [words[position] for position in parsed.positions]
    if known.check:
        why = CHECKS[known.check](parsed.options, operands)
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
        # A file may be named like a dangerous option, and a glob pattern would then insert that
        # option.
        if word.glob and word.value.startswith("-") and position not in parsed.positions:
            return "a pattern as an option"
    for number in parsed.values("-#"):
        if not number.isdecimal():
            return f"-{number}"
    return parsed.unknown[0] if parsed.unknown else ""


def _count_texts(known: Program, operands: Sequence[Word], parsed: Parsed) -> int:
    """Return how many of the operands are text rather than files."""
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
