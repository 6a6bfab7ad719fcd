"""Stores the conversations of named agents on disk, one file per workspace and agent.

A conversation outlives its session. Only the session that holds a conversation's lock may continue
the conversation. The lock belongs to the open file (``flock``), so it is released when the process
ends, and two sessions in one process also exclude each other. An unreadable file is renamed, and
the agent starts with an empty conversation.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
from hilum import Message, UsageError, data_folder, make_private_folder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class StoredConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A stored conversation.

    Attributes:
        agent: Name of the agent.
        workspace: Its workspace.
        session: The session that last wrote the conversation.
        messages: The messages.
    """

    agent: str
    workspace: str
    session: str
    messages: list[Message] = []


def path_of(workspace: str | os.PathLike[str], agent: str) -> Path:
    """Return the path of the file with an agent's conversation in a workspace."""
    # The path contains hashes, because names and paths may contain characters that the file system
    # forbids.
    folder = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]
    name = hashlib.sha256(agent.encode(errors="surrogatepass")).hexdigest()[:24]
    return data_folder() / "agents" / "conversations" / folder / f"{name}.json"


def lock(workspace: str | os.PathLike[str], agent: str) -> IO[bytes] | None:
    """Lock the conversation of an agent in a workspace.

    Returns:
        The lock file (closing it releases the lock), or ``None`` if another session holds the lock.
    """
    path = path_of(workspace, agent).with_suffix(".lock")
    make_private_folder(path.parent)
    file = path.open("ab")
    if fcntl is None:
        return file  # without locks, the session that writes last wins
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:
        pass  # some network file systems do not support locks
    return file


def load(workspace: str | os.PathLike[str], agent: str) -> StoredConversation | None:
    """Read an agent's conversation; return ``None`` if it does not exist or cannot be read."""
    path = path_of(workspace, agent)
    try:
        return msgspec.json.decode(path.read_bytes(), type=StoredConversation)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError):
        _set_aside(path)
        return None


def _set_aside(path: Path) -> None:
    """Rename an unreadable file, so that the next save does not destroy it."""
    try:
        path.replace(path.with_suffix(".unreadable"))
    except OSError:
        return


def save(conversation: StoredConversation) -> None:
    """Write a conversation atomically.

    Raises:
        OSError: The file could not be written.
    """
    path = path_of(conversation.workspace, conversation.agent)
    make_private_folder(path.parent)
    # Two processes must not write to the same temporary file.
    part = path.with_suffix(f".{os.getpid()}.part")
    # Only the user may read an agent's conversation.
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(conversation))
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def clear(workspace: str | os.PathLike[str], agent: str) -> bool:
    """Delete the messages of an agent's conversation.

    Returns:
        Whether there were any messages.

    Raises:
        UsageError: The agent is running in another session.
        OSError: The file could not be written.
    """
    with _locked(workspace, agent):
        known = load(workspace, agent)
        # The file is kept with an empty conversation, so that a session that still has the old
        # messages detects the deletion.
        save(StoredConversation(agent=agent, workspace=str(workspace), session=""))
    return known is not None and bool(known.messages)


def fork(workspace: str | os.PathLike[str], agent: str, new: str) -> None:
    """Copy an agent's conversation to another agent.

    Raises:
        UsageError: There is nothing to copy, or the other agent has a conversation or is running.
        OSError: The file could not be written.
    """
    known = load(workspace, agent)
    if known is None or not known.messages:
        raise UsageError(
            f"The agent {agent} has no conversation in this workspace.",
            code="E_NOT_FOUND",
            hint=f"`hilum agents run {agent} PROMPT` starts one.",
        )
    with _locked(workspace, new):
        taken = load(workspace, new)
        if new == "main" or (taken is not None and taken.messages):
            raise UsageError(
                f"The agent {new} already has a conversation.",
                code="E_BUSY",
                hint=f"`hilum agents clear {new}` deletes it.",
            )
        save(msgspec.structs.replace(known, agent=new, session=""))


@contextmanager
def _locked(workspace: str | os.PathLike[str], agent: str) -> Iterator[None]:
    """Hold the lock on an agent's conversation inside this context.

    Raises:
        UsageError: Another session holds the lock.
    """
    held = lock(workspace, agent)
    if held is None:
        raise UsageError(
            f"The agent {agent} is running in another session.",
            code="E_BUSY",
            hint="Stop it first.",
        )
    with held:
        yield
