"""The files of the page, served from a table, so that no path leads out of it."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

import attrs
from hilum.errors import E_UNKNOWN
from starlette.types import Receive, Scope, Send

from hilum_serve.problems import E_METHOD, Problem

INDEX = "index.html"
FOLDER = "page"
MAX_AGE = 0
"""The page is asked for again each time; its ETag makes the answer small."""
_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "mjs": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
}
_COMPRESSED = ("png", "woff2")
MIN_COMPRESSED = 500
_MISSING = b"<!doctype html><title>hilum</title><p>This installation of hilum has no page."


@attrs.frozen
class PageFile:
    """A file of the page.

    Attributes:
        media: Its media type.
        plain: Its content.
        packed: Its content with gzip; empty if that saves nothing.
        tag: Its ETag.
    """

    media: str
    plain: bytes
    packed: bytes
    tag: str


class PageFiles:
    """The files of the page, as an ASGI application."""

    def __init__(self) -> None:
        self._files = dict(_read_files())
        self._files.setdefault("/", _make_file(INDEX, _MISSING))

    def has(self, path: str) -> bool:
        """Return whether there is a file at a path."""
        return path in self._files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a file.

        Raises:
            Problem: There is no such file (404), or the method only changes something (405).
        """
        file = self._files.get(scope["path"])
        if file is None:
            raise Problem(404, E_UNKNOWN, "There is nothing at this address.", "See /openapi.json.")
        if scope["method"] not in ("GET", "HEAD"):
            text = "This address takes only GET, HEAD."
            raise Problem(405, E_METHOD, text, headers=(("allow", "GET, HEAD"),))
        asked = {name.lower(): value for name, value in scope["headers"]}
        headers = [
            (b"etag", file.tag.encode()),
            (b"cache-control", f"private, max-age={MAX_AGE}, must-revalidate".encode()),
            (b"vary", b"accept-encoding"),
        ]
        status = 200
        body = file.plain
        known = asked.get(b"if-none-match", b"").decode("latin-1")
        if file.tag in [each.strip().removeprefix("W/") for each in known.split(",")]:
            status = 304
            body = b""
        else:
            headers.append((b"content-type", file.media.encode()))
            if file.packed and b"gzip" in asked.get(b"accept-encoding", b""):
                body = file.packed
                headers.append((b"content-encoding", b"gzip"))
            headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if scope["method"] == "HEAD":
            body = b""
        await send({"type": "http.response.body", "body": body})


def _read_files() -> Iterator[tuple[str, PageFile]]:
    root = files("hilum_serve") / FOLDER
    for path, entry in _walk(root, f"/{FOLDER}"):
        data = entry.read_bytes()
        file = _make_file(entry.name, data)
        yield path, file
        if path == f"/{FOLDER}/{INDEX}":
            yield "/", file


def _walk(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{path}/{entry.name}")
        elif entry.name.rpartition(".")[2] in _TYPES:
            yield f"{path}/{entry.name}", entry


def _make_file(name: str, data: bytes) -> PageFile:
    kind = name.rpartition(".")[2]
    packed = b""
    if kind not in _COMPRESSED and len(data) >= MIN_COMPRESSED:
        packed = gzip.compress(data, 9, mtime=0)
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    return PageFile(_TYPES[kind], data, packed, tag)
