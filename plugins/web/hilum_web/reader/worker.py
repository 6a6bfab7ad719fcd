"""The process that reads one page.

The process reads a line of JSON and the page from standard input, and writes lines of JSON to
standard output. Parsing a malicious page could take hours or use all memory, so the process has
limits and is killed from outside.
"""

from __future__ import annotations

import gc
import json
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

# Maximum number of characters of text in one line of the output, so that the other end never waits
# long.
MAX_CHUNK = 200_000
MAX_MEMORY = 3 << 30
# Only the module that the page needs is imported, because importing the libraries takes longer than
# converting most pages.
_MODULES = {"html": "markdown", "pdf": "pdf_text", "results": "search_results"}


def main(kind: str) -> None:
    """Read the request and the page, and write the frames of the output.

    Args:
        kind: The probable kind of the page. The process imports the module for this kind while
            hilum waits for the site to respond.
    """
    with suppress(ImportError, ValueError, OSError):  # not every system supports these limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    gc.disable()  # collection would be slow with large trees, and the process is short-lived
    with suppress(Exception):  # an error is raised again and reported below
        _load(kind)
    request = json.loads(sys.stdin.buffer.readline())
    body = sys.stdin.buffer.read(request["size"])
    try:
        for frame in _load(request["kind"]).read_frames(body, request):
            _write(frame)
    except BrokenPipeError:
        sys.stderr.close()  # otherwise, Python would report that it cannot flush standard output
    except MemoryError:
        _write({"error": "it requires too much memory"})
    except Exception as error:  # a malicious page can cause nearly any error
        message = " ".join(str(error).split())
        _write({"error": message[:200] or type(error).__name__})


def _load(kind: str) -> Any:
    return import_module(f".{_MODULES[kind]}", __package__)


def _write(frame: dict[str, Any]) -> None:
    """Write a frame, in several lines if its text is long."""
    text = frame.get("text", "")
    if not text:
        _write_line(frame)
    for start in range(0, len(text), MAX_CHUNK):
        # "at" is the offset of the requested element in the text, or -1.
        offset = frame["at"] - start
        at = offset if 0 <= offset < MAX_CHUNK else -1
        _write_line({"text": text[start : start + MAX_CHUNK], "at": at})


def _write_line(frame: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()
