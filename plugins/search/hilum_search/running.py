"""Runs an engine, ripgrep or the worker in Python, and reads what it writes while it writes it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from hilum import ToolError

from hilum_search.engine.ignoring import VCS

if TYPE_CHECKING:
    from hilum import Processes

    from hilum_search.engine.patterns import Pattern

CHUNK = 32_768
"""Bytes read at once: between two of them everything else has its turn."""
LONGEST = 16_000_000
"""Bytes of one message; a longer one, of a file that is one endless line, is left out."""


class Scope(NamedTuple):
    """Which files.

    Args:
        root: The workspace's folder.
        base: Folder or file in it, relative; ``.`` for all.
        names: Globs for the name of a file, one of which must match; empty for all. They only spare
            work.
        ignored: Whether files that ignore files name are wanted too.
        repository: Whether ``base`` is in a repository: then the ignore files above it hold too.
        max_size: Bytes of a file above which it is not searched; 0 for any.
        revealed: Opens a block in which a process, given by its words, may read the file that was
            named and approved.
    """

    root: Path
    base: str = "."
    names: tuple[str, ...] = ()
    ignored: bool = False
    repository: bool = False
    max_size: int = 0
    revealed: Callable[[list[str]], AbstractContextManager[None]] | None = None


class _Text(msgspec.Struct):
    text: str | None = None
    other: str | None = msgspec.field(name="bytes", default=None)

    def raw(self) -> bytes:
        if self.text is not None:
            return self.text.encode()
        from binascii import a2b_base64  # for what is no UTF-8: rare

        return a2b_base64(self.other or "")


class _Place(msgspec.Struct):
    start: int


class _Stats(msgspec.Struct):
    searches: int


class _Data(msgspec.Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    submatches: list[_Place] = []
    binary_offset: int | None = None
    stats: _Stats | None = None


class _Message(msgspec.Struct):
    type: str
    data: _Data


_decode = msgspec.json.Decoder(_Message).decode


class FoundLine(msgspec.Struct):
    """A line of a file.

    ``column`` is the byte in it at which the match begins; below zero there is none.
    """

    number: int
    text: bytes
    column: int


class FoundFile(msgspec.Struct):
    """A file with matches; ``lines`` has those around them too."""

    path: str
    lines: list[FoundLine] = msgspec.field(default_factory=list)
    matches: int = 0


class Search(msgspec.Struct):
    """What a search has found so far. It takes an engine's messages.

    Args:
        wanted: Whether a file of this path counts.
        show: Called with each file when it is done.
        most: Matches after which the rest is not wanted.
        sorted: Whether the files must come in order, which keeps an engine from working on several
            at once.
    """

    wanted: Callable[[str], bool]
    show: Callable[[FoundFile], None]
    most: int
    files: list[FoundFile] = []
    matches: int = 0
    sorted: bool = False
    searched: int | None = None
    complete: bool = False
    open: FoundFile | None = None

    def take(self, lines: list[bytes]) -> bool:
        """Take messages; say whether enough is found."""
        for line in lines:
            message = _decode(line)
            data = message.data
            if message.type == "begin" and data.path:
                path = os.fsdecode(data.path.raw()).removeprefix("./")
                self.open = FoundFile(path) if self.wanted(path) else None
            elif message.type == "end" and self.open:
                if data.binary_offset is not None:
                    self.open = None
                else:
                    self._close()
            elif message.type == "summary" and data.stats:
                self.searched = (self.searched or 0) + data.stats.searches
                self.complete = True
            elif self.open and data.lines and data.line_number:
                _add(self.open, data.line_number, data.lines.raw(), data)
                if self.open.matches > self.most:
                    self._close()
            if self.matches > self.most:
                return True
        return False

    def clear(self) -> None:
        """Forget all of it."""
        self.files = []
        self.matches = 0
        self.searched = None
        self.open = None

    def _close(self) -> None:
        if self.open:
            self.files.append(self.open)
            self.matches += self.open.matches
            self.show(self.open)
        self.open = None


def _add(file: FoundFile, number: int, raw: bytes, data: _Data) -> None:
    """Add a message's lines: several, where a match crosses lines."""
    first = data.submatches[0].start if data.submatches else -1
    for text in raw.removesuffix(b"\n").split(b"\n"):
        file.lines.append(FoundLine(number, text.removesuffix(b"\r"), first))
        number += 1
        file.matches += first >= 0
        first = 0 if first >= 0 else -1


@functools.cache
def ripgrep() -> str:
    """Find ripgrep: that of this environment, which need not be on the path, else the one on it.

    Empty if none.
    """
    import sysconfig  # 3 ms, once

    own = shutil.which("rg", path=sysconfig.get_path("scripts"))
    return own or shutil.which("rg") or ""


