"""The commands that a prompt of an editor can begin with, and those that only the terminal has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hilum import PromptCommand, Session, list_program_commands
from hilum.errors import similar_names

# A path such as `/etc/hosts` is no command. Names with a colon are those of MCP servers, which also
# accept names that are not listed.
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?=\s|$)")


def list_slash_commands(session: Session) -> Iterator[PromptCommand]:
    """Yield the commands of plugins that begin with a slash."""
    for _, command in session.list_commands():
        if command.mark == "/":
            yield command


def find_unknown_command(session: Session, text: str, *others: str) -> str:
    """Return what to tell the user if a prompt begins with an unknown command; otherwise nothing.

    As in the terminal, such a text is never sent to the model.

    Args:
        session: The session.
        text: The prompt.
        others: The names of further known commands.
    """
    match = _COMMAND.match(text)
    if match is None:
        return ""
    name = match[1]
    names = [*(command.name for command in list_slash_commands(session)), *others]
    if name in names:
        return ""
    found = f"There is no command `/{name}` in an editor."
    if name in list_program_commands():
        return f"{found} Run `hilum {name}` in a terminal."
    near = similar_names(name, sorted(names))
    if near:
        found += f" Did you mean {' or '.join(f'`/{each}`' for each in near)}?"
    listed = ", ".join(f"`/{each}`" for each in sorted(names))
    return (
        f"{found} The commands are {listed}. To send text that begins with a slash, begin with a"
        " word or a space."
    )
