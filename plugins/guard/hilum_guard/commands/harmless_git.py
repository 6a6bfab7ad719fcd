"""Check whether Git commands only read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs

from hilum_guard.commands.harmless_arguments import Program, find_argument_doubt, read_programs
from hilum_guard.commands.path_checks import is_secret
from hilum_guard.commands.shell_words import Word
from hilum_guard.repositories.repository_settings import repository_doubt

if TYPE_CHECKING:
    from hilum_guard.commands.shell_commands import ParsedCommand

COMMANDS = read_programs("harmless_git")
PAIRS: dict[tuple[str, ...], Program] = {
    tuple(words.partition(" ")[::2]): known
    for words, known in read_programs("harmless_git_pairs").items()
}
"""Git commands that only read if this word follows; an empty word stands for no further word."""
# Git commands that never compare the working tree with the index, for which Git would enter nested
# repositories.
_HISTORY_ONLY = frozenset(
    "log show shortlog rev-list branch rev-parse ls-tree merge-base name-rev cat-file blame"
    " check-ignore count-objects version help reflog remote tag config notes".split()
)


def find_doubt(command: ParsedCommand) -> str:
    """Return why a Git command is not harmless; empty if it is."""
    words = command.words[1:]
    begin, cwds, why = _read_front_options(command)
    if why:
        return why
    words = words[begin:]
    if not words:
        return ""
    name = words[0].value
    second = words[1].value if len(words) > 1 else ""
    rest = words[1:]
    known = COMMANDS.get(name)
    if known is None:
        known = PAIRS.get((name, second))
        rest = words[2:]
    if known is None:
        shown = f"{name} {second}".rstrip()
        return f"`git {shown}` is not on the list of harmless commands."
    # Paths after `-C` are relative to the folder that it sets.
    git_words = (Word(f"git {name}"), *rest)
    moved = attrs.evolve(command, cwds=tuple(cwds), words=git_words)
    why = find_argument_doubt(known, moved, rest) or _find_operand_doubt(moved)
    if why:
        return why
    for cwd in cwds:
        enters_nested = name not in _HISTORY_ONLY
        why = _UNKNOWN_FOLDER
        if cwd is not None:
            why = repository_doubt(cwd, enters_nested=enters_nested)
        if why:
            return why
    return ""


def _read_front_options(command: ParsedCommand) -> tuple[int, list[str | None], str]:
    """Read the Git options before the sub-command.

    Returns:
        The position of the sub-command, the folders that Git runs in, and why the options are not
        harmless (empty if they are).
    """
    values = command.arguments
    cwds = list(command.cwds)
    at = 0
    while at < len(values) and values[at].startswith("-"):
        option = values[at]
        at += 1
        if option == "-C" and at < len(values):
            goal = command.words[at + 1]
            at += 1
            why = command.checker.read_doubt(goal, cwds)
            if why:
                return at, cwds, why
            cwds = [command.checker.absolute(goal.value, cwd) for cwd in cwds]
        elif option not in _HARMLESS_OPTIONS and values[at - 1 :] != ["--version"]:
            why = f"`git` with {option} is not on the list of harmless commands."
            return at, cwds, why
    return at, cwds, ""


# `-c`, `--git-dir` and `--exec-path` are deliberately not listed: they change the settings or the
# programs that Git uses, so even `git status` could run any program.
_HARMLESS_OPTIONS = frozenset(("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"))
_UNKNOWN_FOLDER = "The folder that it runs in is known only at run time."


def _find_operand_doubt(command: ParsedCommand) -> str:
    """Return why an operand, which may be a revision or a file, is not harmless.

    Files outside the workspace and files with secrets are not harmless.
    """
    for word in command.words[1:]:
        text = word.value
        if is_secret(text.rpartition(":")[2]):
            return f"It shows {text}, which may contain secrets."
        if text.startswith(("-", ":")):
            continue
        for cwd in command.cwds:
            path = command.checker.absolute(text, cwd)
            if path and _may_be_file(text, path):
                why = command.checker.read_doubt(word, [cwd])
                if why:
                    return why
    return ""


def _may_be_file(text: str, path: str) -> bool:
    """Return whether a word is an existing file, or would be a file outside the folder."""
    return os.path.isabs(text) or ".." in text.split("/") or os.path.lexists(path)
