"""Find the titles and texts of the pull requests that a call opens or edits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hilum_guard import UNKNOWN

from hilum_checks.call_facts import CallFacts
from hilum_checks.command_facts import CommandFacts
from hilum_checks.forge_options import ForgeCommand, may_have_more_options, read_forge_command
from hilum_checks.message_texts import Message, read_message_file, without_unknown
from hilum_checks.model import MessageKind

_OPENING = (("pr", "create"), ("mr", "create"))
_EDITING = (("pr", "edit"), ("mr", "update"))
_TITLE = ("-t", "--title")
# The letter `-d` means a draft to `gh` and a description to `glab`.
_BODY = {"gh": ("-b", "--body"), "glab": ("-d", "--description")}
_BODY_FILE = ("-F", "--body-file")
_REQUEST_TOOL = re.compile(r"(?:pull|merge)_?request", re.IGNORECASE)


def find_request_texts(kind: MessageKind, facts: CallFacts) -> Iterator[Message]:
    """Yield the titles, or the bodies, of the pull requests that a call opens or edits.

    Args:
        kind: The kind of text.
        facts: The call.
    """
    for command in facts.commands:
        request = read_forge_command(command.effects.program, command.words)
        is_help = command.words[-1:] in (("--help",), ("-h",))
        if request is None or is_help or request.verbs[1:] not in _OPENING + _EDITING:
            continue
        is_opened = request.verbs[1:] in _OPENING
        text = _find_text(kind, request, command, facts)
        # To open a pull request takes no operands, so that an unknown word may be an option.
        if is_opened and may_have_more_options(request):
            text = UNKNOWN
        if text:
            yield Message(without_unknown(text, facts), command.source)
        elif is_opened:
            # `--fill` takes the text from the commits, and an editor asks for it.
            yield Message(None, command.source)
    if facts.tool.schema is not None and _REQUEST_TOOL.search(facts.tool.name):
        names = ("title",) if kind == "pull request title" else ("body", "description")
        for name in names:
            given = facts.arguments.get(name)
            if isinstance(given, str):
                yield Message(given, facts.tool.name)


def _find_text(
    kind: MessageKind, request: ForgeCommand, command: CommandFacts, facts: CallFacts
) -> str:
    """Return the text that the options of a command give; empty if they give none."""
    if kind == "pull request title":
        return (request.find_last(*_TITLE) or ("", ""))[1]
    names: tuple[str, ...] = _BODY[request.verbs[0]]
    if request.verbs[0] == "gh":
        names = (*names, *_BODY_FILE)
    option, text = request.find_last(*names) or ("", "")
    if option not in _BODY_FILE:
        return text
    # The guard leaves out the `-` of `-F -` at the end, which means the standard input.
    return read_message_file(command, text or "-", facts)
