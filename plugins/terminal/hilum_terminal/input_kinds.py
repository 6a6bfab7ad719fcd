"""Decides what a text that the user enters is: a prompt, a command, a shell line or a memory."""

from __future__ import annotations

import re
from typing import Literal

import attrs

Kind = Literal["prompt", "command", "shell", "memory"]
# A command name contains no further slash, because a path is not a command.
COMMAND_NAME = re.compile(r"/(\?|[A-Za-z][^\s/]*)?(?=\s|$)")


@attrs.frozen
class UserInput:
    """A text that the user entered, with its kind.

    Attributes:
        kind: What the text is.
        text: What the kind applies to: the prompt, the command with its slash, the shell command
            without its ``!``, or the sentence to remember without its ``#``.
    """

    kind: Kind
    text: str


def read_input(text: str, *, is_typed: bool = True) -> UserInput:
    """Return what a text is.

    Args:
        text: The text.
        is_typed: Whether the user typed the beginning of the text. Other text, such as pasted text,
            is always a prompt.
    """
    if not is_typed or text.startswith(" "):
        # The space keeps plugins from reading the prompt as a command or an agent call.
        return UserInput("prompt", text if text.startswith(" ") else f" {text}")
    stripped = text.strip()
    rest = stripped[1:].strip()
    if is_command(stripped):
        return UserInput("command", stripped)
    if stripped.startswith("!") and rest:
        return UserInput("shell", rest)
    # A heading of a longer text is not a sentence to remember.
    if stripped.startswith("#") and rest and "\n" not in stripped:
        return UserInput("memory", rest)
    return UserInput("prompt", text)


def read_argument(text: str) -> UserInput:
    """Return what a text on the command line of hilum is: a command or a prompt.

    The text often comes from another program, such as the title of an issue. It must neither run a
    shell line nor be remembered.
    """
    entered = read_input(text)
    return entered if entered.kind == "command" else UserInput("prompt", text)


def is_command(text: str) -> bool:
    """Return whether the user meant a text as a command, whether or not the command exists."""
    match = COMMAND_NAME.match(text)
    if match is None:
        return False
    # A slash alone asks for the list of commands; a slash before other text is part of that text.
    return match[1] is not None or not text[1:].strip()
