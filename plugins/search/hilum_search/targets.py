"""Resolves a search's ``path`` and ``glob`` to the files that are searched."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hilum import ToolError, Workspace, errors

from hilum_search.globs import fixed_folders, last_name, make_matcher, split_list
from hilum_search.ripgrep import FileScope, is_in_repository

MAX_NAMES_COMPARED = 5000
"""Maximum number of names in a folder to compare with a missing name."""


def show(name: str) -> str:
    """Return a file name as one encodable line, with unusual characters escaped."""
    return name if name.isprintable() else repr(name)


class SearchTarget(NamedTuple):
    """The files selected for a search.

    Args:
        scope: The files that ripgrep searches.
        wanted: A function that returns whether the file at a path in the workspace belongs to the
            search.
        has_filter: Whether ``wanted`` may reject files in the scope.
    """

    scope: FileScope
    wanted: Callable[[str], bool]
    has_filter: bool

    @property
    def name(self) -> str:
        """The name of the searched folder or file, for messages."""
        if self.scope.base == ".":
            return "the workspace"
        return show(self.scope.base)


def resolve_target(
    workspace: Workspace, path: str, glob: str, *, include_ignored: bool, max_size: int
) -> SearchTarget:
    """Check a path and a glob, and return the files that they select. Blocks.

    Args:
        workspace: The workspace.
        path: Folder or file; relative to the workspace, or absolute.
        glob: Globs separated by commas, relative to the path; empty for all files.
        include_ignored: Whether to include files that ``.gitignore`` and similar files exclude.
        max_size: Maximum size, in bytes, of a file to search.

    Raises:
        ToolError: ``E_PATH_TRAVERSAL``, ``E_FILE_NOT_FOUND`` with similar names, or ``E_BAD_ARGS``.
    """
    base = _existing(workspace, path or ".")
    globs = [_relative_glob(workspace, base, one) for one in split_list(glob)]
    accepts = _parse_globs(glob, globs)
    if base.is_dir():
        folder = base
        scope = _folder_scope(workspace, base, globs, max_size)
    else:
        folder = base.parent
        scope = FileScope(workspace.root, workspace.relative(base))
    scope = scope._replace(include_ignored=include_ignored)
    if accepts is None:
        return SearchTarget(scope, lambda _: True, has_filter=False)
    prefix = "" if folder == workspace.root else f"{workspace.relative(folder)}/"
    only_names = all("/" not in one and one[0] != "!" for one in globs)
    return SearchTarget(
        scope,
        lambda found: accepts(found[len(prefix) :]),
        has_filter=not (scope.names and only_names),
    )


def _folder_scope(workspace: Workspace, base: Path, globs: list[str], max_size: int) -> FileScope:
    if len(globs) == 1:
        base = _narrow(workspace, base, globs[0])
    return FileScope(
        workspace.root,
        workspace.relative(base),
        names=_file_names(globs),
        in_repository=is_in_repository(base),
        max_size=max_size,
    )


def _parse_globs(glob: str, globs: list[str]) -> Callable[[str], bool] | None:
    if not globs:
        return None
    try:
        return make_matcher(globs)
    except ValueError as error:
        raise ToolError(
            f"{glob!r} is not a glob: {error}.",
            code=errors.E_BAD_ARGS,
            hint="Use *, ?, **, {a,b} and [abc], for example src/**/*.{ts,tsx}.",
        ) from None


def _narrow(workspace: Workspace, base: Path, glob: str) -> Path:
    """Return a glob's leading folder, even if ignored, because the call names it explicitly."""
    below = fixed_folders(glob).strip("/")
    if not below or glob.startswith("!"):
        return base
    inner = base / below
    # ripgrep follows a link that is the base of a search, but no links below the base.
    if not inner.is_dir() or inner.is_symlink():
        return base
    return workspace.resolve(inner)


def _file_names(globs: list[str]) -> tuple[str, ...]:
    """Return globs of file names for ripgrep; empty if ripgrep cannot match them all itself."""
    names = {last_name(one) for one in globs if not one.startswith("!")}
    if "" in names:
        return ()
    return tuple(sorted(names))


def _existing(workspace: Workspace, path: str) -> Path:
    try:
        return workspace.resolve(path, must_exist=True)
    except ToolError as error:
        if error.code == errors.E_FILE_NOT_FOUND:
            similar = _similar(workspace, path)
            if similar:
                error.hint = f"Did you mean {' or '.join(map(repr, similar))}?"
        raise


def _similar(workspace: Workspace, path: str) -> list[str]:
    """Return up to three paths similar to a missing one, from the nearest existing folder."""
    from difflib import get_close_matches  # the import takes 2 ms

    missing = workspace.resolve(path)
    folder = missing.parent
    while not folder.is_dir():
        missing = folder
        folder = folder.parent
    with os.scandir(folder) as scan:
        names = [entry.name for entry, _ in zip(scan, range(MAX_NAMES_COMPARED), strict=False)]
    similar = get_close_matches(missing.name, names, n=3)
    if not similar:
        # `get_close_matches` is case-sensitive.
        similar = [name for name in names if name.lower() == missing.name.lower()]
    return [show(workspace.relative(folder / name)) for name in similar]


def _relative_glob(workspace: Workspace, base: Path, glob: str) -> str:
    """Return a glob relative to the searched folder.

    Raises:
        ToolError: The glob leads out of the workspace or the folder.
    """
    mark = "!" if glob.startswith("!") else ""
    glob = glob.removeprefix("!").removeprefix("./")
    if ".." in glob.split("/"):
        raise ToolError(
            f"The glob {glob!r} contains '..'.",
            code=errors.E_PATH_TRAVERSAL,
            hint="Pass the folder as path instead.",
        )
    fixed = fixed_folders(glob)
    if glob.startswith(("/", "~/")):
        glob = _from_absolute(workspace, base, glob, fixed)
    elif fixed and not mark:
        glob = _from_workspace(workspace, base, glob, fixed)
    # A folder in a glob stands for everything in the folder.
    if glob.endswith("/"):
        glob += "**"
    return mark + glob


def _from_absolute(workspace: Workspace, base: Path, glob: str, fixed: str) -> str:
    # Like any path, an absolute glob must not lead out of the workspace.
    real = workspace.resolve(f"{fixed}/")
    folder = base if base.is_dir() else base.parent
    if not real.is_relative_to(folder):
        raise ToolError(
            f"The glob {glob!r} is not below the searched path.",
            code=errors.E_BAD_ARGS,
            hint="Use a glob relative to path.",
        )
    rest = glob[len(fixed) :].lstrip("/")
    below = real.relative_to(folder).as_posix()
    relative = rest if below == "." else f"{below}/{rest}"
    if "/" in relative:
        return relative
    return f"/{relative}"  # matches in this folder, but not in its subfolders


def _from_workspace(workspace: Workspace, base: Path, glob: str, fixed: str) -> str:
    workspace.resolve(base / fixed)  # a link in the path must not lead out of the workspace
    if not base.is_dir() or (base / fixed).is_dir():
        return glob
    # A glob relative to the workspace is also accepted, because its meaning is clear.
    return glob.removeprefix(f"{workspace.relative(base)}/")
