"""A server as a client sees it: its folders and sessions."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import msgspec
import trio
from hilum import Mode, UsageError
from hilum.errors import E_BAD_ARGS
from hilum.hooks import open_nursery
from hilum.store import SessionInfo

from hilum_serve.remote_session import CATCH_UP_SECONDS, RemoteSession
from hilum_serve.server_connection import ServerConnection
from hilum_serve.session_state import SessionState


class RemoteServer(ServerConnection):
    """A server with its sessions; ``hilum_serve.client.connect`` creates it.

    Attributes:
        url: The address of the server, without a path.
        user: Name of the user whose token this is.
        rights: What the user may do.
    """

    async def list_workspaces(self) -> list[str]:
        """Return the folders on the server in which sessions can be opened."""
        found, _ = await self.call("GET", "/api/workspaces")
        return [each["path"] for each in found["workspaces"]]

    async def list_sessions(
        self, query: str = "", *, workspace: str = "", limit: int = 100
    ) -> list[SessionInfo]:
        """Return sessions, most recently used first.

        Args:
            query: Words that title, id or folder contain.
            workspace: Only sessions of this folder.
            limit: Maximum number of sessions.
        """
        given = {"query": query, "workspace": workspace, "limit": limit}
        found, _ = await self.call("GET", "/api/sessions", query=given)
        return [
            SessionInfo(
                id=each["id"],
                workspace=each["workspace"],
                title=each["title"],
                created=each["created"],
                updated=each["updated"],
                events=each["last"],
                forked=each["forked"],
            )
            for each in found["sessions"]
        ]

    @asynccontextmanager
    async def open_session(
        self,
        workspace: str | os.PathLike[str] = "",
        *,
        resume: str = "",
        kind: str = "",
        attended: bool | None = None,
        mode: str | None = None,
        model: str | None = None,
        approve: str | None = None,
    ) -> AsyncIterator[RemoteSession]:
        """Open a session on the server; see ``Kernel.open_session``.

        Leaving the block ends only the connection: the session and its runs continue.

        Args:
            workspace: The folder on the server; the server's only folder by default.
            resume: Id of a session to open instead of a new one.
            kind: Must be empty: the server decides.
            attended: Must not be false: somebody can always answer.
            mode: The mode.
            model: The model.
            approve: The approval policy.

        Raises:
            HilumError: The session cannot be opened.
        """
        if kind or attended is False:
            raise UsageError(
                "A session of a server is of the server's kind, and attended.", code=E_BAD_ARGS
            )
        state = await self._open(os.fspath(workspace), resume, mode, model, approve)
        path = f"/api/sessions/{quote(state.id, safe='')}"
        found, _ = await self.call("GET", f"{path}/modes")
        modes = [Mode(each["name"], description=each["description"]) for each in found["modes"]]
        session = RemoteSession(self, state, modes)
        async with open_nursery() as nursery:
            await nursery.start(session._follow, state.last)
            nursery.start_soon(session._outbox.run)
            try:
                if session._mirror.error is not None:
                    raise session._mirror.error
                if resume:
                    session.set(mode=mode, model=model, approve=approve)
                yield session
                # What the program sent last must not be lost because the program ends.
                with trio.move_on_after(CATCH_UP_SECONDS):
                    await session._outbox.drain()
            finally:
                session._mirror.close()
                nursery.cancel_scope.cancel()

    async def _open(
        self,
        workspace: str,
        resume: str,
        mode: str | None,
        model: str | None,
        approve: str | None,
    ) -> SessionState:
        if resume:
            path = f"/api/sessions/{quote(resume, safe='')}"
            found, _ = await self.call("GET", path)
            return msgspec.convert(found, SessionState)
        if not workspace:
            folders = await self.list_workspaces()
            if len(folders) != 1:
                raise UsageError(
                    "The server works in several folders.",
                    code=E_BAD_ARGS,
                    hint=f"Name one of them: {', '.join(folders)}",
                )
            workspace = folders[0]
        body = {"workspace": workspace, "mode": mode, "model": model or "", "approve": approve}
        found, _ = await self.call("POST", "/api/sessions", body)
        return msgspec.convert(found, SessionState)

    async def fork(self, session: str, upto: int | None = None, *, queued: bool = False) -> str:
        """Copy a session, or its events up to ``upto``, and return the copy's id.

        Args:
            session: Id of the session.
            upto: Sequence number of the last event to copy; all events by default.
            queued: Must be false: queued prompts do not run in a copy on a server.
        """
        if queued:
            raise UsageError("Queued prompts do not run in a copy.", code=E_BAD_ARGS)
        path = f"/api/sessions/{quote(session, safe='')}/fork"
        copy, _ = await self.call("POST", path, {"at": upto or 0}, seen=0)
        return str(copy["id"])
