"""Files below a folder, whose paths come from a recording that somebody else may have written."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hilum import Place, ToolError, Workspace
from hilum.errors import E_FAILED, E_PATH_TRAVERSAL

# Linux limits names to 255 bytes, and paths to 4,096 bytes with the folder.
_MAX_NAME = 255
_MAX_PATH = 3_000
# Linux follows 40 links in one path.
_MAX_FOLLOWED = 40
_PERMISSIONS = 0o777
_NEW_FILE = (
    os.O_WRONLY
    | os.O_CREAT
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


class ContainedFiles:
    """Access to the files below a folder. No link in a path is followed. All methods block.

    Every method raises ``ToolError`` if a path leads out of the folder or through a link, and if
    the system rejects the operation.

    Args:
        root: The folder, which must exist.
    """

    def __init__(self, root: Path) -> None:
        self._workspace = Workspace(root.absolute())

    def read(self, path: str, limit: int) -> bytes:
        """Read a regular file of at most ``limit`` bytes."""
        with self._at(path) as place:
            status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                raise ToolError(f"{path!r} is not a regular file.", code=E_FAILED)
            with place.open() as file:
                data = file.read(limit + 1)
        if len(data) > limit:
            raise ToolError(f"{path!r} has more than {limit:,} bytes.", code=E_FAILED)
        return data

    def write(
        self, path: str, data: bytes, *, mode: int | None = None, changed: float | None = None
    ) -> None:
        """Write a file, and create the folders above it.

        Args:
            path: Path of the file.
            data: Its content.
            mode: Its permissions; all other bits are ignored. By default, they stay as they are.
            changed: Unix time of its last change.
        """
        with self._at(path, make=True) as place:
            _remove_hard_link(place)
            with open(os.open(place.name, _NEW_FILE, 0o666, dir_fd=place.folder), "wb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ToolError(f"{path!r} is not a regular file.", code=E_FAILED)
                file.truncate()
                file.write(data)
                file.flush()
                # The open file is changed, not whatever has its path by now.
                target = file.fileno() if os.utime in os.supports_fd else place.path
                if mode is not None:
                    os.chmod(target, mode & _PERMISSIONS)
                if changed is not None:
                    os.utime(target, (changed, changed))

    def make_folder(self, path: str) -> None:
        """Create a folder, and those above it."""
        with self._at(path, make=True) as place:
            with suppress(FileExistsError):
                os.mkdir(place.name, dir_fd=place.folder)
            status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                raise ToolError(f"{path!r} is not a folder.", code=E_FAILED)

    def make_links(self, links: Mapping[str, str]) -> None:
        """Create links, and the folders above them.

        If a link leads out of the folder, also through another one, all are removed again.

        Args:
            links: The targets of the links, by path.
        """
        for path in links:
            problem = find_link_problem(path, links)
            if problem:
                raise ToolError(f"The path {path!r} {problem}.", code=E_PATH_TRAVERSAL)
        made = []
        try:
            for path, target in links.items():
                with self._at(path, make=True) as place:
                    os.symlink(target, place.name, dir_fd=place.folder)
                made.append(path)
            # Each link may change where the earlier ones lead, and other links may be there already.
            for path in made:
                self._check_link(path)
        except ToolError:
            for path in made:
                with suppress(ToolError), self._at(path) as place:
                    os.unlink(place.name, dir_fd=place.folder)
            raise

    def _check_link(self, path: str) -> None:
        try:
            self._workspace.resolve(self._workspace.root / path)
        except ToolError as error:
            # Other errors come from loops of links, which lead nowhere.
            if error.code == E_PATH_TRAVERSAL:
                raise

    def remove(self, path: str) -> None:
        """Remove a file or an empty folder, if it exists. Links are kept."""
        with self._at(path) as place:
            status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                os.rmdir(place.name, dir_fd=place.folder)
            elif not stat.S_ISLNK(status.st_mode):
                os.unlink(place.name, dir_fd=place.folder)

    @contextmanager
    def _at(self, path: str, *, make: bool = False) -> Iterator[Place]:
        problem = find_path_problem(path)
        if problem:
            raise ToolError(f"The path {path!r} {problem}.", code=E_PATH_TRAVERSAL)
        # An absolute path is passed, because `~/` at the beginning would mean the home folder.
        plain = self._workspace.root / path
        with self._workspace.at(plain, make=make, follow=False) as place:
            # The workspace allows links that stay inside. Through them, a recording could change a
            # file that it does not name.
            if place.path != plain:
                raise ToolError(f"The path {path!r} leads through a link.", code=E_PATH_TRAVERSAL)
            yield place


def _remove_hard_link(place: Place) -> None:
    """Remove a file that has another path as well, which must not be changed."""
    with suppress(FileNotFoundError):
        status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            os.unlink(place.name, dir_fd=place.folder)


def find_path_problem(path: str) -> str:
    """Return why a path cannot be one below a folder, as the end of "The path …"; empty if it can.

    The path must be as hilum writes it: relative, with ``/``, and without ``.`` and ``..``.
    """
    plain = Path(path)
    if plain.is_absolute() or plain.drive or plain.root or ".." in plain.parts:
        return "leads out of the workspace"
    if not path or "\0" in path or plain.as_posix() != path or path == ".":
        return "is not the path of a file"
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    longest = max(len(name.encode()) for name in plain.parts)
    if size > _MAX_PATH or longest > _MAX_NAME:
        return "is too long"
    return ""


def find_link_problem(path: str, links: Mapping[str, str]) -> str:
    """Return why a link cannot be one of a workspace, as the end of "The path …"; empty if it can.

    Args:
        path: Path of the link.
        links: The targets of all links, by path.
    """
    target = links[path]
    if not target or "\0" in target or len(target) > _MAX_PATH:
        return "is a link without a valid target"
    if Path(target).is_absolute() or Path(target).drive or _leads_out(path, links):
        return "leads out of the workspace"
    return ""


def _leads_out(path: str, links: Mapping[str, str]) -> bool:
    """Return whether a link leads out of the workspace, possibly through other links."""
    pending = path.split("/")[::-1]
    real: list[str] = []
    followed = 0
    while pending:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            if not real:
                return True
            real.pop()
            continue
        real.append(name)
        target = links.get("/".join(real))
        if target is not None:
            followed += 1
            if followed > _MAX_FOLLOWED:
                return False  # a loop, or a chain that the system does not follow either
            real.pop()
            pending += target.split("/")[::-1]
    return False


def find_link_above(path: str, links: Mapping[str, str]) -> str:
    """Return the first link through which a path leads; empty if there is none."""
    for number in range(path.count("/")):
        above = "/".join(path.split("/")[: number + 1])
        if above in links:
            return above
    return ""
