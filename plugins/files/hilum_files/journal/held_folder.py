"""Opens the folders of many paths one after the other, without following links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hilum import Place, ToolError, Workspace, errors

from hilum_files.text import show

# Linux alone has O_PATH, which needs no permission to list the folder.
_STEP = (
    getattr(os, "O_PATH", 0)
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


class HeldFolder:
    """Opens the folders of planned paths, each from the one before if that is possible.

    A program that the agent started may have created a link in the path after the plan was made.
    Therefore, no links are followed, not even within the workspace. To open each folder from the
    root would take quadratic time for folders that are nested a thousand times.

    Args:
        workspace: The workspace.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._descriptor: int | None = None
        # The names of the folders below the root that lead to the held one.
        self._parts: list[str] = []

    def close(self) -> None:
        """Close the held folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @contextmanager
    def open(self, name: str, *, make: bool = False) -> Iterator[Place]:
        """Hold the folder of a path open for the duration of the ``with`` block.

        Args:
            name: The path.
            make: Whether to create missing folders.

        Raises:
            PathError: The folder does not exist or cannot be opened.
            ToolError: ``E_STALE`` if a link leads to the folder.
        """
        path = self._workspace.root / name
        if self._move(name):
            try:
                yield Place(self._descriptor, os.path.basename(name), path)
            except OSError as error:
                error.filename = name
                raise
            return
        self.close()
        with self._workspace.at(path, make=make, follow=False) as place:
            if place.path != path:
                raise ToolError(
                    f"A parent folder of {show(name)} is now a link.", code=errors.E_STALE
                )
            if place.folder is not None and not os.path.isabs(name):
                self._descriptor = os.dup(place.folder)
                self._parts = name.split("/")[:-1]
            yield place

    def _move(self, name: str) -> bool:
        """Hold the folder of a path instead; return whether it is certain that no link leads there."""
        if self._descriptor is None or os.path.isabs(name):
            return False
        parts = name.split("/")[:-1]
        common = 0
        for part, held_part in zip(parts, self._parts, strict=False):
            if part != held_part:
                break
            common += 1
        try:
            for part in ("..",) * (len(self._parts) - common) + tuple(parts[common:]):
                above = self._descriptor
                self._descriptor = os.open(part, _STEP, dir_fd=above)
                os.close(above)
            self._parts = parts
            # Linux tells where an open folder is now, without links; other systems do not.
            found = os.readlink(f"/proc/self/fd/{self._descriptor}")
        except OSError:
            return False
        return found == "/".join((str(self._workspace.root).rstrip("/"), *parts))
