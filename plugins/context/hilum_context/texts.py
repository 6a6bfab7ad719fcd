"""Reads the text of files in the form in which a model may see it.

A file must be in the workspace and readable without approval; secrets in its text are replaced.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec
import trio
from hilum import Agent, ContentPolicy, FileChanges, HilumError, ToolCall, Verdict

from hilum_context.pieces import count_lines

if TYPE_CHECKING:
    from hilum import Workspace

# Number of bytes to read from the beginning of a file; more than any budget allows.
HEAD_BYTES = 128_000
# Number of extra lines to read before and after the requested ones, to recognize secrets that begin
# there.
REGION_LINES = 200
REGION_BYTES = 256_000
# Lines are counted only in files up to this size, in bytes.
MAX_COUNTED_BYTES = 100_000_000
_CHUNK = 1 << 18
_REASONS = {
    "E_PATH_TRAVERSAL": "it is outside the workspace",
    "E_FILE_NOT_FOUND": "there is no such file",
}


class OmittedError(Exception):
    """Raised if something is not sent; the message is the reason, as the end of a sentence."""


class FileText(msgspec.Struct, frozen=True):
    """Lines of a file.

    Args:
        path: The displayed path of the file.
        lines: The lines, without trailing newlines.
        first: Number of the first line.
        total: Number of lines in the whole file.
        hash: The hash of the file on disk; empty if some of its lines are missing or the text is
            not from the disk.
    """

    path: str
    lines: list[str]
    first: int
    total: int
    hash: str = ""

    @property
    def whole(self) -> bool:
        """Whether the text contains all lines of the file."""
        return self.first == 1 and len(self.lines) >= self.total


class FileTexts(msgspec.Struct, eq=False):
    """The files in a workspace, for one prompt; each file is checked only once.

    Args:
        agent: The agent that receives the texts.
        policy: The policy that decides which files are sent, and removes secrets from all texts.
    """

    agent: Agent
    policy: ContentPolicy
    _known: dict[Path, str] = msgspec.field(default_factory=dict)

    @property
    def workspace(self) -> Workspace:
        """The workspace that contains the files."""
        return self.agent.session.workspace

    async def find(self, path: str) -> tuple[Path, str]:
        """Return the resolved path and the displayed path of a file that may be sent.

        Raises:
            OmittedError: The file does not exist, is outside the workspace, or must not be read
                without approval.
        """
        # A lone surrogate cannot be sent, and its replacement would name another file.
        if path.encode(errors="ignore").decode() != path:
            raise OmittedError("its name is not Unicode")
        try:
            real, plain = await trio.to_thread.run_sync(self._resolve, path, abandon_on_cancel=True)
        except HilumError as error:
            raise OmittedError(_REASONS.get(error.code, error.message)) from None
        shown = self.workspace.relative(real)
        # Check both a link's own name and its target's, because either may be protected.
        for place in dict.fromkeys((real, plain)):
            if place not in self._known:
                self._known[place] = await self._refusal(place)
            why = self._known[place]
            if why:
                raise OmittedError(why)
        return real, shown

    def _resolve(self, path: str) -> tuple[Path, Path]:
        real = self.workspace.resolve(path, must_exist=True)
        return real, self.workspace.resolve(path, follow=False)

    async def _refusal(self, place: Path) -> str:
        """Return why a file must not be sent; empty if it may be.

        The decision depends on the file's path, and on the verdict of every gate on a tool call
        that would read the file now.
        """
        session = self.agent.session
        shown = self.workspace.relative(place)
        explain = self.policy.explain_withheld_file
        why = await trio.to_thread.run_sync(explain, place, shown)
        if why:
            return why
        # The gates judge the call that the model would make, so that context cannot bypass the
        # rules and permissions that apply to tools.
        tool = session.tools.get("read_file")
        if tool is None:
            return ""
        why = session.hooks.refusal()
        if why:
            return why
        arguments = msgspec.json.encode({"path": shown}).decode()
        call = ToolCall("context", tool.name, arguments)
        verdicts = await session.hooks.gather(
            "on_tool_call",
            agent=self.agent,
            call=call,
            tool=tool,
        )
        for plugin, verdict in verdicts:
            if not isinstance(verdict, Verdict):  # gates fail closed
                return f"the plugin {plugin}, which guards it, failed"
            if verdict.kind == "ask":
                return f"a tool may not read it without approval: {verdict.reason}"
            if verdict.kind != "allow":
                return f"a tool may not read it: {verdict.reason}"
        return ""

    async def head(
        self,
        path: str,
        unsaved: str | None = None,
        lines: int | None = None,
    ) -> FileText:
        """Return the beginning of a file, without secrets.

        Args:
            path: The file.
            unsaved: The text in the editor if it differs from the text on disk.
            lines: Maximum number of lines; by default more than any budget allows.

        Raises:
            OmittedError: The file must not be sent (see ``find``), or is not a text file.
        """
        real, shown = await self.find(path)

        def read() -> FileText:
            if unsaved is not None:
                part = unsaved[:HEAD_BYTES]
                total = count_lines(unsaved)
                hashed = ""
            else:
                part, total, hashed = self._head_of(real)
            clean = self.redact(_plain(part), shown)
            found = clean.removesuffix("\n").split("\n")[:lines]
            text = FileText(shown, found, 1, max(total, 1), hashed)
            # A hash marks a file as read, so a partial text has none.
            return text if text.whole else msgspec.structs.replace(text, hash="")

        return await _in_thread(read)

    async def around(self, path: str, line: int, span: int, unsaved: str | None = None) -> FileText:
        """Return the lines around a given line of a file, without secrets.

        For a line beyond the end, the lines around the last line are returned.

        Args:
            path: The file.
            line: The line, from 1.
            span: Number of lines to return before and after the given line.
            unsaved: The text in the editor if it differs from the text on disk.

        Raises:
            OmittedError: The file must not be sent (see ``find``), or is not a text file.
        """
        real, shown = await self.find(path)

        def read() -> FileText:
            if unsaved is not None:
                region, first, total = _region(BytesIO(unsaved.encode()), line, span)
            else:
                with self.workspace.at(real) as place, place.open() as file:
                    region, first, total = _region(file, line, span)
            middle = min(line, total)
            begin = max(middle - span, 1)
            end = min(middle + span, total)
            redacted = self.redact("\n".join(region), shown)
            clean = _align(region, redacted.split("\n"))
            lines = clean[begin - first : end - first + 1]
            return FileText(shown, lines, begin, total)

        return await _in_thread(read)

    def redact(self, text: str, path: str = "") -> str:
        """Return text with secrets replaced, as in tool results. Blocks.

        Secrets are replaced even if the guard is not loaded in this session.
        """
        return self.policy.redact(text, path)

    # --- reading, in a thread ---------------------------------------------------------------------

    def _head_of(self, path: Path) -> tuple[str, int, str]:
        # The file is opened relative to its folder, so that a link that replaces it after the check
        # is not followed.
        with self.workspace.at(path) as place, place.open() as file:
            data = file.read(HEAD_BYTES)
            is_whole = len(data) < HEAD_BYTES
            text = _decode(data, whole=is_whole)
            if is_whole:
                journal = self.agent.session.plugin(FileChanges)
                hashed = journal.content_hash(data) if journal is not None else ""
                return text, count_lines(text), hashed
            return text, _lines_in(file), ""


async def _in_thread(read: Callable[[], FileText]) -> FileText:
    try:
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    except HilumError as error:
        raise OmittedError(error.message.rstrip(".")) from None


def _decode(data: bytes, *, whole: bool) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data[:8192]:
        raise OmittedError("it is binary, or not UTF-8 text")
    try:
        # Decode incrementally, because the text may be cut in the middle of a character.
        return codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=whole)
    except UnicodeDecodeError as error:
        raise OmittedError(f"it is not UTF-8 text (byte {error.start:,})") from None


def _region(file: BinaryIO, line: int, span: int) -> tuple[list[str], int, int]:
    """Read the lines around a given line, with extra lines before and after them.

    Returns:
        The lines, the number of the first one, and the number of lines in the file.
    """
    _decode(file.read(8192), whole=False)  # raises for a binary file before all of it is read
    total = max(_lines_in(file), 1)
    middle = min(line, total)
    first = max(middle - span - REGION_LINES, 1)
    _seek_line(file, first)
    begin = file.tell()
    _seek_line(file, max(middle - span, 1))
    if file.tell() - begin > REGION_BYTES:  # lines are long: read only the requested lines
        first = max(middle - span, 1)
        begin = file.tell()
    file.seek(begin)
    text = _plain(_decode(file.read(2 * REGION_BYTES), whole=False))
    count = middle + span + REGION_LINES - first + 1
    return text.split("\n")[:count], first, total


def _plain(text: str) -> str:
    """Return text with ``\\n`` newlines and only valid Unicode."""
    return text.replace("\r\n", "\n").encode(errors="replace").decode()


def _lines_in(file: BinaryIO) -> int:
    """Count the lines of a file, or of the beginning of a very large one."""
    file.seek(0)
    ends = 0
    last = b"\n"
    while file.tell() < MAX_COUNTED_BYTES and (chunk := file.read(_CHUNK)):
        ends += chunk.count(b"\n")
        last = chunk
    return ends + (not last.endswith(b"\n"))


def _seek_line(file: BinaryIO, line: int) -> None:
    """Move to the beginning of a line."""
    file.seek(0)
    left = line - 1
    at = 0
    while left and (chunk := file.read(_CHUNK)):
        ends = chunk.count(b"\n")
        if ends < left:
            left -= ends
            at += len(chunk)
            continue
        position = -1
        for _ in range(left):
            position = chunk.index(b"\n", position + 1)
        left = 0
        at += position + 1
    file.seek(at)


def _align(before: list[str], after: list[str]) -> list[str]:
    """Return redacted lines, keeping the original line numbers.

    A placeholder for a multi-line secret is followed by empty lines, so that the lines after it
    keep their numbers.
    """
    if len(before) == len(after):
        return after
    head = _count_equal(before, after)
    tail = _count_equal(reversed(before[head:]), reversed(after[head:]))
    end = len(after) - tail
    padding = [""] * (len(before) - len(after))
    return [*after[:end], *padding, *after[end:]]


def _count_equal(some: Iterable[str], others: Iterable[str]) -> int:
    """Return the number of equal lines at the beginning of two texts."""
    count = 0
    for one, other in zip(some, others, strict=False):
        if one != other:
            break
        count += 1
    return count
