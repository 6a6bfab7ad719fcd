"""Read the texts of commit messages and pull requests from the options of commands."""

from __future__ import annotations

import os
import re

import attrs
from hilum_guard import UNKNOWN, git_words

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
    printed = _read_printed(command, path, facts)
    if printed is not None:
        return printed
    # An earlier command on the line may write the file.
    if len(facts.commands) > 1 and any(access.kind == "write" for access in facts.accesses):
        return UNKNOWN
    return read_text(os.path.join(command.cwd or "/", path)) or UNKNOWN


# Sub-commands of Git that write no file of the working tree.
_KEEPS_FILES = frozenset("add commit diff log push status".split())
# Programs that only show or delete the files that they name.
_SHOWS_FILES = frozenset("cat head tail wc rm".split())


def _read_printed(command: CommandFacts, path: str, facts: CallFacts) -> str | None:
    """Return what the first command of a call prints to a file, if nothing else may write it.

    Args:
        command: The command that reads the file.
        path: The file, as the command names it.
        facts: The call.
    """
    first, *others = facts.commands
    text = facts.command_texts[0].strip() if len(facts.command_texts) == 1 else ""
    is_first = first.command.writes == (path,) and first.cwds == command.cwds
    if not is_first or facts.unknown_command or not text.startswith(first.source):
        return None
    # It runs certainly, and before the others.
    rest = text.removeprefix(first.source)
    target = rf">\s*{re.escape(path)}"
    document = r"<<-?\s*([\"']?)\w+\1"
    start = rf"\s*(?:{target}|{target}\s*{document}|{document.replace('1', '2')}\s*{target})"
    if not re.match(rf"{start}[ \t]*?(?:&&|;|\n)", rest.replace("\\\n", " ")):
        return None
    if any(_may_write(each, path, facts) for each in others):
        return None
    program, *words = first.words or ("",)
    if program == "cat" and not words and "<<" in rest:
        return first.command.stdin
    # The shell may replace a pattern by the names of files.
    is_plain = bool(words) and not any(re.search(r"[*?\[]", word) for word in words)
    is_plain = is_plain and not any(re.search(r"[\\%]", word) for word in words[1:])
    if program == "echo" and is_plain and not re.search(r"^-|[\\]", words[0]):
        return " ".join(words)
    if program != "printf" or not is_plain:
        return None
    form = words[0].replace("\\n", "\n")
    if re.search(r"[\\]|^-", form) or form.count("%") != len(words) - 1:
        return None
    for word in words[1:]:
        if "%s" not in form:
            return None
        form = form.replace("%s", word, 1)
    return form


def _may_write(command: CommandFacts, path: str, facts: CallFacts) -> bool:
    """Return whether a command may write a message file.

    A program that does not name the file writes no other file than those of the project, as far as
    is known. Code that the call itself contains may do so.

    Args:
        command: The command.
        path: The file.
        facts: The call.
    """
    effects = command.effects
    if command.command.writes or not command.words or UNKNOWN in command.words[0]:
        return True
    if effects.program == "git" and not _KEEPS_FILES.isdisjoint(git_words(command.words)[1:2]):
        return False
    full = os.path.normpath(os.path.join(command.cwd or "/", path))
    is_inside = f"{os.path.realpath(full)}/".startswith(f"{facts.matcher.real_root}/")
    if command.cwd is None or is_inside or effects.program == "git":
        return True
    if effects.code or effects.script or effects.code_origin or command.command.wrapper:
        return True
    name = os.path.basename(path)
    folder = os.path.dirname(full)
    if effects.program in _SHOWS_FILES:
        return False
    # In its folder, the file may be one of those that an archive contains.
    if f"{folder}/".startswith(f"{command.cwd.rstrip('/')}/"):
        return True
    for word in command.words[1:]:
        value = word.rpartition("=")[2]
        names_folder = f"{folder}/".startswith(f"{os.path.normpath(value)}/") and "/" in value
        if name in word or names_folder or re.search(rf"[*?\[\\{UNKNOWN}]", word):
            return True
    return False
