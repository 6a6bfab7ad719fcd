"""What a memory is."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import msgspec
from hilum import data_folder

Kind = Literal["fact", "decision", "preference"]
KINDS: tuple[Kind, ...] = get_args(Kind)
USER = ""
"""The scope of memories that hold in every workspace.

Any other scope is the path of a workspace.
"""
MOST = 500
"""Characters of a memory."""


def memory_path() -> Path:
    """Where the user's memories are: never in a project."""
    return data_folder() / "memory.db"


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory as it is kept. Times are Unix times in seconds.

    Attributes:
        id: Its number, never given again.
        scope: ``USER``, or the workspace it belongs to.
        kind: What it tells.
        text: One short line.
        origin: ``user`` (said to remember it, or wrote it by hand), ``tool`` (the model did, for
            the user), ``run`` (found after a run).
        session: The session it comes from, empty for none.
        run: The run it comes from, empty for none.
        paths: The files it concerns.
        created: When it was first written.
        updated: When it was last written or confirmed.
        used: When it was last recalled, 0 for never.
        replaced: Number of the memory that took its place, 0 while it holds.
    """

    id: int = 0
    scope: str = USER
    kind: Kind = "fact"
    text: str
    origin: Literal["user", "tool", "run"] = "user"
    session: str = ""
    run: str = ""
    paths: tuple[str, ...] = ()
    created: float = 0.0
    updated: float = 0.0
    used: float = 0.0
    replaced: int = 0


class Written(msgspec.Struct, frozen=True):
    """What came of writing a memory.

    Attributes:
        memory: The memory as it stands now.
        what: ``new``; ``same``: it was known, and is confirmed; ``replaces``: it took the place of
            older ones.
        replaced: The memories whose place it took.
    """

    memory: Memory
    what: Literal["new", "same", "replaces"]
    replaced: tuple[Memory, ...] = ()
