"""Parse program options: clusters, attached values, `--name=value`, abbreviations and `--`.

All command readers use this parser. For a program whose options are all listed, the parser reports
every other option. An unlisted option may take the next word as its value, so hilum cannot
determine which words are files, and deny rules treat the command as unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import attrs

from hilum_guard.programs.tables import parse_switch, read_table


@attrs.frozen
class Syntax:
    """The options of a program.

    Attributes:
        flags: Short options without a value, or whose value can only be attached.
        valued: Short options whose value is the rest of the word, or the next word if the rest is
            empty.
        attached: The short options in ``flags`` whose value may be attached: the value is the rest
            of the cluster.
        longs: Long options without a value, or whose value can only follow `=`.
        long_valued: Long options that take the next word as their value unless the value follows
            `=`.
        reads: Options whose value is a file that is read.
        numbers: Whether a number may be an option (`head -20`).
        whole: Whether an option is the whole word after a single dash (`-out FILE`).
        stops: Whether options end with the first operand.
        complete: Whether options that are not listed are reported.
        exact: Whether long options must be written in full: an abbreviation counts as unlisted.
    """

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    attached: frozenset[str] = frozenset()
    longs: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    numbers: bool = False
    whole: bool = False
    stops: bool = False
    complete: bool = False
    exact: bool = False


@attrs.frozen
class Parsed:
    """A command's parsed words.

    Attributes:
        options: Options with their values, in order; abbreviated names are expanded.
        operands: The words that are neither options nor their values.
        unknown: Options that are not listed, if the syntax lists all of the program's options.
        positions: The position of each operand in the words.
    """

    options: tuple[tuple[str, str], ...] = ()
    operands: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()

    def values(self, *names: str) -> list[str]:
        """Return the values of the given options, in order."""
        return [value for name, value in self.options if name in names]

    def has(self, *names: str) -> bool:
        """Return whether any of the given options is present."""
        return any(name in names for name, _ in self.options)


def parse(words: Sequence[str], syntax: Syntax) -> Parsed:
    """Split a command's arguments into options and operands.

    Args:
        words: The words after the program.
        syntax: The options of the program.
    """
    options: list[tuple[str, str]] = []
    unknown: list[str] = []
    positions: list[int] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            positions += range(at + 1, len(words))
            break
        if not word.startswith("-") or word == "-":
            if syntax.stops:
                positions += range(at, len(words))
                break
            positions.append(at)
            at += 1
            continue
        following = words[at + 1] if at + 1 < len(words) else ""
        at += 1 + _option(word, following, syntax, options, unknown)
    return Parsed(
        options=tuple(options),
        operands=tuple(words[number] for number in positions),
        unknown=tuple(unknown) if syntax.complete else (),
        positions=tuple(positions),
    )


def _option(
    word: str, following: str, syntax: Syntax, options: list[tuple[str, str]], unknown: list[str]
) -> int:
    """Add the options in one word; return how many of the following words are their values."""
    if syntax.numbers and re.fullmatch(r"-\d+[A-Za-z]*", word):
        options.append(("-#", word[1:]))
        return 0
    if not word.startswith("--") and not syntax.whole:
        return _cluster(word, following, syntax, options, unknown)
    name, equals, value = word.partition("=")
    full = _complete_name(name, syntax)
    if full not in syntax.longs and full not in syntax.long_valued:
        unknown.append(name)
    takes_next = not equals and full in syntax.long_valued
    options.append((full, following if takes_next else value))
    return 1 if takes_next else 0


def _cluster(
    word: str, following: str, syntax: Syntax, options: list[tuple[str, str]], unknown: list[str]
) -> int:
    """Add the options in a cluster (`-xvfFILE`); return how many following words are values."""
    for number, letter in enumerate(word[1:], 1):
        name = f"-{letter}"
        rest = word[number + 1 :]
        if letter in syntax.valued:
            options.append((name, rest or following))
            return 0 if rest else 1
        if letter in syntax.attached:
            options.append((name, rest))
            return 0
        options.append((name, ""))
        if letter not in syntax.flags:
            unknown.append(name)
    return 0


# Flags whose names are prefixes of other option names. A syntax that lists only options with values
# does not contain these flags, so they would be mistaken for abbreviations.
_FLAGS_THAT_BEGIN_OTHERS = frozenset(
    "--list --partial --backup --netrc --head --temp --save-headers --verify".split()
)


def _complete_name(name: str, syntax: Syntax) -> str:
    """Return the long option that a name abbreviates, or the name itself if it is ambiguous."""
    known = syntax.longs | syntax.long_valued
    is_complete = name in known or name in _FLAGS_THAT_BEGIN_OTHERS
    if is_complete or syntax.whole or syntax.exact or len(name) < 4:
        return name
    found = [each for each in known if each.startswith(name)]
    return found[0] if len(found) == 1 else name


@cache
def valued_only(valued: frozenset[str], *, whole: bool = False, stops: bool = False) -> Syntax:
    """Return the syntax for a program of which only the options with values are known.

    Args:
        valued: The options with their dashes: `-o`, `--output`.
        whole: As in `Syntax`.
        stops: As in `Syntax`.
    """
    if whole:
        return Syntax(long_valued=valued, whole=True, stops=stops)
    shorts = frozenset(name[1] for name in valued if len(name) == 2)
    longs = frozenset(name for name in valued if name.startswith("--"))
    return Syntax(valued=shorts, long_valued=longs, stops=stops)


def operands(words: Sequence[str], valued: str = "") -> list[str]:
    """Return the words that are neither options nor their values.

    Args:
        words: The words after the program.
        valued: The letters of the short options that take a value.
    """
    return list(parse(words, valued_only(frozenset(f"-{letter}" for letter in valued))).operands)


def make_syntax(
    *,
    flags: str = "",
    valued: str = "",
    long_options: str = "",
    attached: str = "",
    numbers: str | bool = False,
    reads: str = "",
) -> Syntax:
    """Return the syntax for a program whose options are all known.

    Args:
        flags: As in `Syntax`.
        valued: As in `Syntax`.
        long_options: Long options without their dashes. A `=` marks options that take the next word
            as their value.
        attached: Additional flags whose values may be attached.
        numbers: `yes` if a number may be an option.
        reads: As in `Syntax`.
    """
    names = [f"--{name}" for name in long_options.split()]
    return Syntax(
        flags=frozenset(flags + attached),
        valued=frozenset(valued),
        attached=frozenset(attached),
        longs=frozenset(name for name in names if not name.endswith("=")),
        long_valued=frozenset(name[:-1] for name in names if name.endswith("=")),
        reads=frozenset(reads.split()),
        numbers=parse_switch(numbers),
        complete=True,
    )


def _read_syntaxes() -> dict[str, Syntax]:
    rows = read_table("options")
    for columns in rows.values():
        columns["long_options"] = columns.get("long_options", "") + " help version"
    return {name: make_syntax(**columns) for name, columns in rows.items()}


SYNTAX = _read_syntaxes()
"""The syntax of each program whose options are all known, by program."""

LISTS = frozenset("--files0-from --files-from --restore".split())
"""Options whose value is a file that lists further file names."""
