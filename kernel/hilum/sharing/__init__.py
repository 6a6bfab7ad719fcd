"""Working on one session in several terminals: one process has it open, and others join it.

The owner listens on a Unix socket (``share_session``). A terminal that joins (``join_session``) gets
every event and all streamed output, and may do what the owner's user may do: send prompts, steer,
stop, and answer. Of several answers to one question, the first wins.
"""

from hilum.sharing.joined_session import JoinedSession, is_shared, join_session
from hilum.sharing.server import share_session
from hilum.sharing.sockets import explain_peer_refusal

__all__ = [
    "JoinedSession",
    "explain_peer_refusal",
    "is_shared",
    "join_session",
    "share_session",
]
