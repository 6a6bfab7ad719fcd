"""``read_file`` and ``list_directory``.

Each does its work in one thread, and leaves it there when it is cancelled.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

import msgspec
import trio
from hilum import Call, Output, ToolError, errors, section, setting, tool

from hilum_files.journal.guard import hash_file
from hilum_files.journal.records import spell
from hilum_files.places import SKIPPED, at, opened
from hilum_files.text import BOM, check_text, not_utf8, show

CHUNK = 1 << 18


@section("files")
class FilesSettings:
    """How much the tools show at once, and what is kept for undo."""

    read_limit: int = setting(
        default=10_000,
        minimum=100,
        project="lower",
        help="Characters of a file that read_file shows at once.",
    )
    line_limit: int = setting(
        default=2_000,
        minimum=20,
        project="lower",
        help="Characters of one line that read_file shows.",
    )
    list_limit: int = setting(
        default=500, minimum=1, project="lower", help="Entries that list_directory shows."
    )
    snapshots: bool = setting(
        default=True,
        project=False,
        help=(
            "Whether the tree is looked at around commands, so that what they change can be undone."
        ),
    )
    snapshot_file_limit: int = setting(
        default=10_000_000,
        minimum=0,
        project="user",
        help="Bytes of a file above which a snapshot notes that it changed and not what it held.",
    )
    snapshot_limit: int = setting(
        default=1_000_000_000,
        minimum=0,
        project="user",
        help="Bytes of all files of a workspace whose content a snapshot keeps.",
    )
    keep_days: float = setting(
        default=30.0,
        minimum=1,
        project=False,
        help="Days after which unused content that was kept for undo is deleted.",
    )
    keep_limit: int = setting(
        default=5_000_000_000,
        minimum=0,
        project=False,
        help="Bytes of content kept for undo, for all workspaces together.",
    )


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

    A long file is cut.

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
            f"Lines {start} to {end} are no range.",
            code=errors.E_BAD_ARGS,
            hint="Lines count from 1.",
        )
    settings = call.session.settings(FilesSettings)
    shown = show(path)

    def read() -> tuple[Page, str]:
        with opened(call.workspace, path) as file:
            hashed = hash_file(file)
            before = os.fstat(file.fileno())
            page = read_page(file, shown, start, end, settings)
            after = os.fstat(file.fileno())
            same = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
            return (
                page,
                hashed if same else "",
            )  # what was written into while it was read is not known

    page, hashed = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    file = spell(call.workspace.relative(call.workspace.resolve(path)))
    data = {
        "path": shown,
        "start": start,
        "end": page.end,
        "total": page.total,
        "file": file,
        "hash": hashed,
    }
    return Output(page.render(start, end), data=data)


class Page(msgspec.Struct, frozen=True):
    """Lines of a file: those shown, the number of the last of them, and of the last in the file."""

    lines: list[str]
    end: int
    total: int
    limit: int

    def render(self, start: int, end: int | None) -> str:
        """Write the page, with a notice if it is not the whole file.

        ``start`` and ``end`` are as asked for.
        """
        if not self.total:
            return "[The file is empty.]"
        if start > self.total:
            raise ToolError(f"The file has only {self.total:,} lines.", code=errors.E_BAD_ARGS)
        notice = f"[Lines {start}-{self.end} of {self.total}.]"
        if self.end < min(end or self.total, self.total):
            notice = f"[Lines {start}-{self.end} of {self.total}, cut at {self.limit:,} characters."
            notice += f" Read on with start_line={self.end + 1}.]"
        elif (start, self.end) == (1, self.total):
            notice = ""
        return "\n".join([*self.lines, notice] if notice else self.lines)


def read_page(
    file: BinaryIO, path: str, start: int, end: int | None, settings: FilesSettings
) -> Page:
    """Read some lines of a file of any size in bounded memory.

    Args:
        file: The file, at its beginning.
        path: Its name, for errors.
        start: First line, from 1.
        end: Last line; as many as fit when ``None``.
        settings: The limits.

    Raises:
        ToolError: It is binary, or not UTF-8 in the lines to show.
    """
    check_text(file.read(8192), path, os.fstat(file.fileno()).st_size)
    offset, total = _find_line(file, start)
    file.seek(offset)
    lines: list[str] = []
    used = 0
    for number in range(start, min(end or total, total) + 1):
        text = _read_line(file, path, number, settings.line_limit)
        line = f"{number} | {text.removeprefix(BOM) if number == 1 else text}"
        used += len(line) + 1
        if used > settings.read_limit and lines:
            break
        lines.append(line)
    return Page(lines, start + len(lines) - 1, total, settings.read_limit)


def _find_line(file: BinaryIO, start: int) -> tuple[int, int]:
    """Return the offset at which a line begins (or the end of the file), and the number of lines in
    the file.
    """
    file.seek(0)
    offset = 0 if start == 1 else -1
    ends = 0
    position = 0
    last = b"\n"
    while chunk := file.read(CHUNK):
        found = chunk.count(b"\n")
        if offset < 0 and ends + found >= start - 1:
            at = -1
            for _ in range(start - 1 - ends):
                at = chunk.index(b"\n", at + 1)
            offset = position + at + 1
        ends += found
        position += len(chunk)
        last = chunk
    return position if offset < 0 else offset, ends + (not last.endswith(b"\n"))


def _read_line(file: BinaryIO, path: str, number: int, limit: int) -> str:
    raw = file.readline(4 * limit)  # a character has at most four bytes
    size = len(raw)
    end = raw[-1:]
    while end not in (b"\n", b""):
        more = file.readline(CHUNK)
        size = size + len(more)
        end = more[-1:]
    check_text(b"-" + raw, path, os.fstat(file.fileno()).st_size)
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(raw, final=size == len(raw))
    except UnicodeDecodeError as error:
        raise not_utf8(path, number, raw[error.start]) from None
    text = text.removesuffix("\n").removesuffix("\r")
    if len(text) <= limit and size == len(raw):
        return text
    return f"{text[:limit]} [… the line goes on: {size:,} bytes in all]"


@tool(risk="read", effect="pure", timeout=60, reads="path")
async def list_directory(call: Call, path: str = ".", depth: int = 1) -> Output:
    """List a folder. Folders of version control, builds and caches are not opened.

    Args:
        path: Relative to the workspace.
        depth: Levels of folders, at most 10.
    """
    limit = call.session.settings(FilesSettings).list_limit
    depth = min(max(depth, 1), 10)
    listing = await trio.to_thread.run_sync(_list, call, path, depth, limit, abandon_on_cancel=True)
    name = show(call.workspace.relative(call.workspace.resolve(path)))
    text = "\n".join(listing.lines()) or "[The folder is empty.]"
    if listing.skipped:
        text += f"\n[Not looked into: {', '.join(sorted(listing.skipped))}]"
    if listing.count > len(listing.found):
        text += (
            f"\n[{len(listing.found)} of {listing.count:,} entries shown; list a folder, or search"
            " for a name.]"
        )
    return Output(f"{name}/\n{text}", data={"path": name, "entries": listing.count})


class Listing(msgspec.Struct):
    """What was found so far, by path relative to the listed folder: names of folders on the way,
    and a description.
    """

    found: dict[tuple[str, ...], str] = msgspec.field(default_factory=dict)
    skipped: list[str] = msgspec.field(default_factory=list)
    count: int = 0

    def lines(self) -> Iterator[str]:
        """Write the entries in order, each folder before what is in it."""
        for names, description in sorted(self.found.items()):
            yield show("/".join(names)) + description


def _list(call: Call, path: str, depth: int, limit: int) -> Listing:
    """Look level by level, so that the limit cuts what is deepest."""
    listing = Listing()
    level: list[tuple[str, ...]] = [()]
    for step in range(depth):
        below: list[tuple[str, ...]] = []
        for names in level:
            for name, description in _look(
                call, os.path.join(path, *names), max(limit - len(listing.found), 0), listing
            ):
                listing.found[(*names, name)] = description
                if description != "/":
                    continue
                if name not in SKIPPED:
                    below.append((*names, name))
                elif step + 1 < depth:
                    listing.skipped.append(show("/".join((*names, name))) + "/")
        level = below
    return listing


def _look(call: Call, path: str, most: int, listing: Listing) -> list[tuple[str, str]]:
    """Return the first names of a folder with their descriptions, and count all."""
    with at(call.workspace, path) as place:
        flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
        where = (
            place.name if place.folder is None else os.open(place.name, flags, dir_fd=place.folder)
        )
        try:
            names = sorted(os.listdir(where))
            listing.count += len(names)
            return [(name, _describe(name, where)) for name in names[:most]]
        finally:
            if isinstance(where, int):
                os.close(where)


def _describe(name: str, folder: int | str) -> str:
    where, name = (folder, name) if isinstance(folder, int) else (None, os.path.join(folder, name))
    try:
        status = os.stat(name, dir_fd=where, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return f" -> {show(os.readlink(name, dir_fd=where))}"
    except FileNotFoundError:
        return "  (gone)"
    if stat.S_ISDIR(status.st_mode):
        return "/"
    if stat.S_ISREG(status.st_mode):
        return f"  {_size(status.st_size)}"
    return "  (pipe, socket or device)"


def _size(size: float) -> str:
    if size < 1000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.5 or unit == "GB":
            break
    return f"{size:.1f} {unit}"
