"""The data of a memory."""

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
        id: Its number, which is never reused.
        scope: ``USER``, or the workspace that it belongs to.
        kind: The kind of information.
        text: One short line.
        origin: ``user`` (the user requested or wrote it), ``tool`` (the model wrote it for the
            user), ``run`` (learned after a run).
        session: Id of the session that it comes from; empty for none.
        run: Id of the run that it comes from; empty for none.
        paths: Paths of files that it is about.
        created: When it was first written.
        updated: When it was last written or confirmed.
        used: When it was last recalled; 0 for never.
        replaced: Number of the memory that replaced it; 0 if it is current.
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
        replaced: The memories that it replaced.
    """

    memory: Memory
    what: Literal["new", "same", "replaces"]
    replaced: tuple[Memory, ...] = ()
