"""Whether a simple command is one that a rule means: sub-commands in order, options in any order
and spelling.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from hilum_rules.checks import branches, code
from hilum_rules.checks.effects import git_words, name_of
from hilum_rules.checks.model import Commands
from hilum_rules.checks.touches import UNKNOWN, Fit

if TYPE_CHECKING:
    from hilum_guard import SimpleCommand

# What installs what the project names already, and nothing new.
_OWN = re.compile(
    r"-r|--requirements?(?:=.*)?|-e|--editable|\.|\.\[.*\]|-c|\./.*|--frozen-lockfile|--no-save|--locked|-g?"
)


def fit(ban: Commands, command: SimpleCommand, before: Sequence[SimpleCommand] = ()) -> Fit:
    """Return whether a ban means a simple command.

    Args:
        ban: The ban.
        command: The command.
        before: The commands that run before it in the same text.
    """
    words = command.words
    if not words:
        return ""
    if name_of(command) == "git":
        words = git_words(words)[0]
        words = _expanded(command, words)
        if words[-1] == "--help":
            return ""
    elif name_of(command).startswith("git-"):
        words = ("git", name_of(command)[4:], *words[1:])
    elif pip := re.fullmatch(r"(pip3?)[\d.]+", name_of(command)):
        words = (pip[1], *words[1:])
    best: Fit = ""
    for pattern, given in (
        (pattern, given) for given in (words, *_run(command, words)) for pattern in ban.patterns
    ):
        if given is not words and "/" in given[0] and "/" not in pattern[0]:
            continue
        pattern = (pattern[0].removeprefix("./"), *pattern[1:]) if "/" in pattern[0] else pattern
        found = _fit(pattern, given)
        if found and ban.branches:
            found = branches.fit(ban.branches, command, before)
        if found == "yes" and not (ban.new and _installs_own(pattern, given)):
            return "yes"
        best = best or ("maybe" if found == "maybe" else "")
    if not ban.branches and any(
        code.mention(pattern).search(text)
        for text in code.texts(command)
        for pattern in ban.patterns
        if len(pattern) > 1 or _rare(pattern[0])
    ):
        return "yes"
    return best


def _expanded(command: SimpleCommand, words: tuple[str, ...]) -> tuple[str, ...]:
    """Write out an alias that is made on the same line: `git -c alias.p=push p`."""
    for number, word in enumerate(command.words[:-1]):
        if word.startswith("alias.") and "config" in command.words[:number]:  # made now, run later
            return ("git", *command.words[number + 1].lstrip("!").removeprefix("git ").split())
        found = re.fullmatch(r"alias\.([\w-]+)=(.*)", command.words[number + 1], re.DOTALL)
        if word == "-c" and found and len(words) > 1 and words[1] == found[1]:
            return ("git", *found[2].split(), *words[2:])
    return words


def _run(command: SimpleCommand, words: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return what a command runs in its turn: `npx X`, `python -m X`, `bash X`."""
    name = name_of(command)
    found = []
    for number, word in enumerate(words[1:], 1):
        if word == "-m" and name.startswith(("python", "pypy")) and number + 1 < len(words):
            return [words[number + 1 :]]
    if name in _RUNNERS:
        rest = words[1:]
        while rest and (rest[0].startswith("-") or rest[0] in ("exec", "dlx", "x", "run", "tool")):
            rest = rest[1:]
        if rest and (name not in _WITH_VERB or words[1] in ("exec", "dlx", "x", "tool")):
            found = [rest]
        else:
            found = []
    elif (at := _script_at(command, words)) < len(words):
        found = [(os.path.basename(words[at]), *words[at + 1 :])]
    for each in [words, words[_script_at(command, words) :]]:
        if each and "/" in os.path.join(
            command.cwd or "", each[0]
        ):  # for a pattern that names a path
            path = os.path.normpath(os.path.join(command.cwd or "/", each[0])).split("/")
            found += [
                ("/".join(path[-parts:]), *each[1:]) for parts in (2, 3, 4) if len(path) > parts
            ]
    return found


