"""Operations on sessions: list, create, open, rename, copy, close, delete and export them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import trio
from hilum import find_branch
from hilum.errors import E_BUSY, E_STALE, E_UNKNOWN
from hilum.events import FINAL
from hilum.store import SessionInfo, unspell_folder

from hilum_serve.api.shared_types import (
    Name,
    NoResult,
    Seq,
    change_session_settings,
    refuse_shared,
    refuse_while_working,
    require_right,
)
from hilum_serve.exports import MEDIA, ExportFormat, ExportResponse
from hilum_serve.hub import HostedSession, Hub
from hilum_serve.operations import Call, operation
from hilum_serve.problems import E_SEEN, Problem
from hilum_serve.session_state import SessionState, find_title, list_waiting
from hilum_serve.users import Rights

MAX_LISTED = 500
Title = Annotated[str, msgspec.Meta(max_length=200)]
Policy = Annotated[str, msgspec.Meta(pattern="^(ask_first|auto|readonly)$")]


# --- who and where ----------------------------------------------------------------------------------


class Me(msgspec.Struct, frozen=True):
    """The user that the client's token belongs to.

    Attributes:
        name: Name of the user.
        rights: What the user may do; each right includes those before it.
        instance: A random text that changes with each start of the server; servers that pass
            requests on to each other have the same one for ever.
        shared: Whether a terminal serves its own session with ``/share``, and nothing else.
    """

    name: str
    rights: Rights
    instance: str
    shared: bool


class WorkspaceFacts(msgspec.Struct, frozen=True):
    """A folder that the server works in.

    Attributes:
        path: Its path, as in ``POST /api/sessions``.
        name: The last part of the path.
    """

    path: str
    name: str


class WorkspaceList(msgspec.Struct, frozen=True):
    """The folders whose sessions the user may use."""

    workspaces: list[WorkspaceFacts]


@operation("GET", "/api/me", rights="watch", returns=Me)
async def get_me(call: Call[None, None]) -> Me:
    """Return the user that the client's token belongs to."""
    hub = call.hub
    return Me(call.user.name, call.user.rights, hub.instance, shared=not hub.workspaces)


@operation("GET", "/api/workspaces", rights="watch", returns=WorkspaceList)
async def list_workspaces(call: Call[None, None]) -> WorkspaceList:
    """List the folders whose sessions the user may use."""
    folders = call.hub.folders_of(call.user)
    return WorkspaceList([WorkspaceFacts(str(folder), folder.name) for folder in folders])


# --- the list ---------------------------------------------------------------------------------------


class SessionsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which sessions to list.

    Attributes:
        query: Words that title, id or folder contain, in any order.
        workspace: Only sessions of this folder.
        limit: Maximum number of sessions.
        before: Only sessions that were last used before this Unix time.
    """

    query: Annotated[str, msgspec.Meta(max_length=200)] = ""
    workspace: Annotated[str, msgspec.Meta(max_length=400)] = ""
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
        forked: Id of the session that it is a copy of; empty if it is no copy.
        last: Last sequence number of the session.
        running: Whether an agent is working in it.
        waiting: Number of approvals, questions and plans that wait for an answer.
        asked: Sequence number at which the newest of them was asked; 0 if none waits.
        open: Whether the server has it open, or another server of the same group.
    """

    id: str
    title: str
    workspace: str
    created: float
    updated: float
    forked: str
    last: int
    running: bool
    waiting: int
    asked: int
    open: bool


class SessionList(msgspec.Struct, frozen=True):
    """The sessions, most recently used first."""

    sessions: list[ListedSession]


@operation("GET", "/api/sessions", rights="watch", query=SessionsQuery, returns=SessionList)
async def list_sessions(call: Call[SessionsQuery, None]) -> SessionList:
    """List the sessions that the user may use."""
    wanted = call.query
    words = wanted.query.casefold().split()
    chosen = []
    for info in await call.hub.list_sessions(call.user):
        text = f"{info.title} {info.id} {info.workspace}".casefold()
        if wanted.workspace and info.workspace != wanted.workspace:
            continue
        if wanted.before and info.updated >= wanted.before:
            continue
        if not all(word in text for word in words):
            continue
        chosen.append(info)
        if len(chosen) >= wanted.limit:
            break
    held = await call.hub.find_holders(chosen)
    return SessionList([describe_session(call.hub, info, info.id in held) for info in chosen])


