"""Find the texts that a script of `sed` adds to a file, without those that it finds or deletes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hilum_guard import UNKNOWN

from hilum_checks.command_facts import CommandFacts
from hilum_checks.edited_lines import find_scripts

_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)*/I?)"
# A command that deletes or prints lines, or that replaces text. Other commands are not understood:
# `r` adds text that is not in the script, and `y` changes single characters.
_COMMAND = re.compile(
    rf"[\s;]*+(?P<lines>(?:{_ADDRESS}(?:,(?:{_ADDRESS}|[+~]\d+))?)?)\s*+!?\s*+"
    r"(?:s(?P<mark>[^\w\s\\])(?P<pattern>(?:\\.|(?!(?P=mark))[^\\\n])*)(?P=mark)"
    r"(?P<added>(?:\\[\s\S]|(?!(?P=mark))[^\\\n])*)(?P=mark)[gIip\d]*|[dpq=])\s*(?=[;\n]|\Z)"
)
# `-Ei.bak`, but not `-i.Er`, which names copies of the files.
_EXTENDED = re.compile(r"-[nsuz]*[Er].*|--regexp-extended")
_IN_PLACE = re.compile(r"-[Ers]*i.*|--in-place.*")
_ESCAPE = re.compile(r"\\([\s\S])|&")


def find_added_texts(commands: Iterable[CommandFacts]) -> dict[str, str]:
    """Return what scripts of `sed -i` write to files, by the script.

    A script that is not certainly understood, or that other commands contain, too, is left out.

    Args:
        commands: The commands of a call.
    """
    commands = list(commands)
    found: dict[str, str] = {}
    for command in commands:
        if command.effects.program not in ("sed", "gsed"):
            continue
        if any(map(_IN_PLACE.fullmatch, command.words[1:])):
            is_extended = any(map(_EXTENDED.fullmatch, command.words[1:]))
            for script in find_scripts(command.words[1:], is_perl=False):
                added = _read_script(script, is_extended=is_extended)
                # A launcher such as `xargs` ends with the words of the `sed` that it runs.
                count = len(command.words)
                others = [each for each in commands if each.words[-count:] != command.words]
                if added is not None and not any(_contains(each, script) for each in others):
                    found[script] = added
    return found


def _contains(command: CommandFacts, script: str) -> bool:
    """Return whether a command, which may write its words, contains a script."""
    texts = (*command.words, command.command.stdin or "")
    return any(script in text for text in texts)


def _read_script(script: str, *, is_extended: bool) -> str | None:
    """Return the texts that a script adds, or ``None`` if they are not certain."""
    if UNKNOWN in script:
        return None
    added = []
    at = 0
    while script[at:].strip("; \n"):
        command = _COMMAND.match(script, at)
        if command is None:
            return None
        at = command.end()
        if command["mark"] is not None:
            text = _resolve(command, is_extended=is_extended)
            if text is None:
                return None
            # `/A/s|// ||` uncomments a line with A, so that the text of the address counts as added.
            added += [text, command["lines"].replace("\\", "")]
    return "\n".join(added)


def _resolve(command: re.Match[str], *, is_extended: bool) -> str | None:
    """Return the new text of `s/A/B/`, with the parts of the pattern that it repeats."""
    pattern = command["pattern"]
    groups = _find_groups(pattern, is_extended=is_extended)
    parts: list[str] = []
    end = 0
    for found in _ESCAPE.finditer(command["added"]):
        parts.append(command["added"][end : found.start()])
        end = found.end()
        letter = found[1]
        if letter is None:
            parts.append(pattern.replace("\\", ""))
        elif letter.isdigit():
            if not 0 < int(letter) <= len(groups):
                return None
            parts.append(groups[int(letter) - 1].replace("\\", ""))
        elif letter in "nt\n":
            parts.append("\t" if letter == "t" else "\n")
        elif letter.isalnum():
            return None  # `\U` and `\x41` write other characters
        else:
            parts.append(letter)
    return "".join((*parts, command["added"][end:]))


def _find_groups(pattern: str, *, is_extended: bool) -> list[str]:
    """Return the texts of the groups of a pattern, in the order in which they begin."""
    opening, closing = ("(", ")") if is_extended else (r"\(", r"\)")
    groups: list[str] = []
    waiting: list[tuple[int, int]] = []
    # A bracket in `[(]` begins no group.
    for found in re.finditer(r"\\.|\[\^?\]?[^\]]*\]|[\s\S]", pattern):
        if found[0] == opening:
            waiting.append((len(groups), found.end()))
            groups.append("")
        elif found[0] == closing and waiting:
            number, start = waiting.pop()
            groups[number] = pattern[start : found.start()]
    return groups
