"""A guest's requests to read and write files, which hilum's tools carry out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import trio

from hilum_acp.guests.actions import FileDiff
from hilum_acp.guests.announced_writes import AnnouncedWrites, can_be_announced
from hilum_acp.guests.requests import RequestQueue
from hilum_acp.guests.served_files import REFUSED
from hilum_acp.json_rpc import INVALID_PARAMS, RequestHandler, RpcError

MAX_SERVED = 10_000
"""Files of which hilum knows that the guest has read them; others are read again before a write."""
MAX_WRITTEN_TEXT = 64_000_000
"""Characters that wait to be written to files."""


class ServedFiles(Protocol):
    """The files that a guest may read through hilum."""

    def resolve(self, path: str) -> str:
        """Return a path without links; a path that cannot be used is returned as it is."""

    async def read_text(self, path: str) -> str:
        """Return the text of the file at a resolved path."""


class FileRequests:
    """Answers a guest's requests to read and write files.

    Args:
        root: Root of the workspace.
        files: The files that the guest may read.
        queue: The guest's requests.
    """

    def __init__(self, root: str, files: ServedFiles, queue: RequestQueue) -> None:
        self._root = root
        self._files = files
        self._queue = queue
        self._announced = AnnouncedWrites()
        self._served: set[str] = set()
        self._written_text = 0

    @property
    def handlers(self) -> dict[str, RequestHandler]:
        """The handlers of requests by method of the protocol."""
        return {"fs/read_text_file": self._read_file, "fs/write_text_file": self._write_file}

    # --- changes that the guest announces ---------------------------------------------------------

    def find_announced(self, diffs: Sequence[FileDiff]) -> dict[str, list[FileDiff]]:
        """Return the changes that a question shows completely, by resolved path. Blocks."""
        found: dict[str, list[FileDiff]] = {}
        if can_be_announced(diffs, self._root):
            for diff in diffs:
                shown = os.path.normpath(os.path.join(self._root, diff.path))
                # The user does not see where a link leads.
                if self._files.resolve(shown) == shown:
                    found.setdefault(shown, []).append(diff)
        return found

    def allow_announced(self, announced: Mapping[str, Sequence[FileDiff]]) -> None:
        """Allow changes by the guest, by resolved path, without a second question."""
        for path, diffs in announced.items():
            self._announced.add(path, diffs)

    # --- requests ---------------------------------------------------------------------------------

    async def _read_file(self, params: dict[str, Any]) -> dict[str, Any]:
        path = self._files.resolve(_get_path(params))
        start = _get_number(params.get("line"))
        limit = _get_number(params.get("limit"))
        params.clear()
        await self._queue.ask("read_file", {"path": path})
        text = await self._files.read_text(path)
        self._add_served(path)
        if start is not None or limit is not None:
            lines = text.splitlines(keepends=True)
            first = max((start or 1) - 1, 0)
            last = len(lines) if limit is None else first + limit
            text = "".join(lines[first:last])
        return {"content": text}

    async def _write_file(self, params: dict[str, Any]) -> None:
        path = self._files.resolve(_get_path(params))
        content = params.get("content")
        if not isinstance(content, str):
            raise RpcError(INVALID_PARAMS, "The request has no content.")
        params.clear()
        if self._written_text + len(content) > MAX_WRITTEN_TEXT:
            raise RpcError(REFUSED, "Too much text waits to be written.")
        self._written_text += len(content)
        try:
            await self._write_text(path, content)
        finally:
            self._written_text -= len(content)

    async def _write_text(self, path: str, content: str) -> None:
        # A guest may have read the file itself. What hilum served it must not have changed since,
        # which the tool checks: it refuses to replace a content that the agent has not read.
        if path not in self._served and await trio.Path(path).exists():
            await self._queue.ask("read_file", {"path": path})
        is_approved = False
        if self._announced.has(path):
            exists = await trio.Path(path).exists()
            before = await self._files.read_text(path) if exists else ""
            is_approved = self._announced.take(path, before, content)
        arguments = {"path": path, "content": content}
        await self._queue.ask("write_file", arguments, is_approved=is_approved)
        self._add_served(path)

    def _add_served(self, path: str) -> None:
        if len(self._served) < MAX_SERVED:
            self._served.add(path)


def _get_path(params: Mapping[str, Any]) -> str:
    path = params.get("path")
    if not isinstance(path, str) or not os.path.isabs(path):
        raise RpcError(INVALID_PARAMS, "The request has no absolute path.")
    return os.path.normpath(path)


def _get_number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
