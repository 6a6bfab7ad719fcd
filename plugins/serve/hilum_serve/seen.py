"""What a client must have seen of a session before it decides on something."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from hilum.errors import E_INTERRUPTED, E_STALE, E_TIMEOUT

from hilum_serve.operations import Call
from hilum_serve.problems import E_SEEN, Problem
from hilum_serve.repeated_requests import HEADER as REQUEST_ID


async def check_seen(call: Call[Any, Any], decides: Callable[[Call[Any, Any]], int] | None) -> None:
    """Check that a client has seen what it decides on.

    Args:
        call: The request, in a session that is open.
        decides: Function that returns the sequence number at which that was asked or last changed;
            ``None`` if nothing is decided.

    Raises:
        Problem: The client names a number that the session has not reached (400), or what it
            decides on is newer than what it has seen (409, ``E_STALE``).
    """
    hosted = call.hosted
    seen = call.seen or 0
    # What is decided on is looked up in the view, which may be behind the log.
    if decides is not None and not await hosted.catch_up():
        raise _behind()
    if seen > hosted.last:
        raise Problem(
            400, E_SEEN, f"Hilum-Seen is {seen}, but the session's last number is {hosted.last}."
        )
    if decides is None:
        return
    needed = decides(call)
    if seen < needed:
        raise Problem(
            409,
            E_STALE,
            f"This was asked or changed at number {needed}, and you have seen only {seen}.",
            "Read the newer events, look at it again, and then decide.",
        )


def check_not_moved(call: Call[Any, Any]) -> None:
    """Check that no other server can have carried out an earlier copy of a request.

    The server that had the session open remembered the ids of requests (``Hilum-Request``), and this
    one does not know them. Whatever was carried out there is in the log, so a client that has seen
    the log up to the move does not repeat it unknowingly.

    Args:
        call: The request, in a session that is open. The number 0 states that nothing is known.

    Raises:
        Problem: The request may be a copy of one that was carried out (409, ``E_INTERRUPTED``).
    """
    seen = call.seen or 0
    if REQUEST_ID in call.request.headers and 0 < seen < call.hosted.moved_at:
        raise Problem(
            409,
            E_INTERRUPTED,
            "The session has moved to another server, which does not know whether this was carried"
            " out.",
            "Look at the session before you repeat it.",
        )


@asynccontextmanager
async def deciding_alone(
    call: Call[Any, Any], decides: Callable[[Call[Any, Any]], int]
) -> AsyncIterator[None]:
    """Let no other request of the session decide in the block, and check again what has been seen.

    Another request may have changed what this one decides on, while this one waited for it.

    Raises:
        Problem: As ``check_seen``.
    """
    async with call.hosted.lock:
        await check_seen(call, decides)
        yield


def _behind() -> Problem:
    return Problem(
        503,
        E_TIMEOUT,
        "The server could not check in time what you have seen of this session.",
        "Nothing was decided. Try again in a moment.",
    )
