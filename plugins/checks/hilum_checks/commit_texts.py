"""Find the messages of the commits that a call makes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hilum_guard import UNKNOWN, git_words, parse_options

from hilum_checks import git_options
from hilum_checks.call_facts import CallFacts
from hilum_checks.command_facts import CommandFacts
from hilum_checks.message_changes import may_change_message
from hilum_checks.message_signatures import find_signatures
from hilum_checks.message_texts import Message, read_message_file, without_unknown

_WITHOUT_MESSAGE = re.compile(r"--no-edit|--fixup.*|--squash.*|-C|--reuse-message.*|--dry-run")

# Sub-commands that commit with a message of their own.
_COMMITS = ("commit", "commit-tree", "merge")


def find_commit_messages(facts: CallFacts) -> Iterator[Message]:
    """Yield the messages of the commits that a call makes, or may make."""
    for command in facts.commands:
        words = git_words(command.words)
        # ``git commit --help`` only displays a page.
        is_help = words[-1:] in (("--help",), ("-h",))
        if words[1:2] == ("commit",) and parse_options(words[2:], git_options.COMMIT).has(
            "--dry-run"
        ):
            continue
        if command.effects.program == "git" and words[1:2] and words[1] in _COMMITS and not is_help:
            yield from _read_message(command, words[1:], facts)
        elif command.effects.program == "git" and _commits_unseen(words[1:]):
            yield Message(None, command.source)
        is_git = command.effects.program == "git" and not is_help
        if is_git and may_change_message(command, words[1:]):
            yield Message(None, command.source)
        for line in find_signatures(command, words[1:]) if is_git else ():
            yield Message(line, command.source, is_signature=True)
    if facts.unknown_text:
        yield Message(None, facts.unknown_text)
    name = facts.tool.name.lower()
    message = facts.arguments.get("message")
    if facts.tool.schema is not None and "commit" in name and isinstance(message, str):
        yield Message(message, facts.tool.name)


def _commits_unseen(words: tuple[str, ...]) -> bool:
    """Return whether a Git command commits with messages that its words do not show."""
    verb = words[0] if words else ""
    if verb in ("am", "fast-import", "citool", "gui"):
        return True
    if verb in ("filter-branch", "filter-repo"):
        return any(word.startswith(("--msg-filter", "--message", "--commit")) for word in words)
    return verb == "hash-object" and "commit" in words and "-w" in words


def _read_message(
    command: CommandFacts, words: tuple[str, ...], facts: CallFacts
) -> Iterator[Message]:
    """Yield the message of a command that commits, if the command gives one."""
    paragraphs = list(_find_paragraphs(command, words, facts))
    if not paragraphs:
        if words[0] == "commit-tree":
            paragraphs = [command.command.stdin or UNKNOWN]
        elif words[0] == "merge" or any(_WITHOUT_MESSAGE.fullmatch(word) for word in words):
            return
    text = without_unknown("\n\n".join(paragraphs), facts) if paragraphs else None
    yield Message(text, command.source)


_SYNTAX = {
    "commit": git_options.COMMIT,
    "commit-tree": git_options.COMMIT_TREE,
    "merge": git_options.MERGE,
}
_GIVES_TEXT = ("-m", "--message", "--trailer")
_NAMES_FILE = ("-F", "--file", "-t", "--template")


def _find_paragraphs(
    command: CommandFacts, words: tuple[str, ...], facts: CallFacts
) -> Iterator[str]:
    """Yield the parts of a message; a part that is known only at run time is ``UNKNOWN``.

    Args:
        command: A Git command.
        words: Its sub-command with the arguments.
        facts: The call.
    """
    parsed = parse_options(words[1:], _SYNTAX[words[0]])
    # A word that is known only at run time, or an option that is not known, may give a message.
    is_unknown = any(not name.startswith("--no-") for name in parsed.unknown)
    if is_unknown or any(word.startswith(UNKNOWN) for word in words):
        yield UNKNOWN
    for name, value in parsed.options:
        if name in _GIVES_TEXT:
            yield value
        elif name in _NAMES_FILE:
            # The guard leaves out the `-` of `-F -` at the end, which means the standard input.
            missing = "-" if command.command.stdin else UNKNOWN
            yield read_message_file(command, value or missing, facts)
