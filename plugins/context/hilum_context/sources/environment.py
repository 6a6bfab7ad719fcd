"""The date and the state of the repository, which change from prompt to prompt and so cannot be in
the system prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from hilum import Text, UserMessage

from hilum_context.git import GitStatus
from hilum_context.look import Look, Source
from hilum_context.pieces import Piece

MAX_NAME = 100
"""Characters of the name of a branch that are sent."""


class Environment(Source[str]):
    """The date, the branch and how many files differ from the last commit.

    Nothing where it was already sent.
    """

    type = "environment"
    switch = "environment"

    async def find(self, look: Look) -> str:
        """Return the text."""
        today = datetime.now().astimezone()
        lines = [f"Date: {today:%A, %Y-%m-%d}"]
        status = await look.git.status()
        if status is not None:
            lines.append(f"Git: {describe(status)}")
        return "\n".join(lines)

    def give(self, look: Look, found: str) -> Iterator[Piece]:
        """Yield the text, unless the conversation's last one says the same."""
        if last_sent(look) != found:
            yield Piece(self.type, found, source="git")


def describe(status: GitStatus) -> str:
    """Return the state of a repository in a line."""
    parts = [
        f"branch {_short(status.branch)}"
        if status.branch
        else f"no branch, at commit {status.commit[:10]}"
    ]
    if not status.commit:
        parts.append("no commit yet")
    changed = len(status.changed) + status.deleted
    if changed or status.untracked:
        parts.append(f"{changed} changed and {len(status.untracked)} untracked files or folders")
    else:
        parts.append("clean")
    if status.upstream and (status.ahead or status.behind):
        parts.append(
            f"{status.ahead} ahead of and {status.behind} behind {_short(status.upstream)}"
        )
    return ", ".join(parts)


def last_sent(look: Look) -> str:
    """Return the text of the environment that the conversation has, empty if it has none."""
    for message in reversed(look.agent.conversation.messages):
        for part in message.parts if isinstance(message, UserMessage) else ():
            if isinstance(part, Text) and part.source == "context:environment":
                return "\n".join(part.text.split("\n")[1:-1])
    return ""


def _short(name: str) -> str:
    """Return a name as it may be part of a prompt: whoever named a branch gets no line of it."""
    printable = "".join(char if char.isprintable() else "?" for char in name)
    if len(printable) <= MAX_NAME:
        return printable
    return f"{printable[:MAX_NAME]}…"
