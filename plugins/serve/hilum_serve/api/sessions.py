"""Operations on the list of sessions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from hilum.store import SessionInfo

from hilum_serve.hub import Hub
from hilum_serve.operations import Call, operation
from hilum_serve.users import Rights

MAX_LISTED = 500


class SessionsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which sessions to list.

    Attributes:
        query: Words that title, id or folder contain, in any order.
        workspace: Only sessions of this folder.
        limit: Maximum number of sessions.
        before: Only sessions that were last used before this Unix time.
    """

    query: Annotated[str, msgspec.Meta(max_length=500)] = ""
    workspace: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LISTED)] = 100
    before: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class ListedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session in the list.

    Attributes:
        id: Id of the session.
        title: Its title.
        workspace: Its folder.
        created: Unix time.
        updated: Unix time of the last event.
        running: Whether an agent is working in it.
        waiting: Number of approvals, questions and plans that wait for an answer.
        open: Whether the server has it open.
    """

    id: str
    title: str
    workspace: str
    created: float
    updated: float
    running: bool
    waiting: int
    open: bool


class SessionList(msgspec.Struct, frozen=True):
    """The sessions, most recently used first."""

    sessions: list[ListedSession]


class Me(msgspec.Struct, frozen=True):
    """Who the server takes the client for.

    Attributes:
        name: Name of the user.
        rights: What the user may do; each right includes those before it.
    """

    name: str
    rights: Rights


@operation("GET", "/api/me", rights="watch", returns=Me)
async def get_me(call: Call[None, None]) -> Me:
    """Return who the server takes the client for."""
    return Me(call.user.name, call.user.rights)


@operation(
    "GET", "/api/sessions", rights="watch", query=SessionsQuery, returns=SessionList, errors=(400,)
)
async def list_sessions(call: Call[SessionsQuery, None]) -> SessionList:
    """List the sessions that the user may use."""
    wanted = call.query
    words = wanted.query.casefold().split()
    listed = []
    for info in await call.hub.list_sessions(call.user):
        text = f"{info.title} {info.id} {info.workspace}".casefold()
        if wanted.workspace and info.workspace != wanted.workspace:
            continue
        if wanted.before and info.updated >= wanted.before:
            continue
        if not all(word in text for word in words):
            continue
        listed.append(describe_session(call.hub, info))
        if len(listed) >= wanted.limit:
            break
    return SessionList(listed)


def describe_session(hub: Hub, info: SessionInfo) -> ListedSession:
    """Return the entry of a session in the list."""
    hosted = hub.find_hosted(info.id)
    return ListedSession(
        id=info.id,
        title=info.title,
        workspace=info.workspace,
        created=info.created,
        updated=info.updated,
        running=hosted is not None and bool(hosted.session.runs),
        waiting=0 if hosted is None else len(list(hosted.view.waiting)),
        open=hosted is not None,
    )
