"""The process that reads files and divides them into chunks.

Parsing holds Python's interpreter lock for up to a second, and an unusual file may crash the
parser, so hilum does neither in its own process. Each line of the input is a JSON list of paths; for
each path, the process writes one line of JSON.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from contextlib import suppress
from typing import Any

from .chunking import split_file, split_path
from .files import FileOpener, UnsuitableFile

MAX_MEMORY = 2 << 30
MAX_RECURSION = 3_000


def main(root: str, max_size: str, niceness: str) -> None:
    """Read paths until the input ends, and write the chunks of each file.

    Args:
        root: The workspace.
        max_size: Maximum size of a file in bytes.
        niceness: How much to lower the priority of this process.
    """
    with suppress(OSError):
        os.nice(int(niceness))
    with suppress(ImportError, ValueError, OSError):  # not every system supports these limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    # Syntax trees contain no cycles, so reference counts free them.
    gc.disable()
    sys.setrecursionlimit(MAX_RECURSION)
    opener = FileOpener(root, int(max_size))
    try:
        for line in sys.stdin.buffer:
            for path in json.loads(line):
                _write(_read(opener, path))
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        sys.stderr.close()  # otherwise, Python would report that it cannot flush standard output


def _read(opener: FileOpener, path: str) -> dict[str, Any]:
    try:
        data = opener.read(os.fsencode(path))
        return {"names": split_path(path), "chunks": split_file(path, data)}
    except UnsuitableFile as error:
        return {"skipped": str(error)}
    except OSError:
        return {"skipped": "unreadable"}
    except (RecursionError, MemoryError):
        return {"skipped": "too complex"}


def _write(record: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(record).encode() + b"\n")
