"""The folder a session works in. Nothing outside it is reached: by ``..``, absolute paths, links, or links swapped in.

A path is resolved first; then what it resolves to is walked name by name from a descriptor of the root, following no
link at all, and used in the folder that the walk holds open. A link that appears between check and use is an error and
never a way out. Systems without ``openat`` (Windows) have the check only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import attrs
import trio

from hilum.errors import ToolError

_HAS_OPENAT = os.open in os.supports_dir_fd
_FOLDER = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)
# Opening a pipe must not wait, and a terminal must not become the process's own.
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class Place(NamedTuple):
    """Where a path leads: a name in a folder held open. Use both: ``os.stat(place.name, dir_fd=place.folder)``.

    ``folder`` is ``None`` on systems without ``openat``, where ``name`` is the whole path; ``name`` is ``.`` for the
    root itself; ``path`` is the resolved absolute path, to show.
    """

    folder: int | None
    name: str
    path: Path

    def open(self) -> BinaryIO:
        """Open the file to read its bytes. Raises a ``ToolError`` for what is not a plain file."""
        file = open(self.name, "rb", opener=lambda name, mode: os.open(name, mode | _FILE, dir_fd=self.folder))  # noqa: SIM115
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise ToolError(f"{self.path.name!r} is a pipe or device, not a file with content.")
        return file


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


@attrs.frozen
class Workspace:
    """The files below a root folder. Paths may be relative to the root or absolute; ``~/`` is the home folder.

    Args:
        root: The folder; kept as a resolved absolute path.
    """

    root: Path = attrs.field(converter=_real)

    def resolve(self, path: str | Path, *, must_exist: bool = False, follow: bool = True) -> Path:
        """Give the absolute path that a path really means. To show and to judge; to use a file, take the other methods.

        Args:
            path: Relative to the root, or absolute.
            must_exist: Refuse what does not exist.
            follow: Follow a link that the path ends in; links on the way are always followed.

        Raises:
            ToolError: ``"E_PATH_TRAVERSAL"`` when it leads out of the workspace; ``"E_FILE_NOT_FOUND"``.
        """
        text = str(path)
        if "\0" in text or len(text) > 4096:
            raise ToolError(f"{text[:100]!r} is not a path.", code="E_PATH_TRAVERSAL", hint="Give a plain path.")
        plain = self.root / (os.path.expanduser(text) if text.startswith("~/") else text)
        with _told(path):
            real = _real(plain) if follow or plain.name == ".." else _real(plain.parent) / plain.name
            if not real.is_relative_to(self.root):
                message = f"{text!r} is {str(real)!r}, outside the workspace {str(self.root)!r}."
                raise ToolError(message, code="E_PATH_TRAVERSAL", hint="Use a path inside the workspace.")
            if must_exist:
                os.lstat(real)
        return real

    def relative(self, path: str | Path) -> str:
        """Write a path as it is shown: relative to the root where it is inside, with forward slashes."""
        path = Path(path)
        return (path.relative_to(self.root) if path.is_relative_to(self.root) else path).as_posix()

    @contextmanager
    def at(self, path: str | Path, *, make: bool = False, follow: bool = True) -> Iterator[Place]:
        """Hold open the folder that a path is in: for code that does several steps in one thread, as all this blocks.

        An ``OSError`` in the body becomes a ``ToolError`` too.

        Args:
            path: Relative to the root, or absolute.
            make: Make missing folders on the way.
            follow: Follow a link that the path ends in; links on the way are always followed.

        Raises:
            ToolError: ``"E_PATH_TRAVERSAL"``, ``"E_FILE_NOT_FOUND"`` or, for example when not permitted, ``E_FAILED``.
        """
        real = self.resolve(path, follow=follow)
        *folders, name = real.relative_to(self.root).parts or (".",)
        with _told(path):
            if not _HAS_OPENAT:
                if make:
                    real.parent.mkdir(parents=True, exist_ok=True)
                yield Place(None, str(real), real)
                return
            held = os.open(self.root, _FOLDER)
            try:
                for folder in folders:
                    if make:
                        with suppress(FileExistsError):
                            os.mkdir(folder, dir_fd=held)
                    above, held = held, os.open(folder, _FOLDER, dir_fd=held)
                    os.close(above)
                yield Place(held, name, real)
            finally:
                os.close(held)

    async def read_bytes(self, path: str | Path, limit: int = 10_000_000) -> bytes:
        """Read a whole file.

        Args:
            path: Relative to the root, or absolute.
            limit: Most bytes to read; a longer file is refused.

        Raises:
            ToolError: As ``at`` does; the file is too long, or no plain file.
        """

        def read() -> bytes:
            with self.at(path) as place, place.open() as file:
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


@contextmanager
def _told(path: str | Path) -> Iterator[None]:
    """Make a ``ToolError`` of what the system says of a path."""
    try:
        yield
    except FileNotFoundError:
        hint = "List the folder, or search for the name."
        raise ToolError(f"There is no {str(path)!r} in the workspace.", code="E_FILE_NOT_FOUND", hint=hint) from None
    except OSError as error:
        raise ToolError(f"{str(path)!r} cannot be used: {error.strerror or error}.") from None
