"""Access to files in the workspace, and to no files outside it.

Neither ``..`` nor absolute paths nor links lead out of the workspace, even if a link is swapped in
during access.

First, a path is resolved, and the result must be below a root. Then each folder in the resolved
path is opened, from the top of the file system and without following links, and the file is
accessed relative to the last folder. The accessed file is therefore the one at the resolved path.
If a link appears between check and access, even in place of a root or above it, an error is raised.
On systems without ``openat`` (Windows), only the resolved path is checked.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple
from weakref import WeakValueDictionary

import attrs
import trio

from hilum.errors import E_BAD_ARGS, ToolError, UsageError

__all__ = ["Locks", "PathError", "Place", "Workspace", "check_workspace"]

_HAS_OPENAT = os.open in os.supports_dir_fd
_FOLDER = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)
# Folders along the path must be searchable, but need not be readable.
_STEP = _FOLDER | getattr(os, "O_PATH", 0)
# Opening a pipe must not block, and a terminal must not become the process's controlling terminal.
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
# ``open`` itself refuses folders and links.
_HAVE_CONTENT = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)


def check_workspace(folder: str | os.PathLike[str]) -> None:
    """Check that a workspace, or another folder that commands may change, is not the whole system.

    In ``/``, commands could change what all other programs execute. A folder that does not exist
    passes the check.

    Raises:
        UsageError: ``"E_BAD_ARGS"``, the folder is the root of the file system.
    """
    path = Path(os.path.realpath(folder))
    # Another name of the root, for example a mount of it, is the root as well.
    with suppress(OSError):
        if path.samefile(path.anchor):
            raise UsageError(
                f"{str(path)!r} is the whole file system, which cannot be a workspace.",
                code=E_BAD_ARGS,
                hint="Choose the folder of a project: --workspace DIR.",
            )


class PathError(ToolError):
    """A path leads out of the workspace or does not exist, or the system rejected the operation.

    The error's code is ``"E_PATH_TRAVERSAL"``, ``"E_FILE_NOT_FOUND"`` or ``"E_FAILED"``.
    """


class Place(NamedTuple):
    """The location of a file: a name in a folder that is held open.

    Always use the name together with the folder: ``os.stat(place.name, dir_fd=place.folder)``.

    On systems without ``openat``, ``folder`` is ``None`` and ``name`` is the whole path. For a root
    itself, ``name`` is ``.``. ``path`` is the resolved absolute path, for messages.
    """

    folder: int | None
    name: str
    path: Path

    def open(self) -> BinaryIO:
        """Open the file to read its bytes.

        Raises ``PathError`` for pipes, sockets and devices, and ``OSError`` if opening fails.
        """
        # A device must not even be opened, because opening it may have an effect. The second check
        # below detects a file that is swapped in after this check.
        self._check(os.stat(self.name, dir_fd=self.folder, follow_symlinks=False))
        file = open(  # noqa: SIM115
            self.name,
            "rb",
            opener=lambda name, mode: os.open(name, mode | _FILE, dir_fd=self.folder),
        )
        try:
            self._check(os.fstat(file.fileno()))
        except BaseException:
            file.close()
            raise
        return file

    def _check(self, status: os.stat_result) -> None:
        if stat.S_IFMT(status.st_mode) not in _HAVE_CONTENT:
            raise PathError(
                f"{self.path.name!r} is a pipe, socket or device, not a file with content."
            )


@attrs.frozen(init=False)
class Workspace:
    """The files below a root folder and below extra roots.

    Paths may be relative to the root or absolute.

    ``~/`` stands for the home folder. A root is identified by its path. If another folder replaces
    it, that folder becomes the root; a link in its place is refused.

    Args:
        root: The root folder.
        extra: Further folders whose files may be used. Relative paths are relative to the root.

    Attributes:
        root: The root folder, as a resolved absolute path.
        roots: The root and the extra roots, as resolved absolute paths.
    """

    root: Path
    roots: tuple[Path, ...]

    def __init__(self, root: str | Path, extra: Iterable[str | Path] = ()) -> None:
        # A single string is treated as one path; iterated by character, its slash would give access
        # to the whole file system.
        given = [root, extra] if isinstance(extra, str) else [root, *extra]
        plain = [os.path.expanduser(self._text(path)) for path in given]
        roots = tuple(Path(os.path.realpath(os.path.join(plain[0], path))) for path in plain)
        self.__attrs_init__(roots[0], tuple(dict.fromkeys(roots)))

    def resolve(self, path: str | Path, *, must_exist: bool = False, follow: bool = True) -> Path:
        """Return the absolute form of a path, with links resolved.

        The result is meant only for checks and messages. To access a file, use the other methods.

        Args:
            path: The path, which may be relative to the root or absolute.
            must_exist: Whether to refuse a path that does not exist.
            follow: Whether to follow a link at the end of the path; all other links are always
                followed.

        Raises:
            PathError: ``"E_PATH_TRAVERSAL"``, the path leads out of all roots;
                ``"E_FILE_NOT_FOUND"``, it does not exist.
        """
        text = self._text(path)
        plain = self.root / (os.path.expanduser(text) if text.startswith("~/") else text)
        with self._path_errors(path):
            # A `..` at the end is always resolved, because it would lead out of the folder that is
            # checked.
            if follow or plain.name == "..":
                real = _real(plain)
            else:
                real = _real(plain.parent) / plain.name
            # /proc contains no files of a project, but exposes processes, including this process's
            # memory and keys.
            if self._root_of(real) is None or _is_below(str(real), "/proc"):
                # Where a link leads is not told: whoever reads the message may be allowed to see the
                # workspace, but nothing of what is outside.
                is_link = self._root_of(Path(os.path.normpath(plain))) is not None
                what = "leads by a link to a place" if is_link else "is"
                others = "".join(f" and {str(folder)!r}" for folder in self.roots[1:])
                raise PathError(
                    f"{text!r} {what} outside the workspace {str(self.root)!r}{others}.",
                    code="E_PATH_TRAVERSAL",
                    hint="Use a path inside the workspace.",
                )
            if must_exist:
                os.lstat(real)
        return real

    def resolve_without_link(self, path: str | Path) -> Path | None:
        """Return what ``resolve`` returns for a path that is not a link; ``None`` for a link.

        For such a path, it makes no difference whether ``resolve`` follows a link at its end, so one
        resolution serves code that needs both forms.

        Raises:
            PathError: See ``resolve``; also for a link from outside into the workspace.
        """
        real = self.resolve(path, follow=False)
        return None if os.path.islink(real) else real

    def relative(self, path: str | Path) -> str:
        """Return a path in the form in which it is shown to users and models.

        A path below the root is shown relative to the root, with forward slashes on all systems.
        """
        path = Path(path)
        if path.is_relative_to(self.root):
            path = path.relative_to(self.root)
        shown = path.as_posix()
        # A folder named "~" must not look like the home folder.
        return f"./{shown}" if shown.startswith("~/") else shown

    @contextmanager
    def at(self, path: str | Path, *, make: bool = False, follow: bool = True) -> Iterator[Place]:
        """Hold the parent folder of a path open for the block.

        Because this method blocks, it is meant for code that performs several steps in one thread.

        An ``OSError`` in the block also becomes a ``PathError``.

        Args:
            path: The path, which may be relative to the root or absolute.
            make: Whether to create missing parent folders.
            follow: Whether to follow a link at the end of the path; all other links are always
                followed.

        Raises:
            PathError: ``"E_PATH_TRAVERSAL"``, ``"E_FILE_NOT_FOUND"`` or, for example if access is
                not permitted, ``E_FAILED``.
        """
        real = self.resolve(path, follow=follow)
        root = self._root_of(real) or self.root
        *folders, name = real.relative_to(root).parts or (".",)
        with self._path_errors(path):
            if not _HAS_OPENAT:
                if make:
                    real.parent.mkdir(parents=True, exist_ok=True)
                yield Place(None, str(real), real)
                return
            with _walk((*root.parts, *folders), len(folders) if make else 0) as folder:
                yield Place(folder, name, real)

    async def read_bytes(self, path: str | Path, limit: int = 10_000_000) -> bytes:
        """Read a whole file.

        Args:
            path: The path, which may be relative to the root or absolute.
            limit: Maximum number of bytes to read; a longer file is refused.

        Raises:
            PathError: As for ``at``, or if the file is too long or not a regular file.
        """

        def read() -> bytes:
            with self.at(path) as place, place.open() as file:
                # One byte more than allowed is read, which shows whether the file is too long, even
                # if it grows meanwhile.
                return file.read(limit + 1)

        # The read may be abandoned, because a network file system may hang. An abandoned thread
        # does no harm, because it only reads.
        data = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
        if len(data) > limit:
            raise PathError(
                f"{str(path)!r} has more than {limit:,} bytes.", hint="Read a part of the file."
            )
        return data

    async def read_text(self, path: str | Path) -> str:
        """Read a whole file of UTF-8 text, without byte order mark and with unchanged newlines.

        Raises the same errors as ``read_bytes``.
        """
        data = await self.read_bytes(path)
        # Like git, hilum recognizes a binary file by a NUL near its beginning.
        if b"\0" in data[:8192]:
            raise PathError(
                f"{str(path)!r} is a binary file of {len(data):,} bytes.",
                hint="A binary file has no text to read.",
            )
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise PathError(
                f"{str(path)!r} is not UTF-8 text (byte {error.start:,}).", hint="Convert it."
            ) from None

    def _root_of(self, real: Path) -> Path | None:
        text = str(real)
        for root in self.roots:
            if _is_below(text, str(root)):
                return root
        return None

    def _text(self, path: str | Path) -> str:
        text = str(path)
        # On Linux, PATH_MAX is 4,096. For system calls, a path ends at a NUL.
        if "\0" in text or len(text) > 4096:
            raise PathError(
                f"{text[:100]!r} is not a path.",
                code="E_PATH_TRAVERSAL",
                hint="Pass an ordinary path.",
            )
        return text

    @contextmanager
    def _path_errors(self, path: str | Path) -> Iterator[None]:
        """Convert operating system errors in the block into ``PathError``."""
        try:
            yield
        except FileNotFoundError:
            hint = "List the folder, or search for the name."
            message = f"There is no {str(path)!r} in the workspace."
            raise PathError(message, code="E_FILE_NOT_FOUND", hint=hint) from None
        except OSError as error:
            raise PathError(f"{str(path)!r} cannot be used: {error.strerror or error}.") from None


class Locks:
    """Locks on files, so that tasks that change the same file run one after another.

    Two names for the same file share a lock.

    Args:
        workspace: The workspace that contains the files.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        # The references are weak, so that a lock disappears when no call uses it any more.
        self._held: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()

    def of(self, paths: Iterable[object]) -> list[trio.Lock]:
        """Return the locks for files, each lock once.

        Tasks that acquire the locks in the returned order cannot deadlock.
        """
        # The names are sorted, so that two calls that lock the same files cannot wait for each
        # other.
        names = sorted({self._name(str(path)) for path in paths})
        return [self._held.setdefault(name, trio.Lock()) for name in names]

    def _name(self, path: str) -> str:
        try:
            return str(self._workspace.resolve(path))
        except PathError:  # the code that uses the path will get the error
            return path


