"""Match the options in a command pattern in any order and spelling.

A rule that denies `rm -rf *` also means `rm -fr x`, `rm -r --force x` and `rm x -rf`. This works for
programs whose options are all known (see ``programs.options``), and for the sub-commands of Git that
change something (see ``programs/git_spellings.ini``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from hilum_guard.effects.git_effects import git_words
from hilum_guard.file_names import folded
from hilum_guard.programs.options import SYNTAX, Syntax, make_syntax, parse
from hilum_guard.programs.tables import read_table
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


# The sub-commands of Docker and Podman that delete something.
_DOCKER_SYNTAX = {
    "docker rm": make_syntax(flags="flv", long_options="force link volumes"),
    "docker rmi": make_syntax(flags="f", long_options="force no-prune platform="),
}
_DOCKER_NAMES = {
    "docker rm": {"--force": ("-f",), "--link": ("-l",), "--volumes": ("-v",)},
    "docker rmi": {"--force": ("-f",)},
}
# The options of Yarn whose value may follow as a word: without an operand, Yarn installs.
_YARN = make_syntax(
    long_options=(
        "cwd= modules-folder= cache-folder= registry= network-timeout= network-concurrency= mutex="
        " preferred-cache-folder= global-folder= mode="
    ),
)
_YARN_SHOWS = frozenset(("-v", "--version", "-h", "--help"))
# Zeros before the digits of a mode that sets no special bits.
_LEADING_ZEROS = re.compile(r"^0+(?=[0-7]{3}$)")


def _read_same(text: str) -> dict[str, tuple[str, ...]]:
    """Return the options that each option stands for, from a column such as ``-D=-d,--force``."""
    pairs = [word.partition("=") for word in text.split()]
    return {name: tuple(options.split(",")) for name, _, options in pairs}


# In these programs, `-r` reverses an order, and only `-R` means `--recursive`.
_REVERSING = frozenset(("ls", "sort"))
_GIT_TABLE = read_table("git_spellings")
_GIT_SYNTAX = {
    f"git {verb}": make_syntax(
        flags=columns.get("flags", ""),
        valued=columns.get("valued", ""),
        long_options=columns.get("long_options", ""),
    )
    for verb, columns in _GIT_TABLE.items()
}
# The options that mean the same as others: `-D` is `--delete --force`.
_GIT_NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    f"git {verb}": _read_same(columns.get("same", "")) for verb, columns in _GIT_TABLE.items()
}


def spell_arguments(words: Sequence[str]) -> Sequence[str]:
    """Return `chmod 0777` as `chmod 777`, bare `yarn` as `yarn install`, `docker image rm` as `rmi`.

    Args:
        words: Program and arguments, or the words of a pattern.
    """
    program = folded(words[0]).replace("\\", "/").rpartition("/")[2] if words else ""
    if program == "chmod":
        return [_LEADING_ZEROS.sub("", word) for word in words]
    if program in ("docker", "podman"):
        if tuple(words[1:3]) == ("image", "rm"):
            return [words[0], "rmi", *words[3:]]
        return [words[0], *words[2:]] if tuple(words[1:2]) == ("container",) else words
    # A pattern with just the name of the program is about all that it does.
    if program in ("yarn", "yarnpkg") and not words[-1].endswith("*"):
        parsed = parse(words[1:], _YARN)
        shows = {name for name, _ in parsed.options} & _YARN_SHOWS
        if not parsed.operands and not shows and not any(UNKNOWN in word for word in words):
            return [words[0], "install", *words[1:]]
    return words


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
    if not fits_word(pattern[0], words[0], strict=False, is_program=True):
        return ""
    size = 1
    if program == "git":
        words = git_words(tuple(words))
        program = " ".join(words[:2])
        size = 2
    elif program in ("docker", "podman") and len(words) > 1:
        program = f"docker {words[1]}"
        size = 2
    syntax = _GIT_SYNTAX.get(program) or _DOCKER_SYNTAX.get(program) or SYNTAX.get(program)
    if syntax is None:
        return ""
    parsed = parse(words[size:], syntax)
    plain = [word for word in pattern if not _is_option(word)]
    if "--" in plain:
        plain.remove("--")
    fit = fit_words(plain, [*words[:size], *parsed.operands], strict=False)
    given = _name_options(words[size:], syntax, program)
    if program == "git push":
        given |= _name_refs(parsed.operands)
    missing = _name_options(wanted, syntax, program) - given
    if not missing:
        return fit
    is_unknown = any(UNKNOWN in word for word in words)
    return "maybe" if fit and is_unknown else ""


def _name_refs(operands: Sequence[str]) -> set[tuple[str, str]]:
    """Return the options of `git push` that its operands stand for: `+main` forces, `:x` deletes."""
    found = {("-f", "") for word in operands if word.startswith("+")}
    return found | {("-d", "") for word in operands if word.startswith(":") and len(word) > 1}


def _is_option(word: str) -> bool:
    return word.startswith("-") and word.rstrip("*") not in ("-", "--", "")


def _name_options(words: Sequence[str], syntax: Syntax, program: str) -> set[tuple[str, str]]:
    """Return the options in words, each with its value, under one name for each option."""
    found = set()
    git_names = _GIT_NAMES.get(program) or _DOCKER_NAMES.get(program)
    for name, value in parse(words, syntax).options:
        if git_names is not None:
            found |= {(each, value) for each in git_names.get(name, (name,))}
            continue
        same = _SHORT_NAMES.get(name, name)
        if program in _REVERSING:
            same = "-R" if name == "--recursive" else same
        elif name == "-R" and "--recursive" in syntax.longs:
            same = "-r"
        found.add((same, value))
    return found
