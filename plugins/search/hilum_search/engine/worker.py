"""The worker process: searches or lists files, and writes what ``rg --json`` or
``rg --files --null`` would write.

A process, because ``re`` can be stopped in no other way. It is started with one argument, the
request as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from binascii import b2a_base64
from itertools import islice

from .scanning import Scanner
from .sharing import Crew, write
from .walking import walk

TYPE_CHECKING = False  # importing typing would be a fifth of the start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

_CHUNK = 65536
_BATCH = 256
_ALONE = 256
"""Files searched before other processes help; of a small folder these are all."""
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


def main() -> None:
    """Do what the argument says, and end."""
    request = json.loads(sys.argv[1])
    files = walk(
        request["base"],
        ignore=request["ignore"],
        repository=request["repository"],
        names=request["names"],
    )
    try:
        if "for_text" in request:
            _search(files, request)
        else:
            _list(files)
    except BrokenPipeError:
        os._exit(0)  # nobody listens any more


def _list(files: Iterator[str]) -> None:
    batch: list[str] = []
    for path in files:
        batch.append(path)
        if len(batch) == _BATCH:
            write(os.fsencode("\0".join(batch)) + b"\0")
            batch.clear()
    write(b"".join(os.fsencode(path) + b"\0" for path in batch))


def _search(files: Iterator[str], request: dict[str, Any]) -> None:
    names = ("for_bytes", "for_text", "run", "flags", "multiline", "context", "most")
    scanner = Scanner(*(request[name] for name in names))
    first = list(islice(files, _ALONE))
    _some(first, scanner, request["max_size"], write)
    if request["sorted"]:
        _some(files, scanner, request["max_size"], write)
    elif others := list(
        files
    ):  # listed once, as to another process a changing folder could look different
        crew = Crew()
        _some(crew.share(others), scanner, request["max_size"], crew.write)
        crew.end()


def _some(
    files: Iterable[str], scanner: Scanner, max_size: int, write: Callable[[bytes], None]
) -> None:
    searched = 0
    for path in files:
        data = _read(path, max_size)
        if data is None:
            continue
        searched += 1
        if data and (lines := scanner.lines(data)):
            shown = {"path": _text(os.fsencode(path))}
            pieces = [_message("begin", shown)]
            for number, text, column in lines:
                what = {**shown, "lines": _text(text), "line_number": number}
                if column >= 0:
                    what["submatches"] = [{"start": column}]
                pieces.append(_message("match" if column >= 0 else "context", what))
            write(b"".join([*pieces, _message("end", {**shown, "binary_offset": None})]))
    write(_message("summary", {"stats": {"searches": searched}}))


def _read(path: str, most: int) -> bytes | None:
    """Read a file; none if it has more bytes than wanted, or cannot be read."""
    try:
        file = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        data = os.read(file, _CHUNK)
        if len(data) < _CHUNK:
            return data
        if most and os.fstat(file).st_size > most:
            return None
        with open(file, "rb", closefd=False) as rest:
            return data + rest.read()
    except OSError:
        return None
    finally:
        os.close(file)


def _text(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"bytes": b2a_base64(data, newline=False).decode()}


def _message(kind: str, data: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "data": data}, ensure_ascii=False).encode() + b"\n"