def describe_session(hub: Hub, info: SessionInfo, is_held: bool) -> ListedSession:
    """Return the entry of a session in the list.

    Args:
        hub: The sessions of the server.
        info: The description of the session.
        is_held: Whether another process has it open. What it does is known from the log alone, which
            tells the state of the main agent.
    """
    hosted = hub.find_hosted(info.id)
    if hosted is None and is_held:
        is_waiting = info.state == "waiting_for_approval"
        return ListedSession(
            id=info.id,
            title=info.title,
            workspace=info.workspace,
            created=info.created,
            updated=info.updated,
            forked=info.forked,
            last=info.events,
            running=info.state != "idle" and info.state not in FINAL,
            waiting=int(is_waiting),
            asked=info.events if is_waiting else 0,
            open=True,
        )
    waiting = list(list_waiting(hosted)) if hosted is not None else []
    return ListedSession(
        id=info.id,
        title=info.title or (find_title(hosted) if hosted is not None else ""),
        workspace=info.workspace,
        created=info.created,
        updated=info.updated,
        forked=info.forked,
        last=hosted.last if hosted is not None else info.events,
        running=hosted is not None and bool(hosted.session.runs),
        waiting=len(waiting),
        asked=max((item.seq for item in waiting), default=0),
        open=hosted is not None,
    )


# --- one session ------------------------------------------------------------------------------------


