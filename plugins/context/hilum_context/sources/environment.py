"""The date and the state of the repository.

The date and the state change between prompts, so they cannot be in the system prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from hilum import read_clock

from hilum_context.gathered_context import ContextSource, GatheredContext
from hilum_context.git import GitStatus
from hilum_context.pieces import ContextPiece

# Maximum number of characters to send from a branch name.
MAX_NAME = 100


class Environment(ContextSource[str]):
    """The date, the branch and the number of files that differ from the last commit.

    An unchanged text is not sent again; see ``hilum_context.gathering``.
    """

    type = "environment"
    switch = "environment"

    async def find(self, context: GatheredContext) -> str:
        """Return the text."""
        # Use the user's time zone: "today" in a prompt means the user's day.
        today = datetime.fromtimestamp(read_clock()).astimezone()
        lines = [f"Date: {today:%A, %Y-%m-%d}"]
        status = await context.git.status()
        if status is not None:
            lines.append(f"Git: {describe_status(status)}")
        return "\n".join(lines)

    def make_pieces(self, context: GatheredContext, found: str) -> Iterator[ContextPiece]:
        """Yield the text."""
        yield ContextPiece(self.type, found, source="git")


def describe_status(status: GitStatus) -> str:
    """Return the state of a repository on one line."""
    if status.branch:
        parts = [f"branch {_shorten(status.branch)}"]
    else:
        parts = [f"no branch, at commit {status.commit[:10]}"]
    if not status.commit:
        parts.append("no commit yet")
    changed = len(status.changed) + status.deleted
    if changed or status.untracked:
        parts.append(f"{changed} changed and {len(status.untracked)} untracked files or folders")
    else:
        parts.append("clean")
    if status.upstream and (status.ahead or status.behind):
        upstream = _shorten(status.upstream)
        parts.append(f"{status.ahead} ahead of and {status.behind} behind {upstream}")
    return ", ".join(parts)


def _shorten(name: str) -> str:
    """Return a name as one line, because a branch name must not add lines to the prompt."""
    printable = "".join(char if char.isprintable() else "?" for char in name)
    if len(printable) <= MAX_NAME:
        return printable
    return f"{printable[:MAX_NAME]}…"
