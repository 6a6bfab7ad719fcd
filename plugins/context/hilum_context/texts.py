"""Texts of files, as a model may see them: inside the workspace, allowed to be read unasked, and
without secrets.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec
import trio
from hilum import Agent, HilumError, ToolCall, Verdict

if TYPE_CHECKING:
    from hilum import Workspace

HEAD = 128_000
"""Bytes of a file that are read for its head: more than any budget takes."""
REGION = 200
"""Lines read before and after those that are wanted of a long text: a secret that begins there is
known as one.
"""
REGION_BYTES = 256_000
COUNTED = 100_000_000
"""Bytes of a file whose lines are counted."""
_CHUNK = 1 << 18


class LeftOut(Exception):
    """Something is not sent. The message says why, as the end of a sentence."""


class Text(msgspec.Struct, frozen=True):
    """Lines of a file.

    Args:
        path: The file, as it is shown.
        lines: The lines, without their ends.
        first: Number of the first one.
        total: Lines of the whole file.
        hash: Names the content of the file on disk; empty where these are not all its lines, or the
            text is not from there.
    """

    path: str
    lines: list[str]
    first: int
    total: int
    hash: str = ""

    @property
    def whole(self) -> bool:
        """Whether these are all lines of the file."""
        return self.first == 1 and len(self.lines) >= self.total


class Texts(msgspec.Struct, eq=False):
    """The files of a workspace for one prompt: each is judged once.

    Args:
        agent: Who gets to see them.
    """

    agent: Agent
    _known: dict[Path, str] = msgspec.field(default_factory=dict)
    _redactor: object = None

    @property
    def workspace(self) -> Workspace:
        """Where the files are."""
        return self.agent.session.workspace

    async def find(self, path: str) -> tuple[Path, str]:
        """Return a file that may be sent: resolved, and as it is shown.

        Raises:
            LeftOut: It is not there, outside, or nothing that is read without the user's yes.
        """
        if path.encode(errors="ignore").decode() != path:
            raise LeftOut("its name is not Unicode")
        try:
            real, plain = await trio.to_thread.run_sync(self._resolve, path, abandon_on_cancel=True)
        except HilumError as error:
            outside = error.code == "E_PATH_TRAVERSAL"
            missing = error.code == "E_FILE_NOT_FOUND"
            why = (
                "it is outside of the workspace"
                if outside
                else "there is no such file"
                if missing
                else error.message
            )
            raise LeftOut(why) from None
        shown = self.workspace.relative(real)
        for place in dict.fromkeys((real, plain)):
            if place not in self._known:
                self._known[place] = await self._refusal(place)
            why = self._known[place]
            if why:
                raise LeftOut(why)
        return real, shown

    def _resolve(self, path: str) -> tuple[Path, Path]:
        real = self.workspace.resolve(path, must_exist=True)
        return real, self.workspace.resolve(path, follow=False)

    async def _refusal(self, place: Path) -> str:
        """Return why a file may not be sent: what its name says, and what all gates would say if a
        tool were to read it now.
        """
        session = self.agent.session
        shown = self.workspace.relative(place)
        why = await trio.to_thread.run_sync(_hidden, place, shown)
        if why:
            return why
        tool = session.tools.get("read_file")
        if tool is None:
            return ""
        why = session.hooks.refusal()
        if why:
            return why
        call = ToolCall("context", tool.name, msgspec.json.encode({"path": shown}).decode())
        for plugin, said in await session.hooks.gather(
            "on_tool_call", agent=self.agent, call=call, tool=tool
        ):
            if not isinstance(said, Verdict):
                return f"the plugin {plugin}, which guards it, failed"
            if said.kind != "allow":
                return f"a tool may not read it{' unasked' * (said.kind == 'ask')}: {said.reason}"
        return ""

    async def head(self, path: str, unsaved: str | None = None, lines: int | None = None) -> Text:
        """Return the beginning of a file, without secrets.

        Args:
            path: The file.
            unsaved: Its text, where that is not the one on disk.
            lines: Most lines; as many as any budget takes without.

        Raises:
            LeftOut: See ``find``; it is no text.
        """
        real, shown = await self.find(path)

        def read() -> Text:
            if unsaved is not None:
                part = unsaved[:HEAD]
                total = _count(unsaved)
                hashed = ""
            else:
                part, total, hashed = self._head_of(real)
            found = self.redact(_plain(part), shown).removesuffix("\n").split("\n")
            text = Text(shown, found if lines is None else found[:lines], 1, max(total, 1), hashed)
            if text.whole:
                return text
            return msgspec.structs.replace(text, hash="")

        return await _in_thread(read)

    async def around(self, path: str, line: int, span: int, unsaved: str | None = None) -> Text:
        """Return the lines around one of a file, without secrets.

        Beyond the end it is those around the last one.

        Args:
            path: The file.
            line: The line, from 1.
            span: Lines before and after it.
            unsaved: Its text, where that is not the one on disk.

        Raises:
            LeftOut: See ``find``; it is no text.
        """
        real, shown = await self.find(path)

        def read() -> Text:
            if unsaved is not None:
                region, first, total = _region(BytesIO(unsaved.encode()), line, span)
            else:
                with self.workspace.at(real) as place, place.open() as file:
                    region, first, total = _region(file, line, span)
            middle = min(line, total)
            begin = max(middle - span, 1)
            end = min(middle + span, total)
            clean = _aligned(region, self.redact("\n".join(region), shown).split("\n"))
            return Text(shown, clean[begin - first : end - first + 1], begin, total)

        return await _in_thread(read)

    def redact(self, text: str, path: str = "") -> str:
        """Replace secrets, as in the results of tools.

        Also where the guard is left out of this session. Blocks.
        """
        from hilum_guard import Guard, Redactor

        guard = self.agent.session.half(Guard)
        if guard:
            return guard.redact(text, path)
        if self._redactor is None:
            self._redactor = Redactor()
        assert isinstance(self._redactor, Redactor)
        return self._redactor(text)

    # --- reading, in a thread ---------------------------------------------------------------------

    def _head_of(self, path: Path) -> tuple[str, int, str]:
        from hilum_files import content_hash

        with self.workspace.at(path) as place, place.open() as file:
            data = file.read(HEAD)
            text = _decoded(data, whole=len(data) < HEAD)
            if len(data) == HEAD:
                return text, _lines_in(file), ""
            return text, _count(text), content_hash(data)


def _hidden(place: Path, shown: str) -> str:
    from hilum_guard import hidden  # here, as the first time it is loaded

    return hidden(place, shown)


async def _in_thread(read: Callable[[], Text]) -> Text:
    try:
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    except HilumError as error:
        raise LeftOut(error.message.rstrip(".")) from None


def _decoded(data: bytes, *, whole: bool) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data[:8192]:
        raise LeftOut("it is binary, or no UTF-8 text")
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=whole)
    except UnicodeDecodeError as error:
        raise LeftOut(f"it is not UTF-8 text (byte {error.start:,})") from None


def _region(file: BinaryIO, line: int, span: int) -> tuple[list[str], int, int]:
    """Read the lines around one, with some more: the lines, the number of the first one, and how
    many the file has.
    """
    _decoded(file.read(8192), whole=False)
    total = max(_lines_in(file), 1)
    middle = min(line, total)
    first = max(middle - span - REGION, 1)
    _seek_line(file, first)
    begin = file.tell()
    _seek_line(file, max(middle - span, 1))
    if file.tell() - begin > REGION_BYTES:  # long lines: the wanted ones come first
        first = max(middle - span, 1)
        begin = file.tell()
    file.seek(begin)
    text = _plain(_decoded(file.read(2 * REGION_BYTES), whole=False))
    return text.split("\n")[: middle + span + REGION - first + 1], first, total


def _plain(text: str) -> str:
    """Return a text with ``\\n`` as line ends, that can be encoded."""
    return text.replace("\r\n", "\n").encode(errors="replace").decode()


def _count(text: str) -> int:
    if text:
        return text.count("\n") + (not text.endswith("\n"))
    return 0


def _lines_in(file: BinaryIO) -> int:
    """Count the lines of a file; of a very large one, those of its beginning."""
    file.seek(0)
    ends = 0
    last = b"\n"
    while file.tell() < COUNTED and (chunk := file.read(_CHUNK)):
        ends = ends + chunk.count(b"\n")
        last = chunk
    return ends + (not last.endswith(b"\n"))


def _seek_line(file: BinaryIO, line: int) -> None:
    """Go to the beginning of a line."""
    file.seek(0)
    left = line - 1
    at = 0
    while left and (chunk := file.read(_CHUNK)):
        ends = chunk.count(b"\n")
        if ends < left:
            left = left - ends
            at = at + len(chunk)
            continue
        position = -1
        for _ in range(left):
            position = chunk.index(b"\n", position + 1)
        left = 0
        at = at + position + 1
    file.seek(at)


def _aligned(before: list[str], after: list[str]) -> list[str]:
    """Return redacted lines the places they had: what stands for several lines is followed by empty
    ones.
    """
    if len(before) == len(after):
        return after
    head = next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        min(len(before), len(after)),
    )
    tails = zip(reversed(before[head:]), reversed(after[head:]), strict=False)
    tail = next(
        (n for n, (a, b) in enumerate(tails) if a != b), min(len(before), len(after)) - head
    )
    return [
        *after[: len(after) - tail],
        *[""] * (len(before) - len(after)),
        *after[len(after) - tail :],
    ]
