"""Read the line `Signed-off-by: NAME <EMAIL>` that Git adds to a message for a call."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from hilum_guard import UNKNOWN, git_words

from hilum_checks.code_texts import read_text
from hilum_checks.git_folders import find_common, find_git_folder, list_commands

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts

_SIGNING = frozenset("commit merge revert cherry-pick rebase am pull".split())
# An `s` among short options of which none takes the rest as its value.
_SIGNS = re.compile(r"-[^-mFCctSuX]*s.*|--signo(?:f|ff)?", re.DOTALL)
# In these commands, `-s` names a strategy.
_WITH_STRATEGY = frozenset("merge rebase pull".split())
_PERSON = ("user.name", "user.email", "committer.name", "committer.email")
_VARIABLES = ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
_SECTION = re.compile(r"^\s*\[(?:user|committer)\]([^\[]*)", re.MULTILINE | re.IGNORECASE)
_ENTRY = re.compile(r"^\s*(?:name|email)\s*=\s*(.*)$", re.MULTILINE | re.IGNORECASE)


def find_signatures(command: CommandFacts, words: tuple[str, ...]) -> Iterator[str | None]:
    """Yield the line that a Git command adds to sign off a message, for each name that it may use.

    A name that the user has configured for all repositories is the user's own.

    Args:
        command: A Git command.
        words: Its sub-command with the arguments.
    """
    verb = words[0] if words else ""
    if verb not in _SIGNING or "--no-signoff" in words:
        return
    options = words[1 : words.index("--")] if "--" in words else words[1:]
    pattern = re.compile("--signo(?:f|ff)?") if verb in _WITH_STRATEGY else _SIGNS
    if not any(map(pattern.fullmatch, options)):
        return
    for name in dict.fromkeys(_find_names(command, words)):
        yield None if UNKNOWN in name else f"Signed-off-by: {name}"


def _find_names(command: CommandFacts, words: tuple[str, ...]) -> Iterator[str]:
    """Yield the names and addresses that the call, or the repository, sets for a committer."""
    front = command.words[: -len(words)]
    for option, setting in pairwise(front):
        name, _, value = setting.partition("=")
        if option == "-c" and name.lower() in _PERSON:
            yield value
    for name, value in command.command.environment:
        if name in _VARIABLES:
            yield value
    for earlier in list_commands(command):
        before = git_words(earlier.words) if earlier.words else ()
        if before[:2] == ("git", "config"):
            for name, value in pairwise(before):
                if name.lower() in _PERSON:
                    yield value
    folder = find_git_folder(command)
    if folder and UNKNOWN not in folder:
        for section in _SECTION.findall(read_text(os.path.join(find_common(folder), "config"))):
            yield from (value.strip().strip('"') for value in _ENTRY.findall(section))