_RUNNERS = frozenset("npx bunx pnpx uvx pnpm yarn npm pipx bun uv".split())
_WITH_VERB = frozenset("pnpm yarn npm bun uv pipx".split())


def _script_at(command: SimpleCommand, words: tuple[str, ...]) -> int:
    """Return where the script stands that an interpreter is given.

    Behind the last word if there is none.
    """
    name = name_of(command)
    if (
        name not in code.SHELLS
        and name not in ("source", ".")
        and not re.fullmatch(r"(?:python|pypy)[\d.]*|node|ruby|perl|php|deno|bun", name)
    ):
        return len(words)
    for number, word in enumerate(words[1:], 1):
        if re.fullmatch(r"-[a-zA-Z]*[cme]", word):
            return len(words)
        if not word.startswith("-"):
            return number
    return len(words)


def _fit(pattern: tuple[str, ...], words: tuple[str, ...]) -> Fit:
    from hilum_guard import fit_words

    options = [word for word in pattern if _is_option(word)]
    if options and pattern[0] == "*":
        if all(_has(option, words) for option in options):
            return "yes"
        return ""
    if not all(_has(option, words) for option in options):
        return ""
    return fit_words([word for word in pattern if not _is_option(word)], words, strict=False)


def _is_option(word: str) -> bool:
    return word in ("+*", ":*") or (word.startswith("-") and word not in ("-", "--", "-m", "-S"))


def _has(option: str, words: tuple[str, ...]) -> bool:
    """Return whether an option stands among words.

    Of short ones all letters, in one word or in several, or their long names.
    """
    if "--" in words:
        words = words[: words.index("--")]
    if option in ("+*", ":*"):  # a refspec stands anywhere
        return any(fnmatch.fnmatchcase(word, option) for word in words[1:])
    if option.startswith("--"):
        return any(
            word == option
            or word.startswith(option + "=")
            or fnmatch.fnmatchcase(word, option)
            or _cut(word, option)
            for word in words[1:]
        )
    have = {
        letter for word in words[1:] if re.fullmatch(r"-[A-Za-z]+", word) for letter in word[1:]
    }
    if words[0].rpartition("/")[2] in ("rm", "cp", "ls"):
        have |= {letter.lower() for letter in have if letter == "R"}
    long = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
    return all(letter in have or _LONG.get(letter, frozenset()) & long for letter in option[1:])


def _cut(word: str, option: str) -> bool:
    """Return whether a word is a long option cut short, as programs accept it."""
    return (
        word.startswith("--")
        and len(word) > 4
        and option.startswith(word)
        and len(option) - len(word) < len(option) // 2
    )


_LONG = {
    "r": frozenset({"--recursive"}),
    "R": frozenset({"--recursive"}),
    "f": frozenset({"--force"}),
    "D": frozenset({"--delete"}),
    "n": frozenset({"--no-verify"}),
    "d": frozenset({"--delete"}),
    "a": frozenset({"--all"}),
    "y": frozenset({"--yes"}),
    "g": frozenset({"--global"}),
    "S": frozenset({"--sync"}),
}


def _installs_own(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Return whether an installing command names nothing new: no word but its own, or files that
    the project has.
    """
    rest = [word for word in words[len(pattern) :] if word]
    named = []
    skip = False
    for word in rest:
        if skip or _OWN.fullmatch(word):
            skip = word in ("-r", "--requirement", "--requirements", "-c", "-e", "--editable")
            continue
        if not word.startswith("-"):
            named.append(word)
    return not named and not any(UNKNOWN in word for word in rest)


@cache
def _rare(word: str) -> bool:
    """Return whether a program's name is hardly a word of anything else, so that its mention in
    code means it.
    """
    return word in (
        "sudo",
        "doas",
        "npm",
        "pnpm",
        "npx",
        "pip",
        "pip3",
        "kubectl",
        "terraform",
        "scp",
        "rsync",
        "apt-get",
    )
