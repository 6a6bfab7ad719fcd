import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hilum_store import SqliteStore

PRELUDE = """
import os, sys, trio
from pathlib import Path
from hilum.errors import StoreError
from hilum.events import PluginEvent, RunEnded
from hilum.store import SessionInfo
from hilum_store import SqliteStore

path = Path(sys.argv[1])

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def event(seq, size=20):
    return PluginEvent(seq=seq, agent="main", name="test.fact", data={"n": seq, "x": "x" * size})
"""

Child = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A session file that does not exist yet, in a folder that does not either."""
    return tmp_path / "data" / "sessions.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    """A store on it."""
    store = SqliteStore(path)
    yield store
    await store.close()


@pytest.fixture
def child(path: Path) -> Iterator[Child]:
    """Start a Python process that runs ``async def main()`` of a script, with the path of the
    session file.
    """
    children: list[subprocess.Popen[str]] = []

    def start(script: str, *arguments: str, **options: object) -> "subprocess.Popen[str]":
        code = PRELUDE + textwrap.dedent(script) + "\ntrio.run(main)\n"
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "error"},
            **options,  # type: ignore[call-overload]
        )
        children.append(process)
        return process

    yield start
    for process in children:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
