"""Match the options in a command pattern in any order and spelling.

A rule that denies `rm -rf *` also means `rm -fr x`, `rm -r --force x` and `rm x -rf`. This works for
programs whose options are all known (see ``programs.options``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hilum_guard.file_names import folded
from hilum_guard.programs.options import SYNTAX, Syntax, parse
from hilum_guard.rules.patterns import UNKNOWN, fit_words, fits_word

# Short names of common long options. Only the options that a program has are compared.
_SHORT_NAMES = {
    "--all": "-a",
    "--append": "-a",
    "--archive": "-a",
    "--dir": "-d",
    "--force": "-f",
    "--in-place": "-i",
    "--interactive": "-i",
    "--no-clobber": "-n",
    "--parents": "-p",
    "--quiet": "-q",
    "--recursive": "-r",
    "--remove": "-u",
    "--silent": "-q",
    "--update": "-u",
    "--verbose": "-v",
}
# In these programs, `-r` reverses an order, and only `-R` means `--recursive`.
_REVERSING = frozenset(("ls", "sort"))


def fit_options(pattern: Sequence[str], words: Sequence[str]) -> Literal["", "maybe", "yes"]:
    """Return whether a command has the options of a pattern, and its other words in order.

    Args:
        pattern: Words of the pattern.
        words: Program and arguments; words that are known only at run time contain ``…``.

    Returns:
        ``maybe`` if an unknown word may be a missing option; empty also for a pattern without
        options, and for a program whose options are not known.
    """
    wanted = [word.rstrip("*") for word in pattern[1:] if _is_option(word)]
    if not wanted or not words:
        return ""
    program = folded(words[0]).replace("\\", "/").rpartition("/")[2]
    syntax = SYNTAX.get(program)
    if syntax is None or not fits_word(pattern[0], words[0], strict=False, is_program=True):
        return ""
    parsed = parse(words[1:], syntax)
    plain = [word for word in pattern if not _is_option(word)]
    if "--" in plain:
        plain.remove("--")
    fit = fit_words(plain, [words[0], *parsed.operands], strict=False)
    missing = _name_options(wanted, syntax, program) - _name_options(words[1:], syntax, program)
    if not missing:
        return fit
    is_unknown = any(UNKNOWN in word for word in words)
    return "maybe" if fit and is_unknown else ""


def _is_option(word: str) -> bool:
    return word.startswith("-") and word.rstrip("*") not in ("-", "--", "")


def _name_options(words: Sequence[str], syntax: Syntax, program: str) -> set[tuple[str, str]]:
    """Return the options in words, each with its value, under one name for each option."""
    found = set()
    for name, value in parse(words, syntax).options:
        same = _SHORT_NAMES.get(name, name)
        if program in _REVERSING:
            same = "-R" if name == "--recursive" else same
        elif name == "-R" and "--recursive" in syntax.longs:
            same = "-r"
        found.add((same, value))
    return found
