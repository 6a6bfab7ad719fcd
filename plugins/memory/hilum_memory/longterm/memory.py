"""The data types for memories."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import msgspec
from hilum import data_folder

Kind = Literal["fact", "decision", "preference"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# The scope of memories that apply to every workspace; any other scope is a workspace's path.
USER = ""
# Maximum length of a memory in characters.
MAX_LENGTH = 500


def memory_path() -> Path:
    """Return the path of the user's memory file, which is never in a project."""
    return data_folder() / "memory.db"


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory as it is stored. Times are Unix times in seconds.

    Attributes:
        id: The memory's number, which is never reused.
        scope: ``USER``, or the path of the workspace to which the memory belongs.
        kind: The kind of information.
        text: One short line.
        origin: ``user`` (the user requested or wrote it), ``tool`` (the model wrote it for the
            user), ``run`` (learned after a run).
        session: Id of the session from which the memory comes; empty for none.
        run: Id of the run from which the memory comes; empty for none.
        paths: Paths of the files that the memory is about.
        created: Time at which the memory was first written.
        updated: Time at which the memory was last written or confirmed.
        used: Time at which the memory was last recalled; 0 for never.
        replaced: Number of the memory that replaced this one; 0 if this one is current.
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


class WriteResult(msgspec.Struct, frozen=True):
    """The result of writing a memory.

    Attributes:
        memory: The memory as stored now.
        what: ``new``, ``same`` (an existing memory was confirmed) or ``replaces``.
        replaced: The memories that the new memory replaced.
    """

    memory: Memory
    what: Literal["new", "same", "replaces"]
    replaced: tuple[Memory, ...] = ()
