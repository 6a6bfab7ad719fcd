"""The tools ``read_file`` and ``list_directory``.

Each tool runs in one thread, which is abandoned if the call is cancelled.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import msgspec
import trio
from hilum import Call, Output, ToolError, errors, tool

from hilum_files.editor_texts import find_unsaved, open_content
from hilum_files.journal.records import spell_path
from hilum_files.journal.tracked_workspace import hash_file
from hilum_files.paths import SKIPPED_FOLDERS, open_place
from hilum_files.settings import FilesSettings
from hilum_files.text import BOM, check_text, encoding_error, show

if TYPE_CHECKING:
    from hilum import Place, Workspace

CHUNK_BYTES = 1 << 18
MAX_DEPTH = 10
_Names = tuple[str, ...]
"""The parts of a path, relative to the listed folder."""


@tool(risk="read", effect="pure", timeout=60, reads="path")
async def read_file(
    call: Call,
    path: str,
    start_line: int | None = None,
    end_line: int | None = None,
    offset: int | None = None,
    limit: int | None = None,
) -> Output:
    """Read a text file as lines `N | text`; N is the line number and not part of the file.

    Long files are truncated.

    Args:
        path: Relative to the workspace.
        start_line: First line, counted from 1.
        end_line: Last line.
        offset: The same as start_line.
        limit: Number of lines, instead of end_line.
    """
    start = max(start_line or offset or 1, 1)
    end = end_line or (start + limit - 1 if limit else None)
    if end is not None and end < start:
        raise ToolError(
            f"Lines {start} to {end} are not a valid range.",
            code=errors.E_BAD_ARGS,
            hint="Line numbers start at 1.",
        )
    settings = call.session.settings(FilesSettings)
    unsaved = await find_unsaved(call, path)
    page, hashed = await trio.to_thread.run_sync(
        _read_with_hash, call.workspace, path, start, end, settings, unsaved, abandon_on_cancel=True
    )
    data = {
        "path": show(path),
        "start": start,
        "end": page.end,
        "total": page.total,
        "file": spell_path(call.workspace.relative(call.workspace.resolve(path))),
        "hash": hashed,
    }
    return Output(page.render(start, end), data=data)


def _read_with_hash(
    workspace: Workspace,
    path: str,
    start: int,
    end: int | None,
    settings: FilesSettings,
    unsaved: bytes | None,
) -> tuple[Page, str]:
    """Return a range of lines from a file, and the hash of the file's content.

    The hash is empty if the file was written to while it was being read, because it is then unknown
    which content the model read.
    """
    with open_content(workspace, path, unsaved) as file:
        hashed = hash_file(file)
        before = os.fstat(file.fileno())
        page = read_page(file, show(path), start, end, settings)
        after = os.fstat(file.fileno())
    is_same = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
    return page, hashed if is_same else ""


class Page(msgspec.Struct, frozen=True):
    """A range of lines in a file.

    Attributes:
        lines: The numbered lines.
        end: The number of the last line.
        total: The number of lines in the file.
        limit: The maximum number of characters in ``lines``.
    """

    lines: list[str]
    end: int
    total: int
    limit: int

    def render(self, start: int, end: int | None) -> str:
        """Return the page as text, with a notice if it is not the whole file.

        Args:
            start: The first line that was requested.
            end: The last line that was requested.
        """
        if not self.total:
            return "[The file is empty.]"
        if start > self.total:
            raise ToolError(f"The file has only {self.total:,} lines.", code=errors.E_BAD_ARGS)
        lines = "\n".join(self.lines)
        shown = f"Lines {start}-{self.end} of {self.total}"
        if self.end < min(end or self.total, self.total):
            return (
                f"{lines}\n[{shown}, cut at {self.limit:,} characters. Continue with"
                f" start_line={self.end + 1}.]"
            )
        if start == 1 and self.end == self.total:
            return lines
        return f"{lines}\n[{shown}.]"


def read_page(
    file: BinaryIO, path: str, start: int, end: int | None, settings: FilesSettings
) -> Page:
    """Read a range of lines from a file of any size, using bounded memory.

    Args:
        file: The file, at its beginning.
        path: The file's name, for error messages.
        start: First line, from 1.
        end: Last line; ``None`` for as many as fit.
        settings: The limits.

    Raises:
        ToolError: The file is binary, or the lines to show are not UTF-8.
    """
    check_text(file.read(8192), path, os.fstat(file.fileno()).st_size)
    # The file is scanned in chunks, because it may not fit into memory.
    offset, total = _find_line(file, start)
    file.seek(offset)
    lines: list[str] = []
    used = 0
    for number in range(start, min(end or total, total) + 1):
        text = _read_line(file, path, number, settings.line_limit)
        line = f"{number} | {text.removeprefix(BOM) if number == 1 else text}"
        used += len(line) + 1
        # Always return at least one line, so that the model can continue after this line.
        if used > settings.read_limit and lines:
            break
        lines.append(line)
    return Page(lines, start + len(lines) - 1, total, settings.read_limit)


def _find_line(file: BinaryIO, start: int) -> tuple[int, int]:
    """Return the offset at which a line begins, and the number of lines in the file.

    If the file has fewer lines, the offset is its end.
    """
    file.seek(0)
    offset = 0 if start == 1 else -1
    line_ends = 0
    position = 0
    # Starting with a newline makes the line count of an empty file 0.
    last = b"\n"
    while chunk := file.read(CHUNK_BYTES):
        count = chunk.count(b"\n")
        if offset < 0 and line_ends + count >= start - 1:
            offset = position + _offset_after(chunk, start - 1 - line_ends)
        line_ends += count
        position += len(chunk)
        last = chunk
    lines = line_ends if last.endswith(b"\n") else line_ends + 1
    return position if offset < 0 else offset, lines


def _offset_after(chunk: bytes, count: int) -> int:
    """Return the offset after the given number of newlines."""
    at = -1
    for _ in range(count):
        at = chunk.index(b"\n", at + 1)
    return at + 1


def _read_line(file: BinaryIO, path: str, number: int, limit: int) -> str:
    """Read at most ``limit`` characters of one line."""
    raw = file.readline(4 * limit)  # a character takes at most four bytes
    size = len(raw)
    end = raw[-1:]
    # The rest of the line is only counted, piece by piece, because a line may be as long as the
    # whole file.
    while end not in (b"\n", b""):
        rest = file.readline(CHUNK_BYTES)
        size += len(rest)
        end = rest[-1:]
    is_whole = size == len(raw)
    if b"\0" in raw:
        # The prefix prevents bytes inside the file from looking like a UTF-16 byte order mark.
        check_text(b"-" + raw, path, os.fstat(file.fileno()).st_size)
    try:
        # If the line was cut, its last character may be incomplete.
        text = raw.decode() if is_whole else codecs.getincrementaldecoder("utf-8")().decode(raw)
    except UnicodeDecodeError as error:
        raise encoding_error(path, number, raw[error.start]) from None
    text = text.removesuffix("\n").removesuffix("\r")
    if len(text) <= limit and is_whole:
        return text
    return f"{text[:limit]} [… the line continues: {size:,} bytes in total]"


@tool(risk="read", effect="pure", timeout=60, reads="path")
async def list_directory(call: Call, path: str = ".", depth: int = 1) -> Output:
    """List a folder. Version control, build and cache folders are not opened.

    Args:
        path: Relative to the workspace.
        depth: Levels of folders, at most 10.
    """
    limit = call.session.settings(FilesSettings).list_limit
    depth = min(max(depth, 1), MAX_DEPTH)
    listing = await trio.to_thread.run_sync(
        _list_tree, call.workspace, path, depth, limit, abandon_on_cancel=True
    )
    name = show(call.workspace.relative(call.workspace.resolve(path)))
    lines = [f"{name}/", *(listing.format_entries() or ["[The folder is empty.]"])]
    if listing.skipped:
        lines.append(f"[Not opened: {', '.join(sorted(listing.skipped))}]")
    shown = len(listing.entries)
    if listing.count > shown:
        lines.append(
            f"[{shown} of {listing.count:,} entries shown; list a folder, or search for a name.]"
        )
    return Output("\n".join(lines), data={"path": name, "entries": listing.count})


class Listing(msgspec.Struct):
    """The entries in a folder and its subfolders.

    Attributes:
        entries: The description of each entry, keyed by the parts of its path.
        skipped: Folders that were not opened.
        count: The number of entries, including those beyond the limit.
    """

    entries: dict[_Names, str] = msgspec.field(default_factory=dict)
    skipped: list[str] = msgspec.field(default_factory=list)
    count: int = 0

    def format_entries(self) -> list[str]:
        """Return the entries in order, each folder before its contents."""
        return [_join(names) + text for names, text in sorted(self.entries.items())]


def _join(names: _Names) -> str:
    return show("/".join(names))


def _list_tree(workspace: Workspace, path: str, depth: int, limit: int) -> Listing:
    """List a folder level by level, so that the limit cuts off the deepest entries."""
    listing = Listing()
    level: list[_Names] = [()]
    for remaining in reversed(range(depth)):
        below: list[_Names] = []
        for parent in level:
            below += _list_folder(workspace, path, parent, limit, listing)
        level = []
        for names in below:
            if names[-1] not in SKIPPED_FOLDERS:
                level.append(names)
            elif remaining:
                listing.skipped.append(f"{_join(names)}/")
    return listing


def _list_folder(
    workspace: Workspace, path: str, parent: _Names, limit: int, listing: Listing
) -> list[_Names]:
    """Add a folder's first entries to a listing, count all entries, and return its subfolders."""
    folders: list[_Names] = []
    with _open_folder(workspace, os.path.join(path, *parent)) as folder:
        all_names = sorted(os.listdir(folder))
        listing.count += len(all_names)
        room = max(limit - len(listing.entries), 0)
        for name in all_names[:room]:
            description = _describe(name, folder)
            listing.entries[(*parent, name)] = description
            if description == "/":
                folders.append((*parent, name))
    return folders


@contextmanager
def _open_folder(workspace: Workspace, path: str) -> Iterator[int | str]:
    """Open a folder and yield its descriptor, or its path if descriptors cannot be used."""
    with open_place(workspace, path) as place:
        if place.folder is None:
            yield place.name
            return
        descriptor = _open_descriptor(place, place.folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _open_descriptor(place: Place, parent: int) -> int:
    # No link is followed, because one may have been created since the path was checked.
    flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.open(place.name, flags, dir_fd=parent)


def _describe(name: str, folder: int | str) -> str:
    descriptor = folder if isinstance(folder, int) else None
    if isinstance(folder, str):
        name = os.path.join(folder, name)
    try:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return f" -> {show(os.readlink(name, dir_fd=descriptor))}"
    except FileNotFoundError:
        return "  (gone)"
    if stat.S_ISDIR(status.st_mode):
        return "/"
    if stat.S_ISREG(status.st_mode):
        return f"  {_format_size(status.st_size)}"
    return "  (pipe, socket or device)"


def _format_size(size: float) -> str:
    if size < 1000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.5 or unit == "GB":
            break
    return f"{size:.1f} {unit}"
