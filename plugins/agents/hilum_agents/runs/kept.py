"""Conversations of named agents on disk, one file for each workspace and name. They outlive sessions.

The last session that had the agent work wins. A file that cannot be read is set aside, and the agent begins anew.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
from hilum import Message, data_folder


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept: whose, in which session it was last, and what was said."""

    agent: str
    workspace: str
    session: str
    messages: list[Message] = []


def path_of(workspace: str | os.PathLike[str], agent: str) -> Path:
    """Give the file of an agent's conversation in a workspace."""
    folder = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]
    name = hashlib.sha256(agent.encode(errors="surrogatepass")).hexdigest()[:24]
    return data_folder() / "agents" / "conversations" / folder / f"{name}.json"


def load(workspace: str | os.PathLike[str], agent: str) -> Kept | None:
    """Read what is kept of an agent, ``None`` if nothing is."""
    path = path_of(workspace, agent)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError):
        _set_aside(path)
        return None


def _set_aside(path: Path) -> None:
    try:
        path.replace(path.with_suffix(".unreadable"))
    except OSError:
        return


def save(kept: Kept) -> None:
    """Write a conversation, whole or not at all.

    Raises:
        OSError: It could not be written.
    """
    path = path_of(kept.workspace, kept.agent)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(kept))
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def clear(workspace: str | os.PathLike[str], agent: str) -> bool:
    """Forget an agent's conversation; says whether there was one.

    An empty one is written, so that a session that still has the old one learns of it.

    Raises:
        OSError: It could not be written.
    """
    known = load(workspace, agent)
    save(Kept(agent=agent, workspace=str(workspace), session=""))
    return known is not None and bool(known.messages)
