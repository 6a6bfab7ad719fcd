"""The tool ``glob_search``: finds files by name."""

from __future__ import annotations

import os
from pathlib import Path

import trio
from hilum import Call, Output, ToolError, errors, tool

from hilum_search.ripgrep import list_files
from hilum_search.settings import SearchSettings
from hilum_search.targets import SearchTarget, resolve_target, show

MAX_PROGRESS_PATHS = 5
"""Maximum number of paths to show from each chunk while the search runs."""


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
    target = await trio.to_thread.run_sync(
        lambda: resolve_target(
            call.workspace, path, pattern, include_ignored=include_ignored, max_size=0
        ),
        abandon_on_cancel=True,
    )
    with trio.move_on_after(settings.timeout) as scope:
        found = await _find(call, target)
        ordered = await trio.to_thread.run_sync(
            _newest_first, target.scope.root, found, abandon_on_cancel=True
        )
    if scope.cancelled_caught:
        raise ToolError(
            f"The search took longer than {settings.timeout:g} s.",
            code=errors.E_TIMEOUT,
            hint="Search a smaller folder.",
        )
    shown = [show(path) for path in ordered[: settings.path_limit]]
    data = {"count": len(found), "paths": shown}
    if not found:
        return Output(_nothing_found(target, pattern), data=data)
    text = "\n".join(shown)
    if len(shown) < len(found):
        text += (
            f"\n[The {len(shown)} most recent of {len(found):,} files are shown; to see the others,"
            " narrow glob or path.]"
        )
    return Output(text, data=data)


async def _find(call: Call, target: SearchTarget) -> list[str]:
    found: list[str] = []

    def take(paths: list[bytes]) -> bool:
        decoded = [os.fsdecode(path) for path in paths if path]
        wanted = [path for path in decoded if target.wanted(path)]
        found.extend(wanted)
        if wanted:
            names = map(show, wanted[:MAX_PROGRESS_PATHS])
            call.emit("".join(f"{name}\n" for name in names))
        return False

    await list_files(call.processes, target.scope, take)
    return found


def _nothing_found(target: SearchTarget, pattern: str) -> str:
    ignored = ""
    if not target.scope.include_ignored:
        ignored = " Ignored files were left out (include_ignored)."
    return (
        f"No file of {target.name} matches {pattern!r}.{ignored} For a name in any folder: **/NAME."
    )


def _newest_first(root: Path, paths: list[str]) -> list[str]:
    # Resolving a path relative to a descriptor is faster than joining it to the root.
    folder = os.open(root, os.O_RDONLY)

    def age(path: str) -> tuple[int, str]:
        try:
            return -os.stat(path, dir_fd=folder, follow_symlinks=False).st_mtime_ns, path
        except OSError:  # the file has just been removed
            return 0, path

    try:
        return sorted(paths, key=age)
    finally:
        os.close(folder)
