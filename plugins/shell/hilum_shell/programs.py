"""Finds a command line's main program, and exit codes that are results rather than failures.

This quick analysis is used to count repeated failures. Security decisions do not use this analysis:
the guard has its own parser.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

# Programs whose exit code 1 is a result, such as "not found", "files differ" or "false".
ANSWERING = frozenset(
    "grep egrep fgrep zgrep rg ag ack test [ [[ diff cmp pgrep which type".split()
)
MAX_LENGTH = 10_000  # in characters; splitting a longer command, such as a script, would take long
_GIT_ANSWERING = frozenset({"grep", "diff"})
_OPERATOR = re.compile(r"[|&;()<>\n]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
# Programs that run the program named in their arguments.
_WRAPPERS = frozenset("sudo env nohup time nice command exec uv run poetry pipenv".split())
# Commands that only prepare the shell for the next one.
_SETUP = frozenset({"cd", "set", "export", "source", "."})


def describe_target(arguments: dict[str, Any]) -> str:
    """Return the main program of a command line, ignoring preceding commands such as ``cd``."""
    for _, words in _commands(arguments["command"]) or ():
        program = _find_program(words)
        if program and program not in _SETUP:
            return os.path.basename(program)
    return ""


def _find_program(words: list[str]) -> str:
    """Return the program that a command runs, without assignments, options and wrappers."""
    plain = [word for word in words if not _ASSIGNMENT.match(word) and not word.startswith("-")]
    for word in plain:
        if word not in _WRAPPERS:
            return word
    return plain[-1] if plain else ""


def is_answer_code(command: str, code: int) -> bool:
    """Return whether an exit code is a result rather than a failure.

    ``grep``, ``test`` and ``diff``, for example, exit with 1 without an error.

    Args:
        command: The command line.
        code: The exit code of the command line.
    """
    commands = _commands(command)
    if code != 1 or not commands:
        return False
    # The exit code comes from the last command or, in a chain of `&&`, from any command in it.
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
    """Return the commands in a command line, each with the preceding operator.

    The result is ``None`` if splitting the line requires a real parser.
    """
    if len(command) > MAX_LENGTH:
        return None
    words = _split_words(command)
    if words is None or any(map(_is_parenthesis, words)):
        return None
    commands = _group_words(words)
    return [(operator, found) for operator, found in commands if found]


def _group_words(words: list[str]) -> list[tuple[str, list[str]]]:
    """Return the words of each command, without redirections, with the preceding operator."""
    commands: list[tuple[str, list[str]]] = [("", [])]
    is_redirected = False
    for word in words:
        if not _OPERATOR.fullmatch(word):
            if not is_redirected:
                commands[-1][1].append(word)
            is_redirected = False
        elif set(word) & set("<>"):
            is_redirected = True  # the word after a redirection operator is not an argument
        else:
            commands.append((word.strip("\n") or ";", []))
    return commands


def _split_words(command: str) -> list[str] | None:
    """Return the words and operators in a command line, or ``None`` if a quote is not closed."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;()<>\n")
    lexer.whitespace = " \t\r"  # a newline counts as an operator
    # By default, a `#` begins a comment even inside a word, as in `page.html#part`.
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return None


def _is_parenthesis(word: str) -> bool:
    """Return whether a word is an operator with a parenthesis, as in a subshell."""
    has_parenthesis = bool(set(word) & set("()"))
    return has_parenthesis and not set(word) & set("<>") and bool(_OPERATOR.fullmatch(word))
