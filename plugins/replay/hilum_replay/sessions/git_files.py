"""Asks git which files of a workspace are not ignored, and what they contained before."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hilum import open_temporary_folder

IGNORE_FILE = ".gitignore"


class GitFiles:
    """The files of a workspace as git sees them, also outside of a repository. Its methods block.

    Args:
        root: The workspace.
        at: Unix time of the beginning of the session.
    """

    def __init__(self, root: Path, at: float) -> None:
        self._root = root
        self._at = at
        self._listed: set[str] | None = None
        self._has_listed = False

    def read(self, path: str) -> bytes | None:
        """Return the content of a file in the last commit before the session."""
        commit = self._run("rev-list", "-1", f"--before={int(self._at)}", "HEAD")
        if not commit:
            return None
        return self._run("show", f"{commit.decode().strip()}:./{path}")

    def list_files(self) -> set[str] | None:
        """Return the files that ignore files do not exclude; ``None`` if git cannot list them."""
        if not self._has_listed:
            self._has_listed = True
            names = self._list("")
            self._listed = None if names is None else set(names)
        return self._listed

    def _list(self, folder: str) -> list[str] | None:
        """Return the files in a folder that is a repository, or in the workspace."""
        options = ("ls-files", "-z", "--others", "--exclude-standard")
        listed = self._run(*options, "--cached", folder=folder)
        if listed is None:
            # Outside of a repository, an empty one makes git read the same ignore files.
            with open_temporary_folder("git") as made:
                empty = str(made / "empty")
                if self._run("init", "--bare", "--quiet", "--template=", empty) is None:
                    return None
                place = str(self._root / folder)
                listed = self._run(f"--git-dir={empty}", f"--work-tree={place}", *options)
            if listed is None:
                return None
        names = (os.fsdecode(name) for name in listed.split(b"\0") if name)
        return list(self._list_nested(folder, names))

    def _list_nested(self, folder: str, names: Iterator[str]) -> Iterator[str]:
        """Yield files; of a repository in the folder, which git lists as one name, its files."""
        for name in names:
            path = os.path.join(folder, name.rstrip("/"))
            place = self._root / path
            if not place.is_symlink() and os.path.lexists(place / ".git"):
                yield from self._list(path) or ()
            else:
                yield path

    def _run(self, *arguments: str, folder: str = "") -> bytes | None:
        place = str(self._root / folder)
        command = ["git", "-C", place, "-c", "core.fsmonitor=false", *arguments]
        # A configuration of the project must not make git fetch missing objects with a program.
        environ = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_SSH_COMMAND": "false"}
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=30, check=False, env=environ
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None
