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
    """Return what an earlier command of a call prints to a file, if nothing else may write it.

    Args:
        command: The command that reads the file.
        path: The file, as the command names it.
        facts: The call.
    """
    if len(facts.command_texts) != 1 or facts.unknown_command:
        return None
    before = facts.commands[: facts.commands.index(command)]
    writers = [each for each in before if path in each.command.writes or _is_tee(each, path)]
    if not writers or writers[-1].cwds != command.cwds:
        return None
    later = facts.commands[facts.commands.index(writers[-1]) + 1 :]
    # In `a && echo x > m`, the parser takes the redirection for one of the whole list.
    writer = writers[-1] if writers[-1].words else writers[-1].previous
    if writer is None:
        return None
    written = _find_end(writer, path, facts.command_texts[0])
    if written is None or _STRUCTURE.search(_blank_quotes(facts.command_texts[0][: written.start])):
        return None
    earlier = facts.commands[: facts.commands.index(writer)]
    if not _runs_before(command, written, facts.command_texts[0]):
        # Otherwise, Git would read what the file contains already.
        is_new = not read_text(os.path.join(command.cwd or "/", path))
        if not is_new or any(_may_write(each, path, facts) for each in earlier):
            return None
    if any(_may_write(each, path, facts) for each in later):
        return None
    if _is_tee(writer, path):
        return writer.command.stdin
    if writer.effects.program == "cat":
        is_document = len(writer.words) == 1 and written.document
        return writer.command.stdin if is_document else None
    return _predict_print(writer)


def _is_tee(command: CommandFacts, path: str) -> bool:
    """Return whether a command copies its input to a file, and replaces what the file contains."""
    return command.words == ("tee", path) and not command.command.reads


@attrs.frozen
class _Written:
    """Where a line writes a file.

    Attributes:
        start: Where the command that writes the file begins.
        end: The position after the redirection.
        document: Whether the file is a here-document.
    """

    start: int
    end: int
    document: bool


def _find_end(writer: CommandFacts, path: str, text: str) -> _Written | None:
    """Return where a line writes a file; ``None`` if it does so in another form."""
    if text.count(writer.source) != 1:
        return None
    start = text.index(writer.source)
    rest = text[start + len(writer.source) :]
    if _is_tee(writer, path):
        source = writer.previous.source if writer.previous is not None else ""
        piped = re.search(rf"{re.escape(source)}\s*\|\s*$", text[:start]) if source else None
        target = re.match(r"(?:[ \t]*>[ \t]*/dev/null)?", rest)
        if piped is None or target is None:
            return None
        return _Written(piped.start(), len(text) - len(rest) + target.end(), document=False)
    to_file = rf">\s*{re.escape(path)}"
    document = r"<<-?\s*([\"']?)\w+\1"
    form = rf"\s*(?:{to_file}\s*{document}|{document.replace('1', '2')}\s*{to_file}|{to_file})"
    found = re.match(rf"{form}(?=[ \t]*(?:&&|;|\n|\\\n))", rest)
    if found is None:
        return None
    end = start + len(writer.source) + found.end()
    return _Written(start, end, document="<<" in found[0])


# What makes it uncertain whether a command of a line runs, or what it writes.
_STRUCTURE = re.compile(
    r"\|\||[(){}`]|<<|(?<![&>])&(?![&>])|(?:^|[;&\n])\s*(?:if|for|while|until|case|alias|set|exec|trap"
    r"|eval|source|\.|shopt|exit|return|!)\s"
)


def _runs_before(command: CommandFacts, written: _Written, text: str) -> bool:
    """Return whether a file has certainly been written if a command of the line runs.

    Args:
        command: The command that reads the file.
        written: Where the line writes the file.
        text: The line.
    """
    before = _blank_quotes(text[: written.start])
    if re.search(r"(?:^|[;\n])\s*$", before):
        return True
    after, found, _ = _blank_quotes(text[written.end :]).partition(_blank_quotes(command.source))
    # In `a && printf x > m && git commit -F m`, the commit runs only if the file was written.
    return (
        bool(found) and "&&" in after and not re.search(r"[;\n]|\|\|", after.replace("\\\n", " "))
    )


def _blank_quotes(text: str) -> str:
    return re.sub(r"'[^']*'|\"(?:[^\"\\$`]|\\.)*\"", "''", text)


def _predict_print(writer: CommandFacts) -> str | None:
    """Return what `echo` or `printf` prints; ``None`` if that is not certain."""
    program, *words = writer.words or ("",)
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
    if set(command.command.writes) - {"/dev/null"}:
        return True
    if not command.words:
        return False
    if UNKNOWN in command.words[0]:
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
