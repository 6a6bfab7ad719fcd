"""What a command line runs, as far as it can be seen at a glance: for repeated failures, and for
exit codes that are answers.

It decides nothing about safety: that is the guard's, which reads commands in earnest.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

# Programs that answer a question with exit code 1: nothing found, different, not so.
ANSWERING = frozenset(
    "grep egrep fgrep zgrep rg ag ack test [ [[ diff cmp pgrep which type".split()
)
MAX_LENGTH = 10_000  # characters; a longer command is a script, and splitting it would take long
_GIT_ANSWERING = frozenset({"grep", "diff"})
_OPERATOR = re.compile(r"[|&;()<>\n]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
# Programs that run the one named after them.
_WRAPPERS = frozenset("sudo env nohup time nice command exec uv run poetry pipenv".split())


def aim(arguments: dict[str, Any]) -> str:
    """Return what a command is about: the program that it runs, without folders that it goes to
    first.
    """
    commands = _commands(arguments["command"])
    for _, words in commands or ():
        words = [word for word in words if not _ASSIGNMENT.match(word) and not word.startswith("-")]
        while len(words) > 1 and words[0] in _WRAPPERS:
            words = words[1:]
        if words and words[0] not in ("cd", "set", "export", "source", "."):
            return os.path.basename(words[0])
    return ""


def is_answer(command: str, code: int) -> bool:
    """Return whether an exit code answers a question: that of ``grep``, ``test`` or ``diff`` is 1
    where nothing is wrong.

    Args:
        command: The command line.
        code: Its exit code.
    """
    commands = _commands(command)
    if code != 1 or not commands:
        return False
    # After `&&` it may be any of the commands that ended with 1; after a pipe, `;` or a new line it
    # is the last one.
    for number, (operator, words) in enumerate(reversed(commands)):
        if not _answers(words) and not (number and words[:1] == ["cd"]):
            return False
        if operator != "&&":
            return True
    return True


def _answers(words: list[str]) -> bool:
    if words[:1] == ["git"]:
        return len(words) > 1 and words[1] in _GIT_ANSWERING
    return bool(words) and words[0] in ANSWERING


def _commands(command: str) -> list[tuple[str, list[str]]] | None:
    """Split a command line into its commands, each with the operator before it.

    ``None`` where that needs a real shell.
    """
    if len(command) > MAX_LENGTH:
        return None
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;()<>\n")
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # an open quote
        return None
    commands: list[tuple[str, list[str]]] = [("", [])]
    skipped = False
    for word in words:
        if not _OPERATOR.fullmatch(word):
            if not skipped:
                commands[-1][1].append(word)
            skipped = False
        elif set(word) & set("<>"):
            skipped = True  # the word after a redirection is no argument
        elif set(word) & set("()"):
            return None
        else:
            commands.append((word.strip("\n") or ";", []))
    return [(operator, found) for operator, found in commands if found]
