"""What the tools of a round have written: which files, and how those were before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from hilum import HilumError, ToolResult

from hilum_lint.before import changed, undone

if TYPE_CHECKING:
    from hilum import Session, Workspace

LARGEST = 2_000_000
"""Bytes of a file that is checked after an edit."""


@attrs.define
class Edit:
    """What a round did to one file.

    Args:
        path: The file.
        diffs: The diffs, in the order of the calls; empty where a tool gave none.
        created: Whether the round made it.
    """

    path: Path
    diffs: list[str] = attrs.Factory(list)
    created: bool = False

    def before(self, text: str) -> str | None:
        """Return the text before the round from the text after it.

        ``None`` if it cannot be known.
        """
        if self.created:
            return ""
        now = text.replace("\r\n", "\n")
        left = list(self.diffs)
        while (
            left
        ):  # calls of one round may have run in another order: the last one is one that fits
            fitting = (
                (was, diff)
                for diff in reversed(left)
                if diff and (was := undone(now, diff)) is not None
            )
            was, diff = next(fitting, (None, ""))
            if was is None:
                return None
            now = was
            left.remove(diff)
        return now.replace("\n", "\r\n") if "\r\n" in text else now

    @property
    def lines(self) -> set[int]:
        """Numbers of the lines that the round wrote, as they were after each edit."""
        return {line for diff in self.diffs for line in changed(diff)}


def of_round(session: Session, results: Sequence[ToolResult]) -> dict[Path, Edit]:
    """Return the files that the calls of a round have written, as the results of writing tools tell
    it.
    """
    edits: dict[Path, Edit] = {}
    for result in results:
        tool = session.tools.get(result.name)
        data = result.data
        if result.code or tool is None or not tool.writes or not isinstance(data.get("path"), str):
            continue
        if data.get("deleted"):
            _forget(session, edits, data)
        elif "diff" in data and (path := _real(session.workspace, data)) is not None:
            edit = edits.setdefault(path, Edit(path))
            edit.created |= bool(data.get("created"))
            edit.diffs.append(str(data["diff"]))
    return edits


def _real(workspace: Workspace, data: dict[str, Any]) -> Path | None:
    try:
        return workspace.resolve(data["path"])
    except HilumError:
        return None


def _forget(session: Session, edits: dict[Path, Edit], data: dict[str, Any]) -> None:
    path = _real(session.workspace, data)
    if path is not None:
        edits.pop(path, None)
