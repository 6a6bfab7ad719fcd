"""Conversations of named agents on disk, one file for each workspace and name.

They outlive sessions.

An agent works in one session at a time: the one that holds its lock. The lock belongs to the open
file (``flock``), so that the end of a process gives it back, and two sessions of one process
exclude each other, too. A file that cannot be read is set aside, and the agent begins anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
from hilum import Message, UsageError, data_folder


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept: whose, in which session it was last, and what was said."""

    agent: str
    workspace: str
    session: str
    messages: list[Message] = []


def path_of(workspace: str | os.PathLike[str], agent: str) -> Path:
    """Return the file of an agent's conversation in a workspace."""
    folder = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]
    name = hashlib.sha256(agent.encode(errors="surrogatepass")).hexdigest()[:24]
    return data_folder() / "agents" / "conversations" / folder / f"{name}.json"


def lock(workspace: str | os.PathLike[str], agent: str) -> IO[bytes] | None:
    """Take the lock of an agent in a workspace; closing the file gives it back.

    Returns:
        The file; ``None`` while another session has the agent work.
    """
    path = path_of(workspace, agent).with_suffix(".lock")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = path.open("ab")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except (ImportError, OSError):
        pass  # this system, or this disk, has no locks: the last session wins
    return file


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
        UsageError: It is at work in another session.
        OSError: It could not be written.
    """
    with _alone(workspace, agent):
        known = load(workspace, agent)
        save(Kept(agent=agent, workspace=str(workspace), session=""))
    return known is not None and bool(known.messages)


def fork(workspace: str | os.PathLike[str], agent: str, new: str) -> None:
    """Give another agent a copy of an agent's conversation; from there each goes its own way.

    Raises:
        UsageError: There is nothing to copy, the other has a conversation already, or it is at
            work.
        OSError: It could not be written.
    """
    known = load(workspace, agent)
    if known is None or not known.messages:
        raise UsageError(f"The agent {agent} has no conversation.", code="E_NOT_FOUND")
    with _alone(workspace, new):
        taken = load(workspace, new)
        if (taken is not None and taken.messages) or new == "main":
            raise UsageError(
                f"The agent {new} has a conversation already.",
                code="E_BUSY",
                hint="Clear it first.",
            )
        save(msgspec.structs.replace(known, agent=new, session=""))


@contextmanager
def _alone(workspace: str | os.PathLike[str], agent: str) -> Iterator[None]:
    held = lock(workspace, agent)
    if held is None:
        raise UsageError(
            f"The agent {agent} is at work in another session.",
            code="E_BUSY",
            hint="Stop it first.",
        )
    with held:
        yield