async def search(
    processes: Processes, rg: str, scope: Scope, pattern: Pattern, context: int, found: Search
) -> str:
    """Search the content of files.

    Args:
        processes: Where the engine is started.
        rg: Path of ripgrep; empty for the engine in Python.
        scope: Which files.
        pattern: What to find.
        context: Lines to show before and after each match.
        found: Takes what is found.

    Returns:
        The engine that did it: ``rg``, or ``python`` also where ripgrep could not read the pattern.
    """
    if rg:
        options = ["--json", "--crlf", "--no-messages", f"-C{context}", *_rg_scope(scope)]
        options += ["-i"] * pattern.ignore_case + ["-U"] * pattern.multiline + ["-P"] * pattern.pcre
        options += ["--sort=path"] * found.sorted
        argv = [rg, *options, "-e", pattern.for_ripgrep(), "--", _rg_base(scope)]
        code, _ = await _read(processes, argv, scope, b"\n", found.take)
        if code in (0, 1) or found.complete:  # 2 and complete: some file could not be read
            return "rg"
        found.clear()
    request = _request(scope) | {
        "for_bytes": pattern.for_bytes(),
        "for_text": pattern.for_text(),
        "run": pattern.run(),
        "flags": pattern.flags,
        "multiline": pattern.multiline,
        "context": context,
        "most": found.most + 1,
        "sorted": found.sorted,
    }
    await _work(processes, request, scope, b"\n", found.take)
    return "python"


async def list_files(
    processes: Processes, rg: str, scope: Scope, take: Callable[[list[bytes]], bool]
) -> None:
    """List the files that a search would look at.

    Args:
        processes: Where the engine is started.
        rg: Path of ripgrep; empty for the engine in Python.
        scope: Which files.
        take: Gets paths, relative to the root, in no certain order; says whether it has enough.
    """
    if rg:
        argv = [rg, "--files", "--null", "--no-messages", *_rg_scope(scope), "--", _rg_base(scope)]
        seen = False

        def plain(paths: list[bytes]) -> bool:
            nonlocal seen
            seen = True
            return take([path.removeprefix(b"./") for path in paths])

        code, _ = await _read(processes, argv, scope, b"\0", plain)
        if code in (0, 1) or seen:
            return
    await _work(processes, _request(scope), scope, b"\0", take)


def _rg_base(scope: Scope) -> str:
    return "./" if scope.base == "." else f"./{scope.base}"


def _rg_scope(scope: Scope) -> list[str]:
    """Return the options that make ripgrep see exactly the files that the engine in Python sees."""
    options = ["--no-config", "--hidden", "--no-ignore-global"]
    options += [
        f"--glob=!{name}/" for name in sorted(VCS)
    ]  # plain names: faster than one glob with braces
    options += ["--no-ignore"] * scope.ignored + ["--no-require-git", "--no-ignore-parent"] * (
        not scope.repository
    )
    options += [f"--max-filesize={scope.max_size}"] * bool(scope.max_size)
    options += [f"--type-add=hilum:{name}" for name in scope.names] + ["--type=hilum"] * bool(
        scope.names
    )
    return options


def _request(scope: Scope) -> dict[str, object]:
    return {
        "base": scope.base,
        "ignore": not scope.ignored,
        "repository": scope.repository,
        "names": scope.names,
        "max_size": scope.max_size,
    }


async def _work(
    processes: Processes,
    request: dict[str, object],
    scope: Scope,
    end: bytes,
    take: Callable[[list[bytes]], bool],
) -> None:
    """Run the worker: no site packages, no environment, only the folder of the engine."""
    start = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); from engine.worker import"
        " main; main()"
    )
    argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", start, json.dumps(request)]
    code, said = await _read(processes, argv, scope, end, take)
    if code:
        reason = said.strip().rpartition("\n")[2] or f"exit code {code}"
        raise ToolError(
            f"The search broke off: {reason}.",
            hint="Search a smaller part, or for something simpler.",
        )


async def _read(
    processes: Processes,
    argv: list[str],
    scope: Scope,
    end: bytes,
    take: Callable[[list[bytes]], bool],
) -> tuple[int, str]:
    """Start a process and hand on what it writes, piece by piece; end it when that is enough.

    Returns:
        Its exit code, and what it wrote to standard error if that is not 0.
    """
    with scope.revealed(argv) if scope.revealed else nullcontext():
        return await _receive(processes, argv, scope, end, take)


async def _receive(
    processes: Processes,
    argv: list[str],
    scope: Scope,
    end: bytes,
    take: Callable[[list[bytes]], bool],
) -> tuple[int, str]:
    rest: list[bytes] = []
    size = 0
    async with processes.open(argv, cwd=scope.root, grace=0) as process:
        while chunk := await process.stdout.receive_some(CHUNK):
            head, found, tail = chunk.rpartition(end)
            if not found:
                size += len(chunk)
                rest.append(chunk)
                if size > LONGEST:
                    rest.clear()
                continue
            lines = b"".join((*rest, head)).split(end)
            if size > LONGEST:
                del lines[0]
            rest = [tail]
            size = len(tail)
            if take(lines):
                return 0, ""
        said = b"" if process.stderr is None else await process.stderr.receive_some(CHUNK)
        return await process.wait(), said.decode(errors="replace")