def _is_below(path: str, folder: str) -> bool:
    """Return whether a normalized absolute path is a folder or inside it.

    Paths are compared as texts: ``is_relative_to`` takes ten times as long, and each call of a tool
    checks several paths.
    """
    path = os.path.normcase(path)
    folder = os.path.normcase(folder)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _real(path: Path) -> Path:
    """Follow all links in a path; from the first missing name on, the path stays as written."""
    try:
        return Path(os.path.realpath(path, strict=True))
    except (FileNotFoundError, NotADirectoryError):
        real = os.path.realpath(path)
        # At a loop of links, the resolution ends, and the remaining links could lead anywhere.
        if os.path.realpath(real) != real:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        return Path(real)


@contextmanager
def _walk(folders: tuple[str, ...], made: int) -> Iterator[int]:
    """Open the folder at the end of a list of names, the first of which is an absolute path.

    If the last ``made`` folders are missing, they are created.
    """
    held = os.open(folders[0], _STEP if folders[1:] else _FOLDER)
    try:
        for number, folder in enumerate(folders[1:], 2):
            if number > len(folders) - made:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=held)
            above = held
            # O_NOFOLLOW: a link that was inserted after the check causes an error.
            held = os.open(folder, _STEP if number < len(folders) else _FOLDER, dir_fd=held)
            os.close(above)
        yield held
    finally:
        os.close(held)
