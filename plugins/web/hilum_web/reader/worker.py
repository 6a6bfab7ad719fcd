"""The process that reads one page: a line of JSON and the page on standard input, lines of JSON on
standard output.

Whoever writes a page may make it so that reading it takes hours, or all memory: this process has
limits, and is ended.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from contextlib import suppress

# Characters in a line of the answer at most, so that whoever reads it is not held up.
CHUNK = 200_000
MEMORY = 3 << 30


def main(kind: str) -> None:
    """Read the request and the page, and write what they say until nobody listens.

    Args:
        kind: What the page will likely be: what reads it is imported while the page is awaited.
    """
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    gc.disable()  # nothing here is in a circle, and there are many nodes
    with suppress(Exception):  # what fails here fails again where it is needed, and is told
        _prepare(kind)
    request = json.loads(sys.stdin.buffer.readline())
    body = sys.stdin.buffer.read(request["size"])
    try:
        if request["kind"] == "results":
            _results(body, request)
            return
        for text, at in _pdf(body) if request["kind"] == "pdf" else _html(body, request):
            for start in range(0, len(text), CHUNK):
                within = at - start if start <= at < start + CHUNK else -1
                _say(text=text[start : start + CHUNK], at=within)
        _say(end=True)
    except BrokenPipeError:
        sys.stderr.close()
    except MemoryError:
        _say(error="it needs too much memory")
    except Exception as error:  # of a page made to break its reader nearly anything can come
        _say(error=" ".join(str(error).split())[:200] or type(error).__name__)


def _prepare(kind: str) -> None:
    from . import charsets, results  # noqa: F401

    if kind == "html":
        from .markdown import prepare

        prepare()


def _say(**frame: object) -> None:
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


def _html(body: bytes, request: dict[str, str]) -> Iterator[tuple[str, int]]:
    from .charsets import decode
    from .markdown import Markdown

    page = Markdown(decode(body, request["type"]), request["url"], request["fragment"])
    _say(title=page.title)
    yield from page.parts()


def _results(body: bytes, request: dict[str, str]) -> None:
    from .charsets import decode
    from .results import duckduckgo

    found, robot, known = duckduckgo(decode(body, request["type"]))
    _say(results=found, robot=robot, known=known, end=True)


def _pdf(body: bytes) -> Iterator[tuple[str, int]]:
    import io

    import pypdf

    from .unseen import visible

    reader = pypdf.PdfReader(io.BytesIO(body))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("it needs a password")
    for number, page in enumerate(reader.pages, 1):
        yield f"[Page {number}]\n{visible(page.extract_text())}\n\n", -1
