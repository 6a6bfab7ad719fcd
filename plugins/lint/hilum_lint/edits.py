"""The edits made in a round: the files that its tools wrote, and their earlier content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from hilum import HilumError, ToolResult

from hilum_lint.diffs import find_written_lines, revert_diff

if TYPE_CHECKING:
    from hilum import Session, Workspace

# The name of the tool that calls deferred tools, which is that of their results, too.
_CALL_TOOL = "call_tool"
# Maximum size of a file in bytes; a larger file is not checked after an edit.
MAX_FILE_BYTES = 2_000_000


@attrs.define
class Edit:
    """The changes that a round made to one file.

    Args:
        path: The file.
        diffs: The diffs, in the order of the calls; empty if one of the tools reported none.
        created: Whether the round created the file.
    """

    path: Path
    diffs: list[str] = attrs.Factory(list)
    created: bool = False

    def before(self, text: str) -> str | None:
        """Return the text before the round, or ``None`` if it cannot be determined.

        Args:
            text: The text after the round.
        """
        if self.created:
            return ""
        # Diffs always use "\n", whatever newlines the file uses.
        now = text.replace("\r\n", "\n")
        left = list(self.diffs)
        # A round's calls may have run in another order, so any diff that matches is treated as the
        # last one.
        while left:
            reverted = _revert_last(now, left)
            if reverted is None:
                return None
            now = reverted
        return now.replace("\n", "\r\n") if "\r\n" in text else now

    def followed_by(self, later: Edit | None) -> Edit:
        """Merge this edit and a later edit to the same file."""
        if later is None:
            return self
        created = self.created or later.created
        return Edit(self.path, [*self.diffs, *later.diffs], created)

    @property
    def lines(self) -> set[int]:
        """The lines that the round wrote, as numbered after each edit."""
        written: set[int] = set()
        for diff in self.diffs:
            written |= find_written_lines(diff)
        return written


def _revert_last(text: str, diffs: list[str]) -> str | None:
    """Revert the last diff that matches the text, and remove the diff from the list."""
    for diff in reversed(diffs):
        reverted = revert_diff(text, diff) if diff else None
        if reverted is not None:
            diffs.remove(diff)
            return reverted
    return None


def find_edits(session: Session, results: Sequence[ToolResult]) -> dict[Path, Edit]:
    """Return the files that a round's calls wrote, according to their results."""
    edits: dict[Path, Edit] = {}
    for data in chain.from_iterable(_list_changes(session, result) for result in results):
        path = _resolve(session.workspace, data)
        if path is None:
            continue
        if data.get("deleted"):
            edits.pop(path, None)
        elif "diff" in data:
            edit = edits.setdefault(path, Edit(path))
            edit.created |= bool(data.get("created"))
            edit.diffs.append(str(data["diff"]))
    return edits


def _list_changes(session: Session, result: ToolResult) -> list[Mapping[str, Any]]:
    """Return the data about each file that a call wrote: one file, or several (``edits``)."""
    tool = session.tools.get(result.name)
    is_writer = result.changed if result.name == _CALL_TOOL else bool(tool and tool.writes)
    if result.code or not is_writer:
        return []
    several = result.data.get("edits")
    changes = several if isinstance(several, list) else [result.data]
    return [each for each in changes if isinstance(each.get("path"), str)]


def _resolve(workspace: Workspace, data: Mapping[str, Any]) -> Path | None:
    try:
        return workspace.resolve(data["path"])
    except HilumError:
        return None
