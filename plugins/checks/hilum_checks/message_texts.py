"""Reads the texts of commit messages and pull requests from the options of commands."""

from __future__ import annotations

import os
import re

import attrs
from hilum_guard import UNKNOWN

from hilum_checks.call_facts import CallFacts
from hilum_checks.code_texts import read_text
from hilum_checks.command_facts import CommandFacts

# A here-document in which the shell replaces variables and commands.
_OPEN_DOCUMENT = re.compile(r"<<-?[ \t]*(\w+)[^\n]*\n(.*?)\n[ \t]*\1\b", re.DOTALL)
_EXPANDS = re.compile(r"(?<!\\)(?:\$[A-Za-z_({]|`)")


@attrs.frozen
class Message:
    """A message, or the line by which Git signs it off.

    Attributes:
        text: The text; ``None`` if it is known only at run time.
        source: The command.
        is_signature: Whether it is only the line ``Signed-off-by``.
    """

    text: str | None
    source: str
    is_signature: bool = False


def without_unknown(text: str, facts: CallFacts) -> str | None:
    """Return a text, or ``None`` if a part of it is known only at run time."""
    if UNKNOWN in text:
        return None
    # The guard shows a here-document as it is written, whether its end is quoted or not.
    for line in facts.command_texts:
        for document in _OPEN_DOCUMENT.finditer(line):
            written = document[2].strip()
            if written and written in text and _EXPANDS.search(written):
                return None
    return text


def read_message_file(command: CommandFacts, path: str, facts: CallFacts) -> str:
    """Return the text of a file that a command reads as a message; ``…`` if it is unknown."""
    if path == "-":
        return command.command.stdin or UNKNOWN
    # An earlier command on the line may write the file.
    if len(facts.commands) > 1 and any(access.kind == "write" for access in facts.accesses):
        return UNKNOWN
    return read_text(os.path.join(command.cwd or "/", path)) or UNKNOWN
