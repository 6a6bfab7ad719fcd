"""The table of operations, from which both the router and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs
import msgspec

from hilum_serve.users import Rights, User

if TYPE_CHECKING:
    from starlette.requests import Request

    from hilum_serve.hub import HostedSession, Hub

Q = TypeVar("Q")
B = TypeVar("B")


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The query of an operation that takes none."""


@attrs.frozen
class Call(Generic[Q, B]):
    """One request for an operation, after all checks.

    Attributes:
        hub: The sessions of the server.
        user: Who asks.
        query: The query, converted to the operation's type.
        body: The body, converted to the operation's type; ``None`` if the operation takes none.
        path: The variable parts of the path, by name.
        seen: The last sequence number that the client has seen; ``None`` for reading operations.
        request: The request itself, for operations that return a response of their own.
        hosted: The session of the path, kept open while the operation runs.
    """

    hub: Hub
    user: User
    query: Q
    body: B
    path: dict[str, str]
    seen: int | None
    request: Request
    _hosted: HostedSession | None = None

    @property
    def hosted(self) -> HostedSession:
        """Return the session of the path."""
        assert self._hosted is not None, "the operation's path has no {session}"
        return self._hosted


AnyCall = Call[Any, Any]
Handler = Callable[[AnyCall], Awaitable[Any]]
Decides = Callable[[AnyCall], int]


@attrs.frozen
class Operation:
    """An operation of the server.

    Attributes:
        method: The HTTP method.
        path: The path with its variable parts, such as ``/api/sessions/{session}``.
        handler: The function that carries the operation out. The first line of its docstring is the
            operation's summary.
        rights: The right that a user needs.
        query: The type of the query, a ``msgspec.Struct`` with ``forbid_unknown_fields``.
        body: The type of the body; ``None`` if the operation takes none.
        returns: The type of the result. If it is ``None``, the handler returns a response of
            starlette itself, with the media types in ``media``.
        status: The HTTP status of success.
        errors: The statuses of the errors that the handler itself can raise. Those of the checks
            before it are added.
        decides: Function that returns the sequence number at which what the call decides on was
            asked or last changed; a client that has not seen it is refused with ``E_STALE``.
        media: The media types of a response that the handler returns itself.
        max_body: The size limit of the body in bytes.
        opens: Whether a session in the path is opened for the operation.
    """

    method: str
    path: str
    handler: Handler
    rights: Rights
    query: type[Any] = NoQuery
    body: type[Any] | None = None
    returns: Any = None
    status: int = 200
    errors: tuple[int, ...] = ()
    decides: Decides | None = None
    media: tuple[str, ...] = ()
    max_body: int = 1_000_000
    opens: bool = True

    @property
    def has_session(self) -> bool:
        """Whether the path names a session."""
        return "{session}" in self.path

    @property
    def changes(self) -> bool:
        """Whether the operation changes something, so that it needs a body of JSON and our Origin."""
        return self.method not in ("GET", "HEAD")

    @property
    def needs_seen(self) -> bool:
        """Whether the client must send the last sequence number that it has seen."""
        return self.changes and self.has_session

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0].rstrip(".")


OPERATIONS: list[Operation] = []
"""All operations, in the order in which their modules are imported."""


def operation(
    method: str,
    path: str,
    *,
    rights: Rights,
    query: type[Any] = NoQuery,
    body: type[Any] | None = None,
    returns: Any = None,
    status: int = 200,
    errors: Sequence[int] = (),
    decides: Decides | None = None,
    media: Sequence[str] = (),
    max_body: int = 1_000_000,
    opens: bool = True,
) -> Callable[[Handler], Handler]:
    """Return a decorator that adds a function to the table; see ``Operation`` for the arguments."""

    def register(handler: Handler) -> Handler:
        OPERATIONS.append(
            Operation(
                method=method,
                path=path,
                handler=handler,
                rights=rights,
                query=query,
                body=body,
                returns=returns,
                status=status,
                errors=tuple(errors),
                decides=decides,
                media=tuple(media),
                max_body=max_body,
                opens=opens,
            )
        )
        return handler

    return register
