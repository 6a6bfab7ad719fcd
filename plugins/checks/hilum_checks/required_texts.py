"""Judge whether the files that a call writes have the text that they must contain."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from hilum_guard import UNKNOWN, FileAccess

from hilum_checks import copied_texts
from hilum_checks.call_facts import CallFacts
from hilum_checks.code_texts import read_text
from hilum_checks.command_facts import CommandFacts
from hilum_checks.command_words import list_texts
from hilum_checks.edited_lines import keeps_match
from hilum_checks.expressions import count_matches
from hilum_checks.model import Content, Paths
from hilum_checks.path_matcher import Fit

# Programs that leave the content of a file as it is, or take it from a revision of the project.
_KEEPS = frozenset("touch chmod chown git patch".split())
_EDITS_LINES = frozenset("sed gsed perl".split())


def match_required(constraint: Content, facts: CallFacts, paths: Paths) -> tuple[Fit, str]:
    """Return whether a call creates a file without a required text, or removes this text.

    Args:
        constraint: The constraint.
        facts: The call.
        paths: The files that the constraint is about.
    """
    doubt = ""
    for access in facts.accesses:
        if access.kind != "write" or not facts.matcher.match(paths, access):
            continue
        # A formatter keeps the text.
        if access.generated and access.existing:
            continue
        fit = facts.matcher.match(paths, access)
        for path in _find_paths(facts, access):
            before = read_text(path)
            # What lacks the text already may lack it, or else no such file could be edited.
            if before.strip() and count_matches(constraint.expression, before) == 0:
                continue
            if facts.command_texts:
                if fit == "yes" and _may_lack(constraint, facts, paths, access, before):
                    doubt = doubt or f"the text of {access.path[:200]} is known only at run time"
                continue
            after = _apply(facts, access, before)
            # An empty file needs no header.
            if fit == "yes" and after.strip() and not count_matches(constraint.expression, after):
                return "yes", f"it writes {access.path[:200]} without such text"
    return ("maybe", doubt) if doubt else ("", "")


def _find_paths(facts: CallFacts, access: FileAccess) -> list[str]:
    """Return the files that a write names; for a pattern, those that exist."""
    folder = (access.cwds[0] if access.cwds else None) or "/"
    found = []
    if UNKNOWN not in access.path and any(char in access.path for char in "*?["):
        found = list(filter(os.path.isfile, facts.matcher.expand(access.path, folder)))
    return found or [os.path.join(folder, access.path)]


def _may_lack(
    constraint: Content, facts: CallFacts, paths: Paths, access: FileAccess, before: str
) -> bool:
    """Return whether a command may leave a file without a required text.

    Args:
        constraint: The constraint.
        facts: The call.
        paths: The files that the constraint is about.
        access: The write of the file.
        before: The text of the file.
    """
    writers = [command for command in facts.commands if access in command.effects.files]
    edits = any(writer.effects.program in _EDITS_LINES for writer in writers)
    if access.existing and not (edits and before.strip()):
        return False
    if not before.strip():
        if UNKNOWN in access.path or access.deep:
            return False
        if all(command.effects.program == "touch" for command in facts.commands):
            return False
        texts = [*facts.command_texts, *list_texts(facts.commands)]
        texts += _list_copied(facts, paths, access)
        return not any(count_matches(constraint.expression, text) for text in texts)
    return any(_may_remove(constraint, facts, paths, access, writer, before) for writer in writers)


def _may_remove(
    constraint: Content,
    facts: CallFacts,
    paths: Paths,
    access: FileAccess,
    writer: CommandFacts,
    before: str,
) -> bool:
    """Return whether a command may remove a required text from a file that contains it."""
    program = writer.effects.program
    if program in _KEEPS or _appends(facts, access, writer):
        return False
    is_redirected = access.path in writer.command.writes
    if program in _EDITS_LINES and not is_redirected:
        return not keeps_match(writer, before, constraint.expression)
    texts = list(list_texts(_list_sources(writer)))
    # The same file may be named once more, with the file that is copied to it.
    for other in writer.effects.files:
        if other.path == access.path:
            texts += _list_copied(facts, paths, other)
    return not any(count_matches(constraint.expression, text) for text in texts)


def _appends(facts: CallFacts, access: FileAccess, writer: CommandFacts) -> bool:
    """Return whether a command only adds text to the end of a file."""
    if writer.effects.program == "tee":
        return any(re.fullmatch(r"-\w*a\w*|--append", word) for word in writer.words[1:])
    if access.path not in writer.command.writes:
        return False
    line = "\n".join(facts.command_texts)
    name = rf"\|?\s*['\"]?{re.escape(access.path)}(?![\w.-])"
    return bool(re.search(f">>{name}", line)) and not re.search(f"(?<!>)>{name}", line)


def _list_sources(writer: CommandFacts) -> Iterator[CommandFacts]:
    """Yield a command, and the commands before it from which it may receive its input."""
    step: CommandFacts | None = writer
    while step is not None:
        yield step
        # A command that prints its own words reads nothing.
        step = None if step.effects.program in ("echo", "printf") else step.previous


def _list_copied(facts: CallFacts, paths: Paths, access: FileAccess) -> Iterator[str]:
    for copied in copied_texts.find_copied(facts, paths, access):
        yield copied.text


def _apply(facts: CallFacts, access: FileAccess, before: str) -> str:
    """Return the text of a file after a call of a tool."""
    edits = facts.arguments.get("edits")
    text = before
    for change in edits if isinstance(edits, list) else [facts.arguments]:
        if isinstance(change, dict) and isinstance(change.get("new_string"), str):
            text = text.replace(_text(change, "old_string"), change["new_string"], 1)
        elif isinstance(change, dict) and isinstance(change.get("change"), str):
            # A program that runs as an agent announces a change as a unified diff.
            lines = change["change"].split("\n")
            text = "\n".join(line[1:] for line in lines if line.startswith(("+", " ")))
        else:
            text = "\n".join(each for _, each in facts.strings if each != access.path)
    return text


def _text(change: dict[str, Any], name: str) -> str:
    text = change.get(name)
    return text if isinstance(text, str) else ""
