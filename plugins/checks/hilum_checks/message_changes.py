"""Find what a Git command lets change the message of a commit after the command has given it.

Hooks, editors and settings that the call itself chooses may write any message. The hooks and the
editor that the user has configured are the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from hilum_guard import UNKNOWN

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts

# Settings that name programs which may write messages, or that decide which lines Git removes.
_SETTING = re.compile(
    rf"core\.(?:hookspath|comment(?:char|string))|trailer\..*|include(?:if)?\..*|.*{UNKNOWN}.*",
    re.IGNORECASE | re.DOTALL,
)
_READS_SETTING = re.compile(r"--get.*|--unset.*|--list|-l|get|unset|list")
_EDITOR_SETTING = re.compile(r"core\.editor|sequence\.editor", re.IGNORECASE)
# Variables that make Git read other settings, or run other programs as its own.
_ELSEWHERE = frozenset(
    "GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_EXEC_PATH XDG_CONFIG_HOME HOME".split()
)
_EDITORS = frozenset("GIT_EDITOR EDITOR VISUAL GIT_SEQUENCE_EDITOR".split())
_NOTHING = frozenset(("", "/dev/null"))
# Editors that leave a message as it is, and the usual one-liners that reorder a rebase.
_LEAVES_MESSAGE = re.compile(
    r"\s*(?:true|:|cat|/(?:usr/)?bin/true|sed -i(?:\.\w+)?(?: -e)? ['\"]?[\d,\\$]*"
    r"\s*s/\^?pick/(?:s|f|e|d|squash|fixup|edit|drop)/g?['\"]?)\s*"
)
# An `e` among short options of which none takes the rest as its value.
_EDITS = re.compile(r"-[^-mFCctSu]*e.*|--e(?:d|di|dit)?", re.DOTALL)
_REWRITES = re.compile(r"--fixup=(?:amend|reword):.*", re.DOTALL)
_REPLAYS = frozenset("merge revert cherry-pick rebase pull am replace".split())
_COMMITS = _REPLAYS | {"commit"}


def may_change_message(command: CommandFacts, words: tuple[str, ...]) -> bool:
    """Return whether a hook, an editor or a setting may change the message of a commit.

    Args:
        command: A Git command.
        words: Its sub-command with the arguments.
    """
    verb = words[0] if words else ""
    if verb == "config":
        return _sets_for_later(words[1:])
    if verb not in _COMMITS:
        return False
    environment = dict(command.command.environment)
    settings = list(find_settings(command.words[: -len(words)], environment))
    if any(_SETTING.fullmatch(name) and value not in _NOTHING for name, value in settings):
        return True
    if any(environment.get(name, "") not in _NOTHING for name in _ELSEWHERE):
        return True
    editors = [value for name, value in settings if _EDITOR_SETTING.fullmatch(name)]
    editors += [value for name, value in environment.items() if name in _EDITORS]
    is_neutral = all(map(_LEAVES_MESSAGE.fullmatch, editors))
    if verb in _REPLAYS:
        opens = any(map(_EDITS.fullmatch, words[1:])) and verb == "merge" and not editors
        return opens or (not is_neutral and "--no-edit" not in words)
    if any(map(_REWRITES.fullmatch, words)):
        return not editors or not is_neutral
    # Without a message, Git asks an editor for one, which is judged elsewhere.
    return any(map(_EDITS.fullmatch, words[1:])) and not (editors and is_neutral)


def _sets_for_later(words: tuple[str, ...]) -> bool:
    """Return whether a `git config` command makes a setting that may change later messages."""
    if any(map(_READS_SETTING.fullmatch, words)):
        return False
    return any(
        (_SETTING.fullmatch(name) or _EDITOR_SETTING.fullmatch(name)) and value not in _NOTHING
        for name, value in pairwise(words)
    )


def find_settings(front: tuple[str, ...], environment: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the settings that options before the sub-command, and variables, give to Git.

    Args:
        front: The words before the sub-command.
        environment: The variables.
    """
    for word, following in pairwise((*front, "")):
        option, _, _ = word.partition("=")
        if word == "-c":
            name, _, value = following.partition("=")
            yield name, value
        elif option in ("--config-env", "--exec-path"):
            # The next word or the value names the setting; both may name any program.
            yield UNKNOWN, word
    for name, value in environment.items():
        if name == "GIT_CONFIG_PARAMETERS":
            yield UNKNOWN, value
        elif re.fullmatch(r"GIT_CONFIG_KEY_\d+", name):
            yield value, environment.get(name.replace("KEY", "VALUE"), UNKNOWN)
