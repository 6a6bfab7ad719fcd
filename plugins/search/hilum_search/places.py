"""What a search's ``path`` and ``glob`` mean: checked, and made into the files an engine is asked
for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hilum import ToolError, Workspace, errors

from hilum_search.engine.globs import fixed_folders, last_name, matcher, split_list
from hilum_search.engine.ignoring import in_repository
from hilum_search.running import Scope


def show(name: str) -> str:
    """Write a file name so that it stays on one line and can be encoded: odd characters become
    escapes.
    """
    return name if name.isprintable() else repr(name)


class Aim(NamedTuple):
    """Where to search.

    Args:
        scope: What an engine is asked for.
        wanted: Whether a file of this path, relative to the workspace, is meant.
        filters: Whether ``wanted`` may refuse what the scope has.
    """

    scope: Scope
    wanted: Callable[[str], bool]
    filters: bool

    @property
    def name(self) -> str:
        """The folder or file searched, as it is shown."""
        if self.scope.base == ".":
            return "the workspace"
        return show(self.scope.base)


def aim(workspace: Workspace, path: str, glob: str, *, ignored: bool, max_size: int) -> Aim:
    """Check a path and a glob, and say which files they mean. Blocks.

    Args:
        workspace: Where.
        path: Folder or file; relative to the workspace, or absolute.
        glob: One or more globs, divided by commas; relative to the path. Empty for all files.
        ignored: Whether files that ignore files name are wanted too.
        max_size: Bytes of a file above which it is not searched.

    Raises:
        ToolError: ``E_PATH_TRAVERSAL``, ``E_FILE_NOT_FOUND`` with near names, or ``E_BAD_ARGS``.
    """
    base = _existing(workspace, path or ".")
    globs = [_relative(workspace, base, one) for one in split_list(glob)]
    try:
        accepts = matcher(globs) if globs else None
    except ValueError as error:
        hint = "Use *, ?, **, {a,b} and [abc], for example src/**/*.{ts,tsx}."
        raise ToolError(
            f"{glob!r} is not a glob: {error}.", code=errors.E_BAD_ARGS, hint=hint
        ) from None
    start = base if base.is_dir() else base.parent
    if (
        len(globs) == 1
        and (below := fixed_folders(globs[0]).strip("/"))
        and not globs[0].startswith("!")
    ):
        inner = start / below
        if base.is_dir() and inner.is_dir():  # ignored or not: who names a folder means it
            base = workspace.resolve(inner) if not inner.is_symlink() else base
    prefix = "" if start == workspace.root else f"{workspace.relative(start)}/"
    names = {last_name(one) for one in globs if not one.startswith("!")}
    plain = base.is_dir() and "" not in names
    scope = Scope(
        workspace.root,
        workspace.relative(base),
        tuple(sorted(names)) if plain else (),
        ignored,
        in_repository(str(base if base.is_dir() else start)),
        max_size if base.is_dir() else 0,
    )
    filters = bool(globs) and not (plain and all("/" not in one and one[0] != "!" for one in globs))
    wanted = (lambda found: accepts(found[len(prefix) :])) if accepts else (lambda _: True)
    return Aim(scope, wanted, filters)


def _existing(workspace: Workspace, path: str) -> Path:
    try:
        return workspace.resolve(path, must_exist=True)
    except ToolError as error:
        if error.code == errors.E_FILE_NOT_FOUND and (found := _near(workspace, path)):
            error.hint = f"Did you mean {' or '.join(map(repr, found))}?"
        raise


def _near(workspace: Workspace, path: str) -> list[str]:
    """Give up to three existing paths like a missing one: those of its nearest folder that is
    there, first.
    """
    from difflib import get_close_matches  # 2 ms, only where something is missing

    missing = workspace.resolve(path)
    folder = missing.parent
    while not folder.is_dir():
        missing = folder
        folder = folder.parent
    with os.scandir(folder) as scan:
        names = [entry.name for entry, _ in zip(scan, range(5000), strict=False)]
    close = get_close_matches(missing.name, names, n=3) or [
        n for n in names if n.lower() == missing.name.lower()
    ]
    return [show(workspace.relative(folder / name)) for name in close]


def _relative(workspace: Workspace, start: Path, glob: str) -> str:
    """Create a glob relative to the folder searched; refuse one that leads out of the workspace."""
    mark = "!" if glob.startswith("!") else ""
    glob = glob.removeprefix("!").removeprefix("./")
    if ".." in glob.split("/"):
        raise ToolError(
            f"The glob {glob!r} goes up with '..'.",
            code=errors.E_PATH_TRAVERSAL,
            hint="Name the folder in path instead.",
        )
    fixed = fixed_folders(glob)
    if glob.startswith(("/", "~/")) or os.path.isabs(fixed):
        real = workspace.resolve(f"{fixed}/")
        inside = start if start.is_dir() else start.parent
        below = real.relative_to(inside).as_posix() if real.is_relative_to(inside) else ""
        if not below:
            hint = "Give a glob relative to path."
            raise ToolError(
                f"The glob {glob!r} is not below the path searched.",
                code=errors.E_BAD_ARGS,
                hint=hint,
            )
        rest = glob[len(fixed) :].lstrip("/")
        glob = rest if below == "." else f"{below}/{rest}"
        if "/" not in glob:
            glob = f"/{glob}"  # here and not further down
    elif fixed and not mark:
        workspace.resolve(start / fixed)  # a link on the way must not lead out
        prefix = f"{workspace.relative(start)}/"
        if glob.startswith(prefix) and start.is_dir() and not (start / fixed).is_dir():
            glob = glob.removeprefix(prefix)  # relative to the workspace, which is clear enough
    if glob.endswith("/"):
        glob += "**"
    return mark + glob
