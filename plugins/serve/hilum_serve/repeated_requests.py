"""Requests that a client sends again because it lost the response.

A client that loses the connection does not know whether its request was carried out. With a new id
in the header ``Hilum-Request``, it may send the request again: the server carries it out
once, and gives the same response to each repetition.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import attrs
import msgspec
import trio
from hilum.errors import E_BAD_ARGS, E_BUSY
from starlette.requests import Request
from starlette.responses import Response

from hilum_serve.problems import Problem, make_reply

HEADER = "hilum-request"
MAX_REMEMBERED = 200
"""Number of requests of each user that are remembered."""
MAX_USERS = 1_000
"""Number of users whose requests are remembered."""
MAX_RESPONSE = 100_000
"""Maximum size in bytes of a response that is remembered."""
_ID = re.compile(r"[0-9A-Za-z-]{8,64}")


@attrs.define
class _Known:
    """A request that was received.

    Attributes:
        content: Hash of the query and the body.
        done: Set when the response is there, or the request has failed without one.
        response: The response.
    """

    content: bytes
    done: trio.Event = attrs.field(factory=trio.Event)
    response: Response | None = None


class RepeatedRequests:
    """The last requests with an id, and their responses."""

    def __init__(self) -> None:
        self._users: OrderedDict[str, OrderedDict[str, _Known]] = OrderedDict()

    async def answer(
        self,
        request: Request,
        user: str,
        content: object,
        carry_out: Callable[[], Awaitable[Response]],
    ) -> Response:
        """Carry a request out, or return the response that an earlier copy of it got.

        Args:
            request: The request.
            user: Who sends it; the ids of users are independent of each other.
            content: The query and the body. A repetition must have the same.
            carry_out: Function that carries the request out, and returns errors as responses.

        Raises:
            Problem: The id has a wrong form, or was used for another request (400).
        """
        identity = request.headers.get(HEADER)
        if identity is None:
            return await carry_out()
        if not _ID.fullmatch(identity):
            text = "Hilum-Request must be 8 to 64 letters, digits or hyphens."
            raise Problem(400, E_BAD_ARGS, text)
        requests = self._users.setdefault(user, OrderedDict())
        self._users.move_to_end(user)
        key = f"{request.method} {request.url.path} {identity}"
        digest = hashlib.sha256(repr(content).encode(errors="surrogatepass")).digest()
        known = requests.get(key)
        while known is not None:
            if known.content != digest:
                text = "Hilum-Request was used for a request with another query or body."
                raise Problem(400, E_BAD_ARGS, text, "Use a new id for each request.")
            await known.done.wait()
            if known.response is not None:
                return known.response
            known = requests.get(key)
        known = _Known(digest)
        requests[key] = known
        try:
            response = await carry_out()
            known.response = response
            if len(response.body) > MAX_RESPONSE:
                known.response = _make_short_response()
        finally:
            if known.response is None:
                del requests[key]
            known.done.set()
        self._forget_oldest(requests)
        return response

    def _forget_oldest(self, requests: OrderedDict[str, _Known]) -> None:
        """Forget the oldest requests, but none that is being carried out."""
        ended = [key for key, known in requests.items() if known.done.is_set()]
        for key in ended[: max(len(ended) - MAX_REMEMBERED, 0)]:
            del requests[key]
        if len(self._users) > MAX_USERS:
            for user in list(self._users):
                if all(known.done.is_set() for known in self._users[user].values()):
                    del self._users[user]
                    break


def _make_short_response() -> Response:
    """Return what a repetition gets instead of a response that is too large to remember."""
    problem = Problem(
        409,
        E_BUSY,
        "The request was carried out, but its response is too large to be sent again.",
        "Read the state of the session.",
    )
    body = msgspec.json.encode(make_reply(problem))
    return Response(body, problem.status, media_type="application/json")
