"""Finds files that match a few typed characters, for faces."""

from __future__ import annotations

import os
import re
from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

import trio
from hilum import ToolError

from hilum_search.ripgrep import list_files, workspace_scope

if TYPE_CHECKING:
    from hilum import Session

SLICE_PATHS = 1000
"""Number of paths to rank before other tasks get to run."""
MAX_AGE_SECONDS = 2.0
"""Seconds after which a list of paths is refreshed."""


class IndexedPath(NamedTuple):
    """A path in lower case, and the original path."""

    lower: str
    path: str


class PathIndex:
    """The paths in a session's workspace, listed on the first query and refreshed when outdated.

    Args:
        session: The session.
        nursery: The nursery for the task that creates a new list while the old list is in use.
    """

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self._session = session
        self._nursery = nursery
        self._paths: list[IndexedPath] = []
        # Earlier than any time on trio's clock, which may start at 0 in tests.
        self._listed = -1e9
        self._lock = trio.Lock()

    async def find(self, query: str, limit: int) -> list[str]:
        """Return the best paths for a query, as ``find_paths`` does."""
        if not self._paths:
            await self._list()
        # While the user types, the old list is used immediately, and the new one after the next key
        # press.
        elif trio.current_time() - self._listed > MAX_AGE_SECONDS and not self._lock.locked():
            self._nursery.start_soon(self._refresh)
        return await _best_paths(self._paths, query.lower().strip(), limit)

    async def _refresh(self) -> None:
        try:
            await self._list()
        except ToolError:  # keep using the old list
            self._listed = trio.current_time()

    async def _list(self) -> None:
        async with self._lock:
            # Another task may have listed the paths while this one was waiting for the lock.
            if trio.current_time() - self._listed <= MAX_AGE_SECONDS:
                return
            listed: list[IndexedPath] = []

            def take(paths: list[bytes]) -> bool:
                for path in map(os.fsdecode, filter(None, paths)):
                    # The path is converted to lower case once per list instead of once per key
                    # press.
                    listed.append(IndexedPath(path.lower(), path))
                return False

            root = self._session.workspace.root
            scope = await trio.to_thread.run_sync(workspace_scope, root)
            await list_files(self._session.processes, scope, take)
            self._paths = listed
            self._listed = trio.current_time()


async def find_paths(session: Session, query: str, limit: int = 20) -> list[str]:
    """Find files that match a few typed characters, as after ``@`` in a prompt.

    Args:
        session: The session, whose workspace is searched for files that are not ignored.
        query: Characters that the path contains in this order; case is ignored. An empty query
            returns the files nearest to the root.
        limit: Maximum number of paths.

    Returns:
        Paths relative to the workspace, best first: those whose name begins with the query, whose
        name contains it, whose path contains it, and whose path contains its characters with others
        in between. Among equals, shorter paths come first. New files may appear only after some
        seconds.

    Raises:
        ToolError: The files cannot be listed, or the plugin is off in this session.
    """
    index = session.plugin(PathIndex)
    if index is None:
        raise ToolError(
            "The plugin `search` is off in this session.",
            hint="Switch it on to find files by name.",
        )
    return await index.find(query, limit)


async def _best_paths(paths: list[IndexedPath], query: str, limit: int) -> list[str]:
    # Each character matches at its first occurrence, so the pattern never backtracks.
    escaped = map(re.escape, query)
    scattered = re.compile("".join(f"[^{char}]*{char}" for char in escaped))
    best: list[tuple[int, int, str]] = []
    for start in range(0, len(paths), SLICE_PATHS):
        for indexed in paths[start : start + SLICE_PATHS]:
            rank = _rank(indexed, query, scattered)
            if rank is not None:
                best.append(rank)
        best = nsmallest(limit, best)
        # Ranking 100,000 paths takes longer than the time between two key presses.
        await trio.lowlevel.checkpoint()
    return [path for _, _, path in best]


def _rank(
    indexed: IndexedPath, query: str, scattered: re.Pattern[str]
) -> tuple[int, int, str] | None:
    """Return the sort key of a path, or ``None`` if the path does not match."""
    lower, path = indexed
    if not query:
        return lower.count("/"), len(lower), path
    if query in lower:
        return _rate(lower.rpartition("/")[2], query), len(lower), path
    found = scattered.match(lower)
    if found is None:
        return None
    spread = found.end() - lower.index(query[0])
    return 3, spread + len(lower), path


def _rate(name: str, query: str) -> int:
    """Return how well a name matches a query that occurs in its path; lower is better."""
    if name.startswith(query):
        return 0
    return 1 if query in name else 2
