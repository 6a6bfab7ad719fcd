"""Working on one session in several terminals: one process has it open, and others join it.

The owner listens on a Unix socket (``share_session``). A terminal that joins (``join_session``) gets
every event and all streamed output, and may do what the owner's user may do: send prompts, steer,
stop, and answer. Of several answers to one question, the first wins.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hilum.sharing.server import share_session
from hilum.sharing.sockets import explain_peer_refusal

if TYPE_CHECKING:
    from hilum.sharing.joined_session import JoinedSession, is_shared, join_session

__all__ = [
    "JoinedSession",
    "explain_peer_refusal",
    "is_shared",
    "join_session",
    "share_session",
]


def __getattr__(name: str) -> Any:
    """Return a name for joining a session, which most processes do not do."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module("hilum.sharing.joined_session"), name)
    return value
