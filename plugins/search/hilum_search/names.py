"""``glob_search``, and the finder of paths for faces: what files are called."""

from __future__ import annotations

import os
import re
from heapq import nsmallest
from typing import TYPE_CHECKING

import trio
from hilum import Call, Output, ToolError, errors, tool

from hilum_search.content import SearchSettings
from hilum_search.engine.ignoring import in_repository
from hilum_search.places import aim, show
from hilum_search.running import Scope, list_files

if TYPE_CHECKING:
    from hilum import Session

SLICE = 1000
"""Paths looked at before everything else has its turn."""
FRESH = 2.0
"""Seconds for which a list of paths is used without making a new one."""


@tool(risk="read", effect="pure", reads="path")
async def glob_search(
    call: Call, pattern: str, path: str = ".", include_ignored: bool = False
) -> Output:
    """Find files by name, most recently changed first.

    Args:
        pattern: Glob: *.py (anywhere), src/**/*.ts, **/test_*.{js,ts}.
        path: Folder that the glob is relative to.
        include_ignored: Also find what .gitignore excludes.
    """
    settings = call.session.settings(SearchSettings)
    if not pattern.strip():
        raise ToolError(
            "The glob is empty.", code=errors.E_BAD_ARGS, hint="Use **/* for all files."
        )
    rg = settings.rg()
    place = await trio.to_thread.run_sync(
        lambda: aim(call.workspace, path, pattern, ignored=include_ignored, max_size=0),
        abandon_on_cancel=True,
    )
    found: list[str] = []
    looked = 0

    def take(paths: list[bytes]) -> bool:
        nonlocal looked
        new = [os.fsdecode(path) for path in paths if path]
        looked += len(new)
        wanted = list(filter(place.wanted, new))
        found.extend(wanted)
        if wanted:
            call.emit("".join(f"{show(path)}\n" for path in wanted[:5]))
        return False

    with trio.move_on_after(settings.timeout) as scope:
        await list_files(call.processes, rg, place.scope, take)
        ordered = await trio.to_thread.run_sync(
            _newest_first, place.scope.root, found, abandon_on_cancel=True
        )
    if scope.cancelled_caught:
        raise ToolError(
            f"The search took longer than {settings.timeout:g} s.",
            code=errors.E_TIMEOUT,
            hint="Look in a smaller folder.",
        )
    shown = ordered[: settings.path_limit]
    data = {"count": len(found), "paths": [show(path) for path in shown]}
    if not found:
        if include_ignored:
            hidden = ""
        else:
            hidden = " What ignore files name was left out (include_ignored)."
        return Output(
            f"No file of {place.name} matches {pattern!r}.{hidden} A name anywhere: **/NAME.",
            data=data,
        )
    text = "\n".join(map(show, shown))
    if len(shown) < len(found):
        text += (
            f"\n[The {len(shown)} changed last of {len(found):,} files are shown; narrow the glob"
            " or path for others.]"
        )
    return Output(text, data=data)


def _newest_first(root: os.PathLike[str], paths: list[str]) -> list[str]:
    folder = os.open(root, os.O_RDONLY) if os.stat in os.supports_dir_fd else None

    def age(path: str) -> tuple[int, str]:
        try:
            return (
                -os.stat(
                    path if folder is not None else os.path.join(root, path),
                    dir_fd=folder,
                    follow_symlinks=False,
                ).st_mtime_ns,
                path,
            )
        except OSError:  # it has just gone
            return 0, path

    try:
        return sorted(paths, key=age)
    finally:
        if folder is not None:
            os.close(folder)


class Paths:
    """A session's half: the paths of its workspace, listed when first asked for and again when the
    list is old.

    Args:
        session: Whose workspace.
        nursery: Where a new list is made while the old one still serves.
    """

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self._session = session
        self._nursery = nursery
        self._paths: list[tuple[str, str]] = []  # in lower case, and as they are
        self._listed = -1e9
        self._lock = trio.Lock()

    async def find(self, query: str, limit: int) -> list[str]:
        """Return the best paths for a query, as ``find_paths`` does."""
        if not self._paths:
            await self._list()
        elif trio.current_time() - self._listed > FRESH and not self._lock.locked():
            self._nursery.start_soon(self._refresh)
        return await _best(self._paths, query.lower().strip(), limit)

    async def _refresh(self) -> None:
        try:
            await self._list()
        except ToolError:  # the old list goes on
            self._listed = trio.current_time()

    async def _list(self) -> None:
        async with self._lock:
            if trio.current_time() - self._listed <= FRESH:
                return
            new: list[tuple[str, str]] = []

            def take(paths: list[bytes]) -> bool:
                new.extend((path.lower(), path) for path in map(os.fsdecode, filter(None, paths)))
                return False

            root = self._session.workspace.root
            repository = await trio.to_thread.run_sync(in_repository, str(root))
            rg = self._session.settings(SearchSettings).rg()
            await list_files(self._session.processes, rg, Scope(root, repository=repository), take)
            self._paths = new
            self._listed = trio.current_time()


async def find_paths(session: Session, query: str, limit: int = 20) -> list[str]:
    """Find files for a few characters that somebody types, as after ``@`` in a prompt.

    Args:
        session: Whose workspace. Ignore files hold, as for the tools.
        query: Characters of the path, in their order; case does not count. Empty for the files
            nearest to the top.
        limit: Most paths to give.

    Returns:
        Paths relative to the workspace, best first: the name begins with the query, has it, the
        path has it, the path has its characters with others between; of equals, the shorter path.
        New files are found after some seconds.

    Raises:
        ToolError: The files cannot be listed, or the plugin is off in this session.
    """
    half = session.half(Paths)
    if half is None:
        raise ToolError(
            "The plugin search is off in this session.", hint="Switch it on to find files by name."
        )
    return await half.find(query, limit)


async def _best(paths: list[tuple[str, str]], query: str, limit: int) -> list[str]:
    # Up to each next character whatever is not it: there is one way only to match, so nothing to
    # try again.
    scattered = re.compile("".join(f"[^{char}]*{char}" for char in map(re.escape, query))).match
    ranked: list[tuple[int, int, str]] = []
    for at in range(0, len(paths), SLICE):
        for low, path in paths[at : at + SLICE]:
            if query in low:
                name = low.rpartition("/")[2]
                rank = 0 if name.startswith(query) else 1 if query in name else 2
                ranked.append((rank if query else low.count("/"), len(low), path))
            elif found := scattered(low):
                ranked.append((3, found.end() - low.index(query[0]) + len(low), path))
        ranked = nsmallest(limit, ranked)
        await trio.lowlevel.checkpoint()
    return [path for _, _, path in ranked]
