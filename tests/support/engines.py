"""The engines that keep sessions, for tests that all of them must pass unchanged."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from hilum.events import AnyEvent, PluginEvent, RunStarted
from hilum.messages import Text, UserMessage
from hilum.store import MemoryStore, Store
from hilum_postgres import PostgresStore
from hilum_store import SqliteStore
from postgres_server import PostgresServer

PRELUDE = """
import os, sys, trio
from pathlib import Path
from hilum.errors import StoreError
from hilum.events import PluginEvent, RunEnded
from hilum.store import SessionInfo
from hilum_postgres import PostgresStore
from hilum_store import SqliteStore

kind, place = sys.argv[1:3]

def make_store():
    return PostgresStore(place) if kind == "postgres" else SqliteStore(Path(place))

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def event(seq, size=20):
    return PluginEvent(seq=seq, agent="main", name="test.fact", data={"n": seq, "x": "x" * size})
"""


class Engine:
    """Sessions in one place, which any number of stores and processes use.

    Args:
        kind: ``memory``, ``sqlite`` or ``postgres``.
        place: The file or the URL.
    """

    def __init__(self, kind: str, place: str) -> None:
        self.kind = kind
        self.place = place
        self.children: list[subprocess.Popen[str]] = []

    def make_store(self) -> Store:
        """Return another store on the same sessions."""
        if self.kind == "memory":
            return MemoryStore()
        return (
            PostgresStore(self.place) if self.kind == "postgres" else SqliteStore(Path(self.place))
        )

    def start(self, script: str, *arguments: str) -> "subprocess.Popen[str]":
        """Start a Python process that runs ``async def main()`` of a script."""
        code = PRELUDE + textwrap.dedent(script) + "\ntrio.run(main)\n"
        process = subprocess.Popen(
            [sys.executable, "-c", code, self.kind, self.place, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        self.children.append(process)
        return process

    def close(self) -> None:
        """End all processes."""
        for process in self.children:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()


def make_engine(kind: str, folder: Path, postgres: Callable[[], PostgresServer]) -> Engine:
    """Return an engine without sessions."""
    if kind == "postgres":
        return Engine(kind, postgres().make_database())
    return Engine(kind, str(folder / "data" / "sessions.db"))


def fact(seq: int, text: str = "") -> PluginEvent:
    """Return an event of a plugin."""
    return PluginEvent(seq=seq, at=seq / 2, agent="main", name="test.fact", data={"text": text})


def facts(count: int, after: int = 0) -> list[AnyEvent]:
    """Return consecutive events."""
    return [fact(seq) for seq in range(after + 1, after + count + 1)]


def prompt(seq: int, text: str) -> RunStarted:
    """Return the event of a prompt."""
    return RunStarted(
        seq=seq, agent="main", run="r1", text=text, message=UserMessage((Text(text),))
    )
