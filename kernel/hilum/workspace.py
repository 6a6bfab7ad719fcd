"""The folder a session works in. Nothing outside it is reached: by ``..``, absolute paths, links, or links swapped in.

A path is resolved first; then what it resolves to is walked name by name from a descriptor of the root, following no
link at all, and used in the folder that the walk holds open. A link that appears between check and use is an error and
never a way out. Systems without ``openat`` (Windows) have the check only.

The ``async`` methods are for everybody. ``at``, ``open``, ``replace`` and ``near`` block: they are for code that does
several steps in one thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, NamedTuple

import attrs
import trio

from hilum.errors import E_FILE_NOT_FOUND, E_PATH_TRAVERSAL, E_STALE, ToolError

READ_LIMIT = 10_000_000
_HAS_OPENAT = os.open in os.supports_dir_fd
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = _NO_LINK | getattr(os, "O_DIRECTORY", 0)
_CONTENT = _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)  # opening a pipe must not wait
# Folders of version control, builds and caches, which listings and searches pass over.
_SKIPPED = """.git .hg .svn .jj node_modules __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache .ruff_cache
.hypothesis .eggs dist build target .next .gradle .idea .cache"""


class Place(NamedTuple):
    """Where a path leads: a name in a folder held open. Use both: ``os.stat(place.name, dir_fd=place.folder)``.

    ``folder`` is ``None`` on systems without ``openat``, where ``name`` is the whole path; ``name`` is ``.`` for the
    root itself; ``path`` is the resolved absolute path, to show.
    """

    folder: int | None
    name: str
    path: Path


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


@attrs.frozen
class Workspace:
    """The files below a root folder. Paths may be relative to the root or absolute; ``~/`` is the home folder.

    Args:
        root: The folder; kept as a resolved absolute path.
    """

    root: Path = attrs.field(converter=_real)
    skipped = frozenset(_SKIPPED.split())

    def resolve(self, path: str | Path, *, must_exist: bool = False, follow: bool = True) -> Path:
        """Give the absolute path that a path really means. To show and to judge; to use a file, take the other methods.

        Args:
            path: Relative to the root, or absolute.
            must_exist: Refuse what does not exist.
            follow: Follow a link that the path ends in; links on the way are always followed.

        Raises:
            ToolError: ``E_PATH_TRAVERSAL`` when it leads out of the workspace; ``E_FILE_NOT_FOUND``.
        """
        text = str(path)
        if "\0" in text or len(text) > 4096:
            raise ToolError(f"{text[:100]!r} is not a path.", code=E_PATH_TRAVERSAL, hint="Give a plain path.")
        plain = self.root / (os.path.expanduser(text) if text.startswith("~/") else text)
        follow = follow or plain.name == ".."
        try:
            real = _real(plain) if follow else _real(plain.parent) / plain.name
        except OSError as error:  # a link vanished while it was followed
            raise _unusable(text, error) from None
        if not real.is_relative_to(self.root):
            message = f"{text!r} is {str(real)!r}, outside the workspace {str(self.root)!r}."
            raise ToolError(message, code=E_PATH_TRAVERSAL, hint="Use a path inside the workspace.")
        if must_exist and not os.path.lexists(real):
            raise self._missing(text)
        return real

    def relative(self, path: str | Path) -> str:
        """Write a path as it is shown: relative to the root where it is inside, with forward slashes."""
        path = Path(path)
        return (path.relative_to(self.root) if path.is_relative_to(self.root) else path).as_posix()

    @contextmanager
    def at(self, path: str | Path, *, follow: bool = True, make: bool = False) -> Iterator[Place]:
        """Hold open the folder that a path is in. An ``OSError`` in the body becomes a ``ToolError`` too.

        Args:
            path: Relative to the root, or absolute.
            follow: Follow a link that the path ends in; links on the way are always followed.
            make: Make missing folders on the way.

        Raises:
            ToolError: ``E_PATH_TRAVERSAL``, ``E_FILE_NOT_FOUND`` or, for example when not permitted, ``E_FAILED``.
        """
        real = self.resolve(path, follow=follow)
        *folders, name = real.relative_to(self.root).parts or (".",)
        opened: list[int] = []
        try:
            if not _HAS_OPENAT:
                if make:
                    real.parent.mkdir(parents=True, exist_ok=True)
                yield Place(None, str(real), real)
                return
            opened.append(os.open(self.root, _FOLDER))
            for folder in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=opened[-1])
                opened.append(os.open(folder, _FOLDER, dir_fd=opened[-1]))
                os.close(opened.pop(0))
            yield Place(opened[-1], name, real)
        except FileNotFoundError:
            raise self._missing(path) from None
        except OSError as error:
            raise _unusable(path, error) from None
        finally:
            for descriptor in opened:
                os.close(descriptor)

    @contextmanager
    def open(self, path: str | Path) -> Iterator[BinaryIO]:
        """Open a file to read its bytes. Raises as ``at`` does, and for what is not a plain file."""
        with (
            self.at(path) as (folder, name, _),
            open(name, "rb", opener=lambda name, mode: os.open(name, mode | _CONTENT, dir_fd=folder)) as file,
        ):
            _check_plain(path, os.fstat(file.fileno()))
            yield file

    def replace(
        self, path: str | Path, data: bytes, *, make_parents: bool = True, expected: os.stat_result | None = None
    ) -> Path:
        """Write a file whole or not at all; an existing file keeps its mode and owner.

        Args:
            path: Relative to the root, or absolute. A link is followed and stays.
            data: The new content.
            make_parents: Make missing folders.
            expected: What the file must still be: its status when it was read.

        Returns:
            The resolved path that was written.

        Raises:
            ToolError: As ``at`` does; the file is read-only; ``E_STALE`` when it is not the expected one any more.
        """
        with self.at(path, make=make_parents) as (folder, name, real):
            old = None
            with suppress(FileNotFoundError):
                old = os.stat(name, dir_fd=folder, follow_symlinks=False)
                _check_plain(path, old)
            if old and not old.st_mode & 0o222:
                raise ToolError(f"{str(path)!r} is read-only.", hint="Ask the user before you change its mode.")
            if expected and (old is None or any(getattr(old, key) != getattr(expected, key) for key in _IDENTITY)):
                raise ToolError(f"{str(path)!r} changed meanwhile; it was not written.", code=E_STALE, hint="Read it.")
            temporary = os.path.join(os.path.dirname(name), f".hilum-{token_hex(8)}.tmp")
            target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666, dir_fd=folder)
            try:
                with open(target, "wb") as file:
                    file.write(data)
                    file.flush()
                    if old and folder is not None:
                        with suppress(PermissionError):
                            os.fchown(target, old.st_uid, old.st_gid)
                        os.fchmod(target, stat.S_IMODE(old.st_mode))
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(temporary, dir_fd=folder)
                raise
            return real

    async def read_bytes(self, path: str | Path, limit: int = READ_LIMIT) -> bytes:
        """Read a whole file.

        Args:
            path: Relative to the root, or absolute.
            limit: Most bytes to read; a longer file is refused.

        Raises:
            ToolError: As ``at`` does; the file is too long, or no plain file.
        """

        def read() -> bytes:
            with self.open(path) as file:
                return file.read(limit + 1)

        data = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
        if len(data) > limit:
            raise ToolError(f"{str(path)!r} has more than {limit:,} bytes.", hint="Read a part of it.")
        return data

    async def read_text(self, path: str | Path) -> str:
        """Read a whole file of UTF-8 text: no byte order mark, line ends as they are. Raises as ``read_bytes`` does."""
        data = await self.read_bytes(path)
        if b"\0" in data[:8192]:
            raise ToolError(f"{str(path)!r} is a binary file of {len(data):,} bytes.", hint="It has no text to read.")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ToolError(f"{str(path)!r} is not UTF-8 text (byte {error.start:,}).", hint="Convert it.") from None

    async def write_bytes(self, path: str | Path, data: bytes, *, make_parents: bool = True) -> None:
        """Write a file whole or not at all (see ``replace``)."""
        await trio.to_thread.run_sync(lambda: self.replace(path, data, make_parents=make_parents))

    def near(self, path: str | Path) -> list[str]:
        """Give up to three existing paths like a missing one: near it first, then anywhere, in a bounded look."""
        real = self.resolve(path)
        known: dict[str, None] = {}
        for start in (real.parent, self.root):
            limit = len(known) + 1000
            for folder, folders, files in os.walk(start if start.is_relative_to(self.root) else self.root):
                folders[:] = sorted(set(folders) - self.skipped)
                known |= dict.fromkeys(self.relative(Path(folder, name)) for name in sorted(files) + folders)
                if len(known) > limit:
                    break
        same = [name for name in known if os.path.basename(name).lower() == real.name.lower()]
        return list(dict.fromkeys(same + get_close_matches(self.relative(real), known)))[:3]

    def _missing(self, path: str | Path) -> ToolError:
        near = " or ".join(map(repr, self.near(path)))
        hint = f"Did you mean {near}?" if near else "List the folder, or search for the name."
        return ToolError(f"There is no {str(path)!r} in the workspace.", code=E_FILE_NOT_FOUND, hint=hint)


_IDENTITY = ("st_dev", "st_ino", "st_size", "st_mtime_ns")


def _unusable(path: str | Path, error: OSError) -> ToolError:
    return ToolError(f"{str(path)!r} cannot be used: {error.strerror or error}.")


def _check_plain(path: str | Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a link, pipe, socket or device"
        raise ToolError(f"{str(path)!r} is {kind}, not a file with content.")
