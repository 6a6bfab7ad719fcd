"""Requests that a client sends again because it lost the response.

A client that loses the connection does not know whether its request was carried out. With an id of
its own in the header ``Hilum-Request``, it may send the request again: the server carries it out
once, and gives the same response to each repetition.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import attrs
import trio
from hilum.errors import E_BAD_ARGS
from starlette.requests import Request
from starlette.responses import Response

from hilum_serve.problems import Problem

HEADER = "hilum-request"
MAX_REMEMBERED = 1_000
_ID = re.compile(r"[0-9A-Za-z-]{8,64}")


@attrs.define
class _Known:
    """A request that was received.

    Attributes:
        done: Set when the response is there, or the request has failed without one.
        response: The response.
    """

    done: trio.Event = attrs.field(factory=trio.Event)
    response: Response | None = None


class RepeatedRequests:
    """The last requests with an id, and their responses."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    async def answer(
        self, request: Request, user: str, carry_out: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Carry a request out, or return the response that an earlier copy of it got.

        Args:
            request: The request.
            user: Who sends it; the ids of users are independent of each other.
            carry_out: Function that carries the request out, and returns errors as responses.

        Raises:
            Problem: The id has a wrong form (400).
        """
        identity = request.headers.get(HEADER)
        if identity is None:
            return await carry_out()
        if not _ID.fullmatch(identity):
            text = "Hilum-Request must be 8 to 64 letters, digits or hyphens."
            raise Problem(400, E_BAD_ARGS, text)
        key = (user, f"{request.method} {request.url.path} {identity}")
        known = self._known.get(key)
        while known is not None:
            await known.done.wait()
            if known.response is not None:
                return known.response
            known = self._known.get(key)
        known = _Known()
        self._known[key] = known
        try:
            known.response = await carry_out()
        finally:
            if known.response is None:
                del self._known[key]
            known.done.set()
        while len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return known.response