class NewSession(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A session to create.

    Attributes:
        workspace: Its folder, as in ``GET /api/workspaces``.
        title: Its title; by default, its first prompt.
        model: Its model, as provider/name; by default, that of the settings.
        mode: Its mode; by default, that of the settings.
        approve: Its approval policy, which needs the right ``approve``; by default, that of the
            settings.
    """

    workspace: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    title: Title = ""
    model: Annotated[str, msgspec.Meta(max_length=300)] = ""
    mode: Name | None = None
    approve: Policy | None = None


class SessionChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to change about a session; null leaves a value as it is.

    Attributes:
        title: Its title.
        mode: Its mode, from the next turn on.
        model: Its model, from the next turn on.
        approve: Its approval policy, which needs the right ``approve``.
    """

    title: Title | None = None
    mode: Name | None = None
    model: Annotated[str, msgspec.Meta(min_length=1, max_length=300)] | None = None
    approve: Policy | None = None


class ForkRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Where to copy a session.

    Attributes:
        at: Sequence number of the last event to copy; 0 for all events.
    """

    at: Seq = 0


class SessionCopy(msgspec.Struct, frozen=True):
    """A copy of a session.

    Attributes:
        id: Id of the copy.
    """

    id: str


class ExportQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How to export a session.

    Attributes:
        format: The format: ``markdown``, ``html`` (one page without scripts) or ``json`` (the
            events).
    """

    format: ExportFormat = "markdown"


async def make_state(hosted: HostedSession) -> SessionState:
    """Return the state of a session with its Git branch."""
    await hosted.catch_up()
    branch = await trio.to_thread.run_sync(find_branch, hosted.workspace)
    if branch != hosted.branch:
        hosted.branch = branch
        hosted.feed.note_state()
    return hosted.make_state()


@operation(
    "POST",
    "/api/sessions",
    rights="prompt",
    body=NewSession,
    returns=SessionState,
    status=201,
)
async def create_session(call: Call[None, NewSession]) -> SessionState:
    """Create a session and open it."""
    wanted = call.body
    if wanted.approve is not None:
        require_right(call, "approve", "Choosing the approval policy")
    hosted = await call.hub.create(
        Path(wanted.workspace),
        call.user,
        title=" ".join(wanted.title.split()),
        model=wanted.model,
        mode=wanted.mode,
        approve=wanted.approve,
    )
    async with hosted.use():
        return await make_state(hosted)


@operation("GET", "/api/sessions/{session}", rights="watch", returns=SessionState)
async def get_session(call: Call[None, None]) -> SessionState:
    """Return the state of a session, which is opened if it is closed."""
    return await make_state(call.hosted)


@operation(
    "PATCH",
    "/api/sessions/{session}",
    rights="prompt",
    body=SessionChange,
    returns=SessionState,
)
async def change_session(call: Call[None, SessionChange]) -> SessionState:
    """Change title, mode, model or approval policy of a session."""
    change = call.body
    hosted = call.hosted
    if change.approve is not None:
        require_right(call, "approve", "Changing the approval policy")
    await change_session_settings(
        hosted.session, mode=change.mode, model=change.model, approve=change.approve
    )
    if change.title is not None:
        title = " ".join(change.title.split())
        await call.hub.store.rename(hosted.id, title)
        hosted.rename(title)
    return await make_state(hosted)


@operation("POST", "/api/sessions/{session}/open", rights="prompt", returns=SessionState)
async def open_session(call: Call[None, None]) -> SessionState:
    """Open a session."""
    return await make_state(call.hosted)


@operation("POST", "/api/sessions/{session}/close", rights="prompt", returns=NoResult, opens=False)
async def close_session(call: Call[None, None]) -> NoResult:
    """Close a session on the server; its runs are stopped, and it can be opened again."""
    info = await _check_closed_seen(call)
    hosted = call.hub.find_hosted(info.id)
    if hosted is not None:
        _refuse_foreign(hosted)
    # It may also be opening.
    await call.hub.close(info.id)
    return NoResult()


@operation(
    "DELETE",
    "/api/sessions/{session}",
    rights="administer",
    returns=NoResult,
    opens=False,
)
async def delete_session(call: Call[None, None]) -> NoResult:
    """Delete a session and its log."""
    info = await _check_closed_seen(call)
    hosted = call.hub.find_hosted(info.id)
    if hosted is not None:
        _refuse_foreign(hosted)
        refuse_while_working(hosted.session, "the session cannot be deleted")
        await hosted.catch_up()
        newest = hosted.view.entries[-1].seq if hosted.view.entries else 0
        _check_fresh(call.seen or 0, newest)
    else:
        _check_fresh(call.seen or 0, info.events)
    await call.hub.delete(info.id, Path(unspell_folder(info.workspace)))
    return NoResult()


@operation(
    "POST",
    "/api/sessions/{session}/fork",
    rights="prompt",
    body=ForkRequest,
    returns=SessionCopy,
    status=201,
)
async def fork_session(call: Call[None, ForkRequest]) -> SessionCopy:
    """Copy a session, or its events up to one of them, into a new session."""
    hosted = call.hosted
    refuse_shared(hosted, "Copy it there.")
    at = call.body.at
    if at > hosted.last:
        message = f"The session has only {hosted.last} events."
        raise Problem(404, E_UNKNOWN, message, "Use 0 to copy all of them.")
    # Whoever may not approve calls must not get approvals that nobody can revoke in the original.
    copy = await hosted.session.kernel.fork(
        hosted.id, at or None, queued=False, grants=call.user.may("approve")
    )
    return SessionCopy(copy)


@operation(
    "GET",
    "/api/sessions/{session}/export",
    rights="watch",
    query=ExportQuery,
    media=tuple(MEDIA.values()),
    opens=False,
)
async def export_session(call: Call[ExportQuery, None]) -> ExportResponse:
    """Export a session as Markdown, HTML or JSON."""
    info = await call.hub.find_info(call.path["session"], call.user)
    return ExportResponse(call.hub.store, info, call.query.format, call.hub.exports)


async def _check_closed_seen(call: Call[Any, Any]) -> SessionInfo:
    """Return the entry of a session that is not opened, after checking what the client has seen.

    Raises:
        HilumError: There is no such session, or the client names a number that it has not reached.
    """
    info = await call.hub.find_info(call.path["session"], call.user)
    hosted = call.hub.find_hosted(info.id)
    last = hosted.last if hosted is not None else info.events
    if (call.seen or 0) > last:
        message = f"Hilum-Seen is {call.seen}, but the session's last number is {last}."
        raise Problem(400, E_SEEN, message)
    return info


def _check_fresh(seen: int, needed: int) -> None:
    if seen < needed:
        raise Problem(
            409,
            E_STALE,
            f"The session has changed at number {needed}, and you have seen only {seen}.",
            "Look at it again before you delete it.",
        )


def _refuse_foreign(hosted: HostedSession) -> None:
    if not hosted.is_own:
        raise Problem(
            409,
            E_BUSY,
            "A terminal has the session open and shares it.",
            "Close it in the terminal.",
        )
