"""Folders outside of which no file is reached: by ``..``, absolute paths, links, or links swapped
in.

A path is resolved first, and what it resolves to must be below a root. Then it is walked name by
name from the top of the file system, following no link at all, and used in the folder that the walk
holds open. So what is used stands where the resolved path says; a link that appears between check
and use, also in place of a root or above it, is an error and never a way out. Systems without
``openat`` (Windows) have the check only.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, ClassVar, NamedTuple
from weakref import WeakValueDictionary

import attrs
import trio

__all__ = ["Locks", "Place", "Workspace", "WorkspaceError"]

_HAS_OPENAT = os.open in os.supports_dir_fd
_FOLDER = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)
# A folder on the way need not be readable, only passable.
_STEP = _FOLDER | getattr(os, "O_PATH", 0)
# Opening a pipe must not wait, and a terminal must not become the process's own.
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_HAVE_CONTENT = (
    stat.S_IFREG,
    stat.S_IFDIR,
    stat.S_IFLNK,
)  # folders and links are refused by ``open`` itself


class WorkspaceError(Exception):
    """A path leads out, nothing is there, or the system refuses what is asked.

    Args:
        message: What happened, one sentence.
        code: ``"E_PATH_TRAVERSAL"``, ``"E_FILE_NOT_FOUND"``, else ``"E_FAILED"``.
        hint: What to do next, one sentence.
    """

    code: str = "E_FAILED"

    def __init__(self, message: str, *, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code or self.code

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class Place(NamedTuple):
    """Where a path leads: a name in a folder held open.

    Use both: ``os.stat(place.name, dir_fd=place.folder)``.

    ``folder`` is ``None`` on systems without ``openat``, where ``name`` is the whole path; ``name``
    is ``.`` for a root itself; ``path`` is the resolved absolute path, to show; ``error`` is what
    ``open`` raises.
    """

    folder: int | None
    name: str
    path: Path
    error: type[WorkspaceError] = WorkspaceError

    def open(self) -> BinaryIO:
        """Open the file to read its bytes.

        Raises ``WorkspaceError`` for pipes, sockets and devices, ``OSError`` else.
        """
        # A device is not even opened, which alone may do something; what is swapped in after that
        # is found afterwards.
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
            raise self.error(
                f"{self.path.name!r} is a pipe, socket or device, not a file with content."
            )


@attrs.frozen(init=False)
class Workspace:
    """The files below a root folder, and below extra roots.

    Paths may be relative to the root or absolute.

    ``~/`` is the home folder. A root is a path, not what stands there: a plain folder put in its
    place is the root from then on, a link there is refused.

    Args:
        root: The folder.
        extra: Further folders whose files may be used, by absolute paths; relative ones are
            relative to the root.

    Attributes:
        root: The folder, as a resolved absolute path.
        roots: The root and the extra ones, likewise.
        error: What is raised; a subclass may put its own here.
    """

    root: Path
    roots: tuple[Path, ...]
    error: ClassVar[type[WorkspaceError]] = WorkspaceError

    def __init__(self, root: str | Path, extra: Iterable[str | Path] = ()) -> None:
        # One text would otherwise be taken letter by letter, and its first one opens the whole file
        # system.
        if isinstance(extra, str):
            given = [root, extra]
        else:
            given = [root, *extra]
        plain = [os.path.expanduser(self._text(path)) for path in given]
        roots = tuple(Path(os.path.realpath(os.path.join(plain[0], path))) for path in plain)
        self.__attrs_init__(roots[0], tuple(dict.fromkeys(roots)))

    def resolve(self, path: str | Path, *, must_exist: bool = False, follow: bool = True) -> Path:
        """Return the absolute path that a path really means.

        To show and to judge; to use a file, take the other methods.

        Args:
            path: Relative to the root, or absolute.
            must_exist: Refuse what does not exist.
            follow: Follow a link that the path ends in; links on the way are always followed.

        Raises:
            WorkspaceError: ``"E_PATH_TRAVERSAL"`` when it leads out of all roots;
                ``"E_FILE_NOT_FOUND"``.
        """
        text = self._text(path)
        plain = self.root / (os.path.expanduser(text) if text.startswith("~/") else text)
        with self._told(path):
            if follow or plain.name == "..":
                real = _real(plain)
            else:
                real = _real(plain.parent) / plain.name
            # What /proc shows are no files of a project but processes: this one's memory and its
            # keys among them.
            if self._root_of(real) is None or real.is_relative_to("/proc"):
                others = "".join(f" and {str(folder)!r}" for folder in self.roots[1:])
                message = (
                    f"{text!r} is {str(real)!r}, outside the workspace {str(self.root)!r}{others}."
                )
                raise self.error(
                    message, code="E_PATH_TRAVERSAL", hint="Use a path inside the workspace."
                )
            if must_exist:
                os.lstat(real)
        return real

    def relative(self, path: str | Path) -> str:
        """Write a path as it is shown: relative to the root where it is below that, with forward
        slashes.
        """
        path = Path(path)
        shown = (path.relative_to(self.root) if path.is_relative_to(self.root) else path).as_posix()
        return f"./{shown}" if shown.startswith("~/") else shown

    @contextmanager
    def at(self, path: str | Path, *, make: bool = False, follow: bool = True) -> Iterator[Place]:
        """Hold open the folder that a path is in: for code that does several steps in one thread,
        as all this blocks.

        An ``OSError`` in the body becomes a ``WorkspaceError`` too.

        Args:
            path: Relative to the root, or absolute.
            make: Make missing folders on the way.
            follow: Follow a link that the path ends in; links on the way are always followed.

        Raises:
            WorkspaceError: ``"E_PATH_TRAVERSAL"``, ``"E_FILE_NOT_FOUND"`` or, for example when not
                permitted, ``E_FAILED``.
        """
        real = self.resolve(path, follow=follow)
        root = self._root_of(real) or self.root
        *folders, name = real.relative_to(root).parts or (".",)
        with self._told(path):
            if not _HAS_OPENAT:
                if make:
                    real.parent.mkdir(parents=True, exist_ok=True)
                yield Place(None, str(real), real, self.error)
                return
            with _walk((*root.parts, *folders), len(folders) if make else 0) as folder:
                yield Place(folder, name, real, self.error)

    async def read_bytes(self, path: str | Path, limit: int = 10_000_000) -> bytes:
        """Read a whole file.

        Args:
            path: Relative to the root, or absolute.
            limit: Most bytes to read; a longer file is refused.

        Raises:
            WorkspaceError: As ``at`` does; the file is too long, or no plain file.
        """

        def read() -> bytes:
            with self.at(path) as place, place.open() as file:
                return file.read(limit + 1)

        data = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
        if len(data) > limit:
            raise self.error(
                f"{str(path)!r} has more than {limit:,} bytes.", hint="Read a part of it."
            )
        return data

    async def read_text(self, path: str | Path) -> str:
        """Read a whole file of UTF-8 text: no byte order mark, line ends as they are.

        Raises as ``read_bytes`` does.
        """
        data = await self.read_bytes(path)
        if b"\0" in data[:8192]:
            raise self.error(
                f"{str(path)!r} is a binary file of {len(data):,} bytes.",
                hint="It has no text to read.",
            )
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.error(
                f"{str(path)!r} is not UTF-8 text (byte {error.start:,}).", hint="Convert it."
            ) from None

    def _root_of(self, real: Path) -> Path | None:
        return next((root for root in self.roots if real.is_relative_to(root)), None)

    def _text(self, path: str | Path) -> str:
        text = str(path)
        if "\0" in text or len(text) > 4096:
            raise self.error(
                f"{text[:100]!r} is not a path.", code="E_PATH_TRAVERSAL", hint="Give a plain path."
            )
        return text

    @contextmanager
    def _told(self, path: str | Path) -> Iterator[None]:
        """Create an error of ours of what the system says of a path."""
        try:
            yield
        except FileNotFoundError:
            hint = "List the folder, or search for the name."
            message = f"There is no {str(path)!r} in the workspace."
            raise self.error(message, code="E_FILE_NOT_FOUND", hint=hint) from None
        except OSError as error:
            raise self.error(f"{str(path)!r} cannot be used: {error.strerror or error}.") from None


class Locks:
    """Locks of files, so that tasks that change one file do it one after another.

    Two names of one file are one.

    Args:
        workspace: Where the files are.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._held: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()

    def of(self, paths: Iterable[object]) -> list[trio.Lock]:
        """Return the locks of files, each once.

        Who takes them in this order never waits for one that waits for them.
        """
        names = sorted({self._name(str(path)) for path in paths})
        return [self._held.setdefault(name, trio.Lock()) for name in names]

    def _name(self, path: str) -> str:
        try:
            return str(self._workspace.resolve(path))
        except WorkspaceError:  # whoever uses it is told
            return path


def _real(path: Path) -> Path:
    """Follow all links of a path; from where something is missing it is taken as it is written."""
    try:
        return Path(os.path.realpath(path, strict=True))
    except (FileNotFoundError, NotADirectoryError):
        real = os.path.realpath(path)
        if (
            os.path.realpath(real) != real
        ):  # a link to itself makes it give up, with links left that lead anywhere
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        return Path(real)


@contextmanager
def _walk(folders: tuple[str, ...], made: int) -> Iterator[int]:
    """Hold open the folder that these names lead to from the first, which is absolute.

    The last ``made`` may be missing.
    """
    held = os.open(folders[0], _STEP if folders[1:] else _FOLDER)
    try:
        for number, folder in enumerate(folders[1:], 2):
            if number > len(folders) - made:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=held)
            above = held
            held = os.open(folder, _STEP if number < len(folders) else _FOLDER, dir_fd=held)
            os.close(above)
        yield held
    finally:
        os.close(held)
