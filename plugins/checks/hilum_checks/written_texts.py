"""Judges the texts that a call writes: the content of files, and commit messages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import attrs
from hilum_guard import UNKNOWN, FileAccess, git_words

from hilum_checks.call_facts import CallFacts
from hilum_checks.code_texts import read_text
from hilum_checks.command_facts import CommandFacts
from hilum_checks.expressions import count_matches
from hilum_checks.model import WRITES, Content, Messages, Paths
from hilum_checks.path_matcher import Fit

_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1[^\n]*\n(.*?)\n[ \t]*\2\b", re.DOTALL)
# Messages that Git writes, which no convention of a project covers.
_OF_GIT = re.compile(r"(?:Merge|Revert|fixup!|squash!|amend!) ")
_WITHOUT_MESSAGE = re.compile(r"--no-edit|--fixup.*|--squash.*|-C|--reuse-message.*|--dry-run")


# --- content --------------------------------------------------------------------------------------


def match_content(constraint: Content, facts: CallFacts) -> tuple[Fit, str]:
    """Return whether a call adds forbidden text to a file, and what it does."""
    paths = Paths(constraint.patterns, WRITES, constraint.unless)
    for access in facts.accesses:
        is_written = access.kind in ("write", "link") and facts.matcher.match(paths, access)
        if is_written and _adds_text(constraint.expression, facts, access):
            return "yes", f"it adds such text to {access.path[:200]}"
    return "", ""


def _adds_text(expression: str, facts: CallFacts, access: FileAccess) -> bool:
    """Return whether a call adds text that matches an expression to a file."""
    for old, new in _replacements(facts, access):
        added = count_matches(expression, new)
        # An expression that takes too long fails closed.
        if added is None or (added and added > (count_matches(expression, old) or 0)):
            return True
    return False


def _replacements(facts: CallFacts, access: FileAccess) -> Iterator[tuple[str, str]]:
    """Yield the texts that a call removes, each with the text that it writes instead."""
    if facts.command_texts:
        # The whole line is searched, because any of its words may be written to the file.
        yield "", "\n".join(facts.command_texts)
        return
    arguments = facts.arguments
    if isinstance(arguments.get("change"), str):
        # A program that runs as an agent announces a change as a unified diff.
        lines = arguments["change"].split("\n")
        removed = "\n".join(line[1:] for line in lines if line.startswith("-"))
        yield removed, "\n".join(line[1:] for line in lines if line.startswith("+"))
        return
    edits = arguments.get("edits")
    changes = edits if isinstance(edits, list) else [arguments]
    found = False
    for change in changes:
        if isinstance(change, dict) and isinstance(change.get("new_string"), str):
            found = True
            yield _text(change, "old_string"), _text(change, "new_string")
    if not found:
        path = os.path.join(access.cwds[0] or "/" if access.cwds else "/", access.path)
        others = [text for _, text in facts.strings if text != access.path]
        yield read_text(path), "\n".join(others)


def _text(change: dict[str, Any], name: str) -> str:
    text = change.get(name)
    return text if isinstance(text, str) else ""


# --- commit messages ------------------------------------------------------------------------------


@attrs.frozen
class _Message:
    """A commit message; ``text`` is ``None`` if it is known only at run time."""

    text: str | None
    source: str


def match_messages(constraint: Messages, facts: CallFacts) -> tuple[Fit, str]:
    """Return whether a call commits with a forbidden message, and what it does."""
    doubt = ""
    for message in _find_messages(facts):
        action = f"it runs `{message.source[:200]}`"
        if message.text is None:
            doubt = doubt or action
            continue
        if constraint.wanted and _OF_GIT.match(message.text):
            continue
        count = count_matches(constraint.expression, message.text)
        if count is None or bool(count) != constraint.wanted:
            return "yes", action
    return ("maybe", doubt) if doubt else ("", "")


def _find_messages(facts: CallFacts) -> Iterator[_Message]:
    for command in facts.commands:
        words = git_words(command.words)
        if command.effects.program == "git" and words[1:2] == ("commit",):
            yield from _read_message(command, words[2:], facts)
    name = facts.tool.name.lower()
    message = facts.arguments.get("message")
    if facts.tool.schema is not None and "commit" in name and isinstance(message, str):
        yield _Message(message, facts.tool.name)


def _read_message(
    command: CommandFacts, words: tuple[str, ...], facts: CallFacts
) -> Iterator[_Message]:
    """Yield the message of a ``git commit``, if the command gives one."""
    if any(_WITHOUT_MESSAGE.fullmatch(word) for word in words):
        return
    paragraphs: list[str] = []
    text: str | None
    for word, value in pairwise((*words, "")):
        if re.fullmatch(r"-[a-zA-Z]*m|--message", word):
            paragraphs.append(value)
        elif word.startswith("--message="):
            paragraphs.append(word.removeprefix("--message="))
        elif re.fullmatch(r"-m.+", word):
            paragraphs.append(word[2:])
        elif word in ("-F", "--file"):
            paragraphs.append(_read_file(command, value))
    text = "\n\n".join(paragraphs)
    if UNKNOWN in text:
        # `git commit -m "$(cat <<'EOF' …)"` is the usual way to write a long message.
        found = _HERE_DOCUMENT.search("\n".join(facts.command_texts))
        text = found[3] if found else None
    elif not paragraphs:
        text = None
    yield _Message(text, command.source)


def _read_file(command: CommandFacts, path: str) -> str:
    if path == "-":
        return command.command.stdin or UNKNOWN
    return read_text(os.path.join(command.cwd or "/", path)) or UNKNOWN
